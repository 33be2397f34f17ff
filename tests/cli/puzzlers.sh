#!/bin/sh
# Every bundled puzzler is whole, runs on a host, and can be decided on the shipped recording: its two columns differ in
# wall or device time, and what explains most of that is one of its choices. One that is not recorded yet is skipped there.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

# What makes a puzzler's columns small; nothing: as it is.
reduced() {
    case $1 in
    barrier) echo "--set N=3 --set T=3 --set H=20" ;;
    flops) echo "--set n=1001 --set depth=3" ;;
    horizontal) echo "--set features=3 --set rows=13 --set columns=29" ;;
    item) echo "--set tasks=3 --set samples=103" ;;
    launch_bound) echo "--set tensors=3 --set size=103" ;;
    launch_order) echo "--set blocks=3 --set size=1003" ;;
    operator_order | recompute | transpose | transposed_output) echo "--set rows=37 --set columns=53" ;;
    optimiser) echo "--set batch=3 --set inputs=37 --set outputs=29" ;;
    over_fusion) echo "--set n=1003 --set taps=5" ;;
    overlap) echo "--set rows=37 --set width=19" ;;
    precision) echo "--set inputs=44 --set outputs=29" ;;
    registers) echo "--set n=1003 --set places=4099 --set hops=3 --set depth=20" ;;
    split_stack | split_stack_compiled) echo "$small" ;;
    stored_scores) echo "--set heads=2 --set seq=37 --set head_dim=12" ;;
    upload) echo "--set batch=5 --set fields=3 --set words=17 --set rows=19 --set size=4" ;;
    esac
}

# What a host says of a plan that only a GPU can launch; nothing: it runs there.
refusal() {
    case $1 in
    launch_bound) echo 'launch mode .graph. is for CUDA devices' ;;
    esac
}

of_device() { # DEVICE: the columns of the file `compared` there, those of a framework as they were recorded
    while read -r column; do
        case $column in
        *@*) echo "$column:h200" ;;
        ?*) echo "$column@$1" ;;
        esac
    done <compared
}

skip() { # NAME WHY
    tests=$((tests + 1))
    echo "ok $tests - $1 # SKIP $2"
}

whole() { # SCRIPT: what a student reads is all there
    for part in order about compare ask choices hints tell; do
        sed -n '/^  puzzle = {$/,/^  },$/p' "$1" | grep -q "^    $part = " || return 1
    done
}

n=0
for script in "${FB_SRCDIR:-.}"/scripts/puzzlers/*.lua; do
    puzzler=$(basename "$script" .lua)
    grep -q '^  puzzle = {' "$script" || continue
    n=$((n + 1))
    sed -n 's/^ *compare = {\(.*\)},.*/\1/p' "$script" | tr ',' '\n' | tr -d '" ' >compared
    sed -n 's/^    order = \([0-9]*\),$/\1/p' "$script" >>orders
    holds "$puzzler: whole" whole "$script"

    if grep -q @ compared; then
        : # its columns are a framework's
    elif ! our_turn "$n"; then
        : # a third of them a turn: differential/puzzlers.sh has their columns' results
    else
        # shellcheck disable=SC2046  # switches and columns
        fb diff "$script" $(of_device host) $(reduced "$puzzler")
        if [ -n "$(refusal "$puzzler")" ]; then
            is "$puzzler: a host says why it cannot" 3 err "$(refusal "$puzzler")"
        else
            is "$puzzler: a host tells them apart or says that it cannot" 0 out '^first +█+' out '^second +█+' out '^wall: '
        fi
    fi

    # shellcheck disable=SC2046
    fb diff "$script" $(of_device replay:h200)
    if grep -q '(times: .*predicted' out; then
        skip "$puzzler: its columns differ" "not recorded"
        continue
    fi
    is "$puzzler: its columns differ" 0 out '^(wall: |.*; device: )(faster: |[0-9.]+× slower)' out '^bytes|^launches|^copies|^compute|^occupancy'
    key=$(sed -n 's/.*: the largest part is \([a-z]*\):.*/\1/p' out)
    holds "$puzzler: what explains it is a choice" \
        sh -c 'test -n "$1" && sed -n "/^    choices = {/,/^    },/p" "$2" | grep -Eq "\\{ \"$1\",|(saves|costs) = \"$1\""' - "$key" "$script"
done
holds "all puzzlers were asked" test "$n" -ge 18
holds "each has a place of its own" sh -c 'sort -n orders >a && seq "$1" >b && cmp a b' - "$n"

fb run transpose none max --device replay:h200
is "the same is one thing, what cannot be told another" 0 out '^the same: .*crossed:none = crossed:max' \
    out '^not told apart: .*crossed:none and [^;]*copied:max' no 'not told apart:.*='
fb diff transpose crossed:by_element@replay:h200 straight:max@replay:h200 --of device
is "the device's time alone" 0 out '^first +█+ +8\.[0-9]+ µs' out '^device: the largest part is bytes' no '^launches'
fb emit transpose crossed:max --device host
is "what is read across goes by tiles on the host" 0 out 'fb_turn_32\('
fb run transpose crossed:max copied:max --device host --set rows=1031 --set columns=777 --set dtype=bf16
is "of any size" 0 out '^crossed:max.*✓' out '^copied:max.*✓'
fb emit transpose crossed:by_element --device host
is "if not asked for otherwise" 0 no 'j0'
fb diff transpose crossed:by_element@replay:h200 straight:max@replay:h200 --of kernels
is "another time" 2 err1 'there are: wall, device'

# Between host and GPU a number by itself takes as long as four thousand bytes.
cat >copies.lua <<'LUA'
return require("fusebox").script {
  params = { n = require("fusebox").int { 3 } },
  model = function(g, p)
    for i = 1, p.n do g:receive(g:input("x" .. i, { 37 }):sum(), "y" .. i) end
  end,
}
LUA
fb run copies.lua none --device replay:h200
is "a copy of four bytes takes its time" 0 out '12 B +~[1-9][0-9.]* µs'

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
    no '✓|[0-9]–[0-9]' no ' µs +predicted$'
holds "the model's own stands beside no other prediction" sh -c '! grep -q "predicted  *source" out'
fb run kinds.lua none max --device replay:h200 --format json
json "in JSON" out fusebox=3 columns.0.source=predicted columns.0.wall_us.kind=predicted columns.0.wall_us.low \
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
cat >ways.lua <<'LUA'
local fb = require "fusebox"
local function of(f)
  return function(g) return f(g:input("x", { 30, 40 }, "f32", { dist = "normal" }), g:param("w", { 40 }, "f32")) end
end
return fb.script {
  variants = {
    once = of(function(x, w) return (x + w) * 2 end),
    twice = of(function(x, w) return x * 2 + w * 2 end),
    narrow = of(function(x, w) return (x:to("bf16") + w:to("bf16")) * 2 end),
    positive = of(function(x, w) return ((x + w) * 2):relu() end),
    other = of(function(x, w) return (x - w) * 2 end),
  },
}
LUA
fb run ways.lua once:none twice:none narrow:none positive:none other:none --device host
is "neither has what gives other values of the same inputs" 0 out '^twice:none@host .* ×|slower' out '^narrow:none@host .* (×|slower)' \
    out '^positive:none@host .*s  +-  ' out '^other:none@host .*s  +-  ' no '(=|,) other:none' no 'other:none ='
fb run unlike.lua small:max@host small:max@replay:h200
is "nor has another device" 0 out '^small:max@replay:h200 .*s  +-  ' out '^-: no ratio, it is another device'
done_testing
