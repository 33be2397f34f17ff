#!/bin/sh
# Every bundled puzzler can be decided on the shipped recording: its two columns differ in wall or device time, and what
# explains most of that is one of its choices.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

n=0
for script in "${FB_SRCDIR:-.}"/scripts/puzzlers/*.lua; do
    puzzler=$(basename "$script" .lua)
    grep -q '^  puzzle = {' "$script" || continue
    n=$((n + 1))
    sed -n 's/^ *compare = {\(.*\)},.*/\1/p' "$script" | tr ',' '\n' | tr -d '" ' >compared
    set --
    while read -r column; do
        case $column in
        *@*) set -- "$@" "$column:h200" ;;
        ?*) set -- "$@" "$column@replay:h200" ;;
        esac
    done <compared
    fb diff "$script" "$@"
    is "$puzzler: its columns differ" 0 out '^(wall: |.*; device: )(faster: |[0-9.]+× slower)' out '^bytes|^launches|^copies|^compute'
    key=$(sed -n 's/.*: the largest part is \([a-z]*\):.*/\1/p' out)
    holds "$puzzler: what explains it is a choice" \
        sh -c 'test -n "$1" && sed -n "/^    choices = {/,/^    },/p" "$2" | grep -q "{ \"$1\","' - "$key" "$script"
done
holds "all puzzlers were asked" test "$n" -ge 9

fb diff transpose crossed:max@replay:h200 straight:max@replay:h200 --of device
is "the device's time alone" 0 out '^first +█+ +8\.5 µs' out '^device: the largest part is bytes' no '^launches'
fb diff transpose crossed:max@replay:h200 straight:max@replay:h200 --of kernels
is "another time" 2 err1 'there are: wall, device'

# What kind of figure it is, in every format.
cat >kinds.lua <<'LUA'
return require("fusebox").script {
  params = { n = require("fusebox").int { 96 } },
  model = function(g, p) return g:input("x", { p.n, 33 }):tanh():exp():relu() end,
  experiment = function(e)
    for c in e:sweep { plan = { "none", "max" } } do
      local r = e:measure(c)
      e:row(c, { per_s = 1e6 / r.wall_us.median, slow = r.wall_us.p90, launches = r.launches })
    end
    e:plot { y = "per_s", low = "slow", high = "slow" }
  end,
}
LUA
fb run kinds.lua none max --device replay:h200
is "a prediction has its sign, and neither spread nor error" 0 out ' ~[0-9.]+ µs .* predicted$' out '^~ predicted by the cost model' \
    no '✓|[0-9]–[0-9]'
fb run kinds.lua none max --device replay:h200 --format json
json "in JSON" out fusebox=2 columns.0.source=predicted columns.0.wall_us.kind=predicted columns.0.wall_us.low \
    '!columns.0.wall_us.p10' '!columns.0.error'
fb run kinds.lua none max --device replay:h200 --format html
is "in a page, with a legend" 0 out '<td>~[0-9.]+ µs</td>' out '<dt>~ predicted</dt><dd>by the cost model' out 'class="time guess"'
fb run kinds.lua --experiment --device replay:h200
is "an experiment's rows and their ranking" 0 out '~[0-9.e+]+ +predicted' out 'max@?.* +~[0-9.]+ k' out '^~ predicted by the cost model'
fb run kinds.lua --experiment --device replay:h200 --format csv
is "as CSV" 0 out '^plan,.*,source' out ',predicted'
fb run kinds.lua --experiment --device replay:h200 --format markdown
is "as Markdown" 0 out '\| ~[0-9.e+]+ \|.* predicted \|' out '^~ predicted by the cost model'
fb run kinds.lua --experiment --device replay:h200 --format svg
is "as a picture" 0 out 'class="time guess"' out '~ predicted by the cost model'
fb run kinds.lua --experiment --device replay:h200 --out rows.jsonl
fb rows.jsonl
holds "and in a results file" grep -q '"source":"predicted"' rows.jsonl

# Ratios are told of one device and one computation.
cat >unlike.lua <<'LUA'
return require("fusebox").script {
  variants = {
    small = function(g) return g:input("x", { 64 }):tanh() end,
    large = function(g) return g:input("x", { 128 }):tanh() end,
  },
}
LUA
fb run unlike.lua small:max@host large:max@host
is "another computation has no ratio" 0 out '^large:max@host .*s  +-  ' out '^-: no ratio, it is another computation'
fb run unlike.lua small:max@host small:max@replay:h200
is "nor has another device" 0 out '^small:max@replay:h200 .*s  +-  ' out '^-: no ratio, it is another device'
done_testing
