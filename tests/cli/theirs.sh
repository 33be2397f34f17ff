#!/bin/sh
# What a framework's compiler decided: shown, and held against a plan of ours. A worker that stands in for one tells it,
# well and badly.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

command -v python3 >/dev/null || { echo "1..0 # SKIP there is no python3"; exit 0; }
worker="python3 ${FB_SRCDIR:-.}/tests/cli/standin_peer.py"
STANDIN_PLAN=$work/plan.json
export STANDIN_PLAN
cat >f.lua <<'LUA'
return function(g)
  local x = g:input("x", { 64, 8 })
  local wave = x:tanh() * 2
  return wave:matmul(g:param("w", { 8, 8 })):relu():sum(-1)
end
LUA
fbs() { # as fb, with the stand-in
    fb "$@" --worker "$worker"
}
plan() { # KERNELS [APART [CALLS]]
    printf '{"by":"Makeshift","version":"3.1","kernels":[%s],"apart":[%s],"calls":[%s]}' "$1" "$2" "$3" >plan.json
}
kernel() { # NAME KIND NODES, as JSON
    printf '{"name":"%s","kind":"%s","count":1,"nodes":[%s]%s}' "$1" "$2" "$3" "$4"
}

plan "$(kernel k_wave pointwise '"tanh","mul"' ',"source":"def k_wave():\n    pass","registers":24'),$(kernel mm extern '"matmul"'),$(kernel k_sum reduction '"relu","sum"')" \
    '{"from":"mul","to":"matmul","why":"a library"},{"from":"matmul","to":"relu"}'
fbs explain f.lua compile@torch
is "its kernels are listed with their nodes and reasons" 0 out 'compile@torch: Makeshift 3\.1: 3 kernels' \
    out '^ +1  pointwise +tanh mul$' out 'k_wave, 24 registers' out '^ +3  reduction +relu sum$' out 'mul → matmul: a library' \
    out 'matmul → relu: its log gives no reason'
fbs explain f.lua compile@torch inductor
is "ours beside it: all alike" 0 out 'beside inductor: 4 of 4 edges .*\(100\.0 %\); 3 of our 3 kernels'
fbs emit f.lua compile@torch
is "emit prints its sources" 0 out '^# k_wave$' out '^def k_wave'
fbs run f.lua compile@torch --format json
is "run's JSON has the plan" 0
json "as a value of the column" out columns.0.their_plan.by=Makeshift columns.0.their_plan.kernels#3 \
    columns.0.their_plan.kernels.0.nodes.1=mul columns.0.their_plan.kernels.0.registers=24 columns.0.their_plan.apart#2
fbs diff f.lua compile@torch inductor
is "diff says how far the kernels are alike" 0 out '^kernels: 4 of 4 edges'

plan "$(kernel a pointwise '"tanh"'),$(kernel b extern '"mul","matmul"'),$(kernel c pointwise '"relu"'),$(kernel d reduction '"sum"')" \
    '{"from":"tanh","to":"matmul","why":"they have their reasons"}'
fbs explain f.lua compile@torch inductor
is "where the two differ, edge by edge" 0 out 'beside inductor: 1 of 4 edges' out 'tanh → mul: two kernels there, one here' \
    out 'there: they have their reasons' out 'mul → matmul: one kernel there, two here' \
    out 'here: decision [0-9]+ of `inductor`, refused: inline `mul`: .*library' \
    out 'here: decision [0-9]+ of `inductor`, taken: inline `tanh`'
fbs explain f.lua compile@torch max
is "beside a plan whose preset has other decisions" 0 out 'beside max: '
plan "$(kernel a pointwise '"tanh"'),$(kernel b extern '"matmul"'),$(kernel e reduction '"sum"')" '' '["relu","sum"],["tanh","mul"]'
fbs explain f.lua compile@torch inductor
is "a call is one unit, and nothing is known inside of it" 0 out 'beside inductor: 2 of 2 edges'
plan "$(kernel a pointwise '"nowhere","x"')"
fbs explain f.lua compile@torch inductor
is "names that the graph does not have" 0 out '0 of 0 edges' out 'of which 1 stand for no node' out 'of 4 edges theirs is not known'

echo '{"unavailable":"it was built on a Sunday"}' >plan.json
fbs explain f.lua compile@torch
is "not available, in a sentence" 3 err1 'plan of compile@torch is not available: it was built on a Sunday'
fbs run f.lua compile@torch
is "and measured all the same" 0 out compile
fbs explain f.lua eager@torch
is "a worker that tells nothing" 2 err1 'eager@torch has no plan of ours, and its worker tells none'
fbs explain f.lua compile@torch --steps
is "it has no decisions of ours" 2 err1 'compile@torch has no plan of ours'
fb explain f.lua inductor max
is "two columns of ours" 2 err1 'two columns go with --loops'

# ---- plans that make no sense: the column is measured, and one sentence says what is wrong ----

bad() { # WHAT TEXT SENTENCE
    printf '%s' "$2" >plan.json
    fbs explain f.lua compile@torch inductor
    is "$1" 3 err1 "not available: what the worker says of it cannot be read: .*$3"
    fbs run f.lua compile@torch
    is "$1: it is measured" 0 out compile
}
bad "a number" 7 'no object'
bad "no kernels" '{"by":"M","version":"1"}' '"kernels" is missing'
bad "kernels that are a text" '{"by":"M","version":"1","kernels":"all"}' 'no list'
bad "a kernel that is a list" '{"by":"M","version":"1","kernels":[[]]}' 'a kernel is no object'
bad "nobody's" '{"by":3,"version":"1","kernels":[]}' 'by'
bad "nodes by number" "{\"by\":\"M\",\"version\":\"1\",\"kernels\":[$(kernel a pointwise 1,2)]}" 'no list of names'
bad "no count" '{"by":"M","version":"1","kernels":[{"name":"a","kind":"extern","count":0,"nodes":[]}]}' 'count'
bad "a kind that is none" "{\"by\":\"M\",\"version\":\"1\",\"kernels\":[$(kernel a cubism '"x"')]}" 'of no kind'
bad "a reason without nodes" '{"by":"M","version":"1","kernels":[],"apart":[{}]}' 'from'
python3 -c 'import json; print(json.dumps({"by": "M", "version": "1", "kernels": [
    {"name": "a", "kind": "extern", "count": 1, "nodes": []}] * 20001}))' >plan.json
bad "too many kernels" "$(cat plan.json)" 'more than 20000'
python3 -c 'import json; print(json.dumps({"by": "M", "version": "1", "kernels": [
    {"name": "a", "kind": "extern", "count": 1, "nodes": [], "source": "x" * 70000}]}))' >plan.json
bad "a source that is too long" "$(cat plan.json)" 'too long'
printf '{"by":"M\\u001b[31m\\u202e","version":"1","kernels":[%s]}' \
    "$(kernel 'k\u001b]0;x\u0007' extern '"matmul"' ',"source":"\u001b[2J\nend"')" >plan.json
fbs explain f.lua compile@torch
is "what no screen should get is not printed" 0 no "$(printf '\033')" no "$(printf '\342\200\256')"
fbs emit f.lua compile@torch
is "nor in its source" 0 out '^end' no "$(printf '\033')"
done_testing
