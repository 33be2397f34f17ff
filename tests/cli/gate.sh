#!/bin/sh
# fusebox gate: limits for continuous integration. What a machine's speed decides is taken from a recording.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

cat >row.lua <<'LUA'
local function model(g)
  local x = g:input("x", { 8, 32 })
  return (x - x:mean(-1, true)):tanh():relu()
end
return require("fusebox").script { variants = { one = model, two = model } }
LUA
fb gate row.lua one:max --max-launches 1 --max-bytes 2.2kB --fused tanh relu --fused relu mean --device host
is "limits that hold" 0 out '^✓  a right answer .*one:max@host +error .* of the bound$' out '^✓  at most 1 launch +one:max@host +1$' \
    out '^✓  at most 2\.2 kB moved, modelled +one:max@host +2\.0 kB$' out '^✓  tanh in a kernel with relu .*kernel 1$' out '^row.lua: all limits hold$'
fb gate row.lua one:none --max-launches 3 --fused tanh relu --device host
is "limits that do not" 1 out '^✗  at most 3 launches +one:none@host +4$' out '^✗  tanh in a kernel with relu +one:none@host +tanh is in another$' \
    out '^row.lua: 1 of 3 limits hold, 2 broken$'
fb gate row.lua one:max --max-bytes 2047 --device host
is "one byte too many" 1 out '^✗  at most 2\.0 kB moved, modelled'
fb gate row.lua one:max --max-bytes 2KiB --device host
is "units of 1024" 0
fb gate row.lua --max-launches 1 --device host
is "without columns, auto of every variant" 0 out 'one:auto@host' out 'two:auto@host' out 'all limits hold'
fb gate row.lua two one:none --max-launches 1 --device host --format markdown
is "a few lines of Markdown for a pull request" 1 out '^### fusebox gate ✗ row\.lua: 3 of 4 limits hold, 1 broken$' \
    out '^\| --- \| --- \| --- \| --- \|$' out '^\| ✗ \| at most 1 launch \| one:none@host \| 4 \|$'
fb gate row.lua one:none two:max --max-launches 1 --device host --format json
is "JSON on stdout, nothing else" 1 no '^fusebox:'
json "verdicts and reports" out fusebox=3 "verdict=does not hold" limits#4 limits.0.verdict=holds limits.1.limit limits.1.found=4 \
    "limits.1.verdict=does not hold" limits.1.column=one:none@host columns#2 columns.0.launches=4 columns.1.launches=1
fb gate row.lua one:max --fused mean tanh --fused x relu --device host
is "a source is part of no kernel" 1 out 'x belongs to no kernel'

# Times.
fb gate launch_bound foreach --faster-than stream --device replay:h200
is "faster than another column" 0 out '^✓  faster than stream@replay:h200 +foreach@replay:h200 +faster: [0-9.]+ × \(wall [0-9.]+ .s against [0-9.]+ .s\)$'
fb gate launch_bound stream --faster-than foreach --not-slower-than stream --of device --device replay:h200
is "slower is not faster, and the same is not slower" 1 out '^✗  faster than foreach@replay:h200 .*× slower \(device ' \
    out '^✓  not slower than stream@replay:h200 .*the same within'
fb gate lora_mlp lora:max merged:max --faster-than eager --of device --device replay:h200
is "a column without a variant is that of each variant" 0 out 'faster than lora:eager@replay:h200 +lora:max' out 'faster than merged:eager@replay:h200 +merged:max'
cat >equal.lua <<'LUA'
return function(g) return g:input("x", { 64 }):relu() end
LUA
fb gate equal.lua none --faster-than none --device host
case $status in 1 | 3) status=0 ;; esac
is "a column is not faster than itself" 0 out '^[✗?]  faster than none@host .*(the same|cannot tell)'

# An earlier version.
fb run launch_bound stream foreach --device replay:h200 --out before.jsonl
fb gate launch_bound stream foreach --before before.jsonl --device replay:h200
is "as good as before" 0 out '^✓  no more launches than the 80 before +stream@' out '^✓  no more bytes than the .* before +foreach@' out '^✓  not slower than before'
sed -i 's/"launches": *80/"launches":79/' before.jsonl
fb gate launch_bound stream --before before.jsonl --device replay:h200
is "a launch more than before" 1 out '^✗  no more launches than the 79 before +stream@replay:h200 +80$'
fb gate launch_bound graph --before before.jsonl --device replay:h200
is "what the file does not have cannot be told" 3 out '^\?  as good as before +graph@replay:h200 +the file has no such column$' out '1 cannot be told'

# A wrong answer, and what cannot be had.
fb eject row.lua one:max own.c --kernel 1 --device host
sed 's/\(relu\[[^]]*\] = \)\(.*\);/\1(\2) * 1.5f;/' own.c >wrong.c && mv wrong.c own.c
fb gate row.lua one:own.json --max-launches 1 --device host --trust
is "a wrong answer holds no limit" 1 out '^✗  a right answer +one:own' no 'at most'
fb gate row.lua one:max@cuda:99 --max-launches 1
is "a device that is not there" 3
fb gate launch_bound stream --fused tanh nothing --device replay:h200
is "a node that is not there is a usage error" 2 err1 'no node "(tanh|nothing)"'
fb gate row.lua one:max
is "no limit is a usage error" 2 err1 'nothing is limited: --max-launches'
fb gate row.lua one:max --max-bytes 4XB
is "a unit that is none" 2 err1 'max-bytes 4XB: it is a size'
fb gate row.lua one:max --max-launches few
is "a number that is none" 2 err1 'max-launches few: it is a whole number'
fb gate row.lua one:max --fused relu
is "--fused takes two" 2 err1 'takes two nodes'
fb gate row.lua one:max --max-launches 1 --format csv
is "formats are table, markdown and json" 2 err1 'there are: table, markdown, json'
fb gate row.lua one:max --max-launches 1 --set a=1,2
is "it does not sweep" 2 err1 'one value a parameter'
fb gate row.lua one:max --before missing.jsonl
is "a results file that is not there" 1 err1 'missing.jsonl'
done_testing
