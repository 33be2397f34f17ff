#!/bin/sh
# Whatever a script, a graph or a results file says: no control, C1 or bidi character reaches a terminal or an export.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

cat >evil.lua <<'LUA'
local fb = require "fusebox"
local evil = "a\27[31mb\27]0;title\7c\u{9b}31md\u{202e}e\127f"
return fb.script {
  title = evil,
  params = { n = fb.int { 8 }, act = fb.choice { evil, "plain" } },
  model = function(g, p)
    local x = g:input("x", { p.n })
    return g:op("mine", { x }, { note = evil }, function() return x:relu() end)
  end,
  experiment = function(e)
    for c in e:sweep { plan = { "none" }, n = { 8, 16 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, text = evil, formula = "=1+2|<b>", split = "one\ntwo",
                 minus = -1.5, [evil] = 1, long = ("x"):rep(5000) })
    end
    e:plot { x = "n", y = "us", by = "text" }
    e:plot { y = "us", by = "text" }
  end,
}
LUA

# clean FILE: valid UTF-8 of which a screen may show every character; line ends and tabs stay.
clean() {
    iconv -f UTF-8 -t UTF-8 "$1" >/dev/null 2>&1 || return 1
    ! LC_ALL=C grep -qP '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf' "$1"
}
both() { # NAME
    holds "$1" clean out
    holds "$1: stderr" clean err
}

for format in table csv markdown json svg; do
    fb run evil.lua --experiment --format $format --out evil.jsonl
    is "an experiment as $format" 0
    both "an experiment as $format is clean"
    cp out "experiment.$format"
done
holds "a table is of one line a row" test "$(grep -c 'one two' experiment.table)" = 2
holds "and not as wide as its longest text" test "$(wc -L <experiment.table)" -lt 2000
holds "what looks like a formula is text in CSV" grep -q "\"'=1+2|<b>\"" experiment.csv
holds "a number that looks like one is not" grep -q ',-1.5,' experiment.csv
holds "CSV keeps a line's end, in quotes" grep -q '"one$' experiment.csv
holds "Markdown keeps its cells and shows no HTML" grep -q '=1+2\\|&lt;b>' experiment.markdown
json "JSON is JSON" experiment.json rows#2 rows.0.row.minus
holds "which holds what was said" grep -q 'u001B\[31mb.*\\u009B31md\\u202Ee' experiment.json
holds "results too" clean evil.jsonl
fb evil.jsonl
is "results are shown" 0
both "results are clean"

for format in table csv markdown json html svg; do
    fb run evil.lua none max --format $format
    is "columns as $format" 0
    both "columns as $format are clean"
done
for format in text json dot svg; do
    fb graph evil.lua max --format $format
    is "the graph as $format" 0
    both "the graph as $format is clean"
done
fb graph evil.lua --format json
cp out graph.json
fb graph graph.json --format text
is "which can be read again" 0
fb run evil.lua none --trace trace.json
holds "a trace is clean" clean trace.json
fb check evil.lua
both "a check is clean"
fb diff evil.lua none max
both "a difference is clean"
printf '{"plan":"max","variant":"","device":"\\u001b]0;x\\u0007","failed":"\302\2331m \342\200\256x","script":"s\302\233"}\n' >other.jsonl
fb other.jsonl
is "what another machine wrote" 0 out 'max'
both "what another machine wrote is clean"
fb run evil.lua none --set "act=$(printf 'a\033[31mb')"
is "a choice that there is not" 2
both "a choice that there is not, is clean"

# A worker that lies about itself: what it calls its machine, its devices and their libraries, and what it says of them.
evil='a\u001b[31mb\u001b]0;t\u0007c\u009b31md\u202ee\u2066f\nhost: fake\u007f\ufeff'
long=$(head -c 20000 /dev/zero | tr '\0' L)
device() { printf '{"device":"%s","kind":"%s","name":"%s","date":"%s","driver":"%s","machine":%s}' "$1" "$2" "$3" "$3" "$3" "$4"; }
{
    printf '%s' '{"type":"devices","id":1,"host":"' "$evil" '","devices":['
    device "$evil" cuda "$evil" null
    printf ','
    device "" cuda "" null
    printf ','
    device "$long" cuda "$long" null
    printf ','
    device mach host x "{\"kind\":\"host\",\"name\":\"$evil\",\"date\":\"\\u001b[1m\",\"calibrated\":true}"
    printf '%s' ',{"device":"gone","missing":"' "$evil" '"},7,null,{"device":7},{"device":"replay:x","kind":"replay","name":"' \
        "$evil" '","scripts":{"' "$evil" '":{"' "$evil" '":"' "$evil" '"}}}'
    printf '%s' '],"libraries":[{"name":"' "$evil" '","found":true,"version":"' "$evil" '","path":"' "$evil" '","why":"' "$evil" '"},5]}'
} >evil.devices
printf '%s\n' '{"type":"hello","fusebox":1,"version":"'"$evil"'","host":"'"$evil"'"}' >evil.hello
printf '{"type":"error","id":ID,"kind":"compile","text":"%s%s"}\n' "$evil" "$long" | sed 's/\\n/ /g' >evil.error
cat >liar <<'END'
read -r line
cat evil.hello
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case $line in
    *'"devices"'*) sed "s/\"id\":1/\"id\":$id/" evil.devices; echo ;;
    *'"id":'*) sed "s/ID/$id/" evil.error ;;
    esac
done
END
printf 'return function(g)\n  return g:input("x", {4}):relu()\nend\n' >plain.lua
fb devices --list --worker 'sh liar'
is "devices of a liar" 0 no '^host: fake|^:|L{500}'
both "devices of a liar are clean"
holds "on a line each" test "$(grep -c '^mach: ' out)" = 1
fb devices --list --format json --worker 'sh liar'
json "as JSON" out devices.mach.calibrated=true
both "clean as JSON"
for format in table csv markdown json html svg; do
    fb run plain.lua none@mach --worker 'sh liar' --format $format --out "liar.$format.jsonl"
    is "what fails on them, as $format" 1 err 'none@mach: a.\[31mb'
    both "what fails on them as $format is clean"
    holds "and so is its row ($format)" clean "liar.$format.jsonl"
done
fb run plain.lua none@nobody --worker 'sh liar'
is "they are named where there is no such device" 3 err1 'there are: a--31mb'
both "in clean names"
fb run plain.lua none@gone --worker 'sh liar'
is "what is missing" 3 err1 'device "gone": a.\[31mb'
both "what is missing is clean"
fb devices --device mach --recalibrate --worker 'sh liar'
both "what cannot be calibrated is clean"
{
    printf '%s' '{"type":"devices","id":1,"devices":[{"device":"d0","kind":"cuda","name":"x"}'
    seq 1 3000 | sed 's/.*/,{"device":"d&","kind":"cuda","name":"x"}/' | tr -d '\n'
    printf ']}'
} >evil.devices
fb devices --list --worker 'sh liar'
is "more devices than there are on any machine" 0 err1 'the worker .sh liar. has 3001 devices, of which the first 256' \
    out '^d255: ' no '^d256: '
done_testing
