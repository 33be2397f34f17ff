#!/bin/sh
# fusebox record over several short runs: compressed, in stages, what was disturbed, what is damaged, a framework's columns
# and an experiment's. Recorded on the host here; on a GPU it is the same.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

make_chain '  experiment = function(e)
    for c in e:sweep { plan = { "none", "pair" }, n = { 32, 64 } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, failed = r.failed })
    end
    e:plot { y = "us" }
  end,'
recording=$FUSEBOX_RECORDINGS/here.json.gz
rec="record chain.lua --device host --out $recording --spread 1000"

# ---- refused at once
fb record chain.lua --device host --out "$work/nowhere/here.json.gz"
is "a file that cannot be written is refused before anything is measured" 1 err 'nowhere/here.json.gz: No such file' no 'measured'
holds "before: nothing was said of a column" sh -c '! grep -q "short:none" err'
fb record chain.lua --device host --only everything
is "what there is to do" 2 err1 'plans, toggles, peers, experiments'
fb record chain.lua --device host --for never
is "a time is a number" 2 err1 'for is a number above 0'
fb record chain.lua --jobs 2
is "measuring has one process" 2 err1 'goes with --compile'
fb record chain.lua --list --out "$recording"
is "nothing to list yet" 2 err1 'there is no such recording'

# ---- in pieces
calibrated
fb $rec --only plans --for 0.0001
is "no time: nothing is measured, and a file is there" 0 out '0 plans and 0 toggles measured' out 'the next run goes on'
holds "which is compressed" gzip -t "$recording"
fb $rec --only plans
is "the next run goes on" 0 out ': [1-9][0-9]* plans and 0 toggles measured, .* 0 failed$'
gzip -dc "$recording" >plans.json
fb $rec --only plans
is "what is done is not done again" 0 out ': 0 plans and 0 toggles measured, [1-9][0-9]* plans known before, 0 new kernels'
fb record chain.lua --list --out "$recording"
is "it says what is to be done" 0 out '^chain +plans +[1-9][0-9]* +0$' out '^chain +toggles +[1-9]' out '^chain +peers +0 +4' \
    out '^chain +experiments +[0-9]+ +[1-9]'
fb $rec --only toggles --only experiments
is "and does it" 0 out ': [1-9][0-9]* plans and [1-9][0-9]* toggles measured'
fb $rec
is "all of it" 0 out ': 0 plans and 0 toggles measured'
fb record chain.lua --list --out "$recording"
is "it is done" 0 out '^chain +plans +[1-9][0-9]* +0$' out '^chain +toggles +0$' out '^chain +experiments +[1-9][0-9]* +0$'
holds "small" test "$(wc -c <"$recording")" -lt 40000

# A run that is killed leaves what it saved; its file is never half of one.
rm -f killed.json.gz
"$FUSEBOX" record chain.lua --device host --out killed.json.gz --spread 1000 >/dev/null 2>&1 &
killed=$!
for _ in $(seq 3000); do
    [ -f killed.json.gz ] && break
    sleep 0.1
done
kill -9 $killed 2>/dev/null
wait $killed 2>/dev/null
holds "a killed run leaves a whole file" gzip -t killed.json.gz
fb record chain.lua --device host --out killed.json.gz --spread 1000
is "and the next one goes on" 0 out ', [1-9][0-9]* plans known before, .* 0 failed'

# ---- what is kept
gzip -dc "$recording" >whole
sed '/^{$/,$d' whole >main.json
json "samples of plans, in turns" main.json scripts.chain.short experiments.chain
holds "of every launch mode that was measured" grep -q '"rounds":{"stream":{"at":\[[0-9,]*\],"device":\[.*"turn":[0-9]*,"wall":' main.json
fb run chain.lua short:none@replay:here long:max@replay:here --format json
json "a replay tells them" out columns.0.source=recorded columns.0.rounds.at_us.7 columns.1.rounds.wall_us.7
fb diff chain.lua short:none@replay:here short:max@replay:here
is "and compares by them" 0 out '^wall: (faster|[0-9.]+× slower|the same|cannot tell: less than [0-9.]+ % is not seen on this machine)'
fb run chain.lua short:none@replay:here --trace trace.json
is "timelines are kept" 0 err 'host has no metrics over time'
holds "with every kernel" grep -q '"name":"relu"' trace.json
fb run chain.lua --experiment --device replay:here --format csv
is "an experiment is replayed as it was measured" 0 out ',recorded' no 'predicted|composed'
cp "$recording" again.json.gz
fb record chain.lua --device host --out again.json.gz --only peers
gzip -dc again.json.gz | sed 's/^"date".*//' >b
gzip -dc "$recording" | sed 's/^"date".*//' >a
holds "equal recordings are equal files" cmp a b

# ---- a calibration that is doubted
gzip -dc "$recording" | sed '/^{$/,$d; /^"machine":{/{s/"doubted":true,//;s/{/{"doubted":true,/}' | gzip >doubted.json.gz
fb record chain.lua --device host --out doubted.json.gz --spread 1000 --only plans
is "a doubted calibration is taken with a word" 0 err 'was busy when it was calibrated: the recording keeps a calibration that is doubted'
gzip -dc doubted.json.gz | sed '/^{$/,$d' >doubted.json
json "and kept" doubted.json machine.doubted=true

# ---- changed
sed 's/:relu():sqrt/:relu():abs():sqrt/' chain.lua >changed.lua
mkdir changed
mv changed.lua changed/chain.lua
cp "$recording" changed.json.gz
fb record changed/chain.lua --device host --out changed.json.gz --spread 1000 --only plans
is "a graph that changed is measured again, the others are not" 0 out ': [1-9][0-9]* plans and 0 toggles measured, [1-9][0-9]* plans known'

# ---- disturbed
fb record chain.lua --device host --out disturbed.json.gz --spread 0.0001 --only plans
is "what is disturbed is left out" 1 err 'left out, it was disturbed each of 3 times' out ' [1-9][0-9]* disturbed and left out'
fb record chain.lua --device host --out disturbed.json.gz --spread 1000 --only plans
is "and measured by the next run" 0 out ': [1-9][0-9]* plans .* 0 failed$'

# ---- damaged
size=$(wc -c <"$recording")
head -c $((size / 3)) "$recording" >"$FUSEBOX_RECORDINGS/cut.json.gz"
fb run chain.lua short:max@replay:cut
is "a file that is cut off" 3 err1 'cut.json.gz: its compressed data is cut off'
{ head -c 400 "$recording" && printf 'damage' && tail -c +407 "$recording"; } >"$FUSEBOX_RECORDINGS/bad.json.gz"
fb run chain.lua short:max@replay:bad
is "a damaged one" 3 err1 'bad.json.gz: (its compressed data is damaged|.*line)'
fb record chain.lua --device host --out "$FUSEBOX_RECORDINGS/bad.json.gz"
is "is not gone on with" 1 err 'bad.json.gz: '
{ head -c $((size - 20)) "$recording" && printf 'damage' && tail -c 14 "$recording"; } >"$FUSEBOX_RECORDINGS/late.json.gz"
fb run chain.lua short:max@replay:late --trace late.json
is "damage among the timelines is said where one is asked for" 0 err 'replay:late: its timelines: its compressed data is (damaged|cut off)' out 'recorded'
rm "$FUSEBOX_RECORDINGS"/bad.json.gz "$FUSEBOX_RECORDINGS"/cut.json.gz "$FUSEBOX_RECORDINGS"/late.json.gz

# ---- a framework beside it
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null 2>&1; then
    tests=$((tests + 1))
    echo "ok $tests - a framework's columns # SKIP there is no $python"
else
    peer="$python ${FB_SRCDIR:-.}/tests/cli/standin_peer.py"
    STANDIN_LOG=$work/standin.log
    export STANDIN_LOG
    fb $rec --only peers --worker "$peer"
    is "a framework's plans are recorded" 0 out ': 4 plans and 0 toggles measured' err 'without away@torch: there is no away here'
    fb $rec --only peers --worker "$peer"
    is "once" 0 out ': 0 plans and 0 toggles measured, 4 plans known before'
    gzip -dc "$recording" >beside
    holds "and our plans keep what they took, with more samples" python3 - plans.json beside <<'END'
import json, sys
before, after = (json.JSONDecoder().raw_decode(open(name).read())[0] for name in sys.argv[1:])
more = 0
for name, plan in before["plans"].items():
    now = after["plans"][name]
    assert {k: v for k, v in plan.items() if k != "rounds"} == {k: v for k, v in now.items() if k != "rounds"}, name
    for mode, rounds in plan["rounds"].items():
        n = len(rounds["at"])
        assert now["rounds"][mode]["wall"][:n] == rounds["wall"]
        more += len(now["rounds"][mode]["at"]) > n
assert more > 0
END
    fb diff chain.lua short:none@replay:here short:eager@torch:here
    is "with which they are compared by pairs" 0 out '^wall: (faster|[0-9.]+× slower|the same|cannot tell: less than [0-9.]+ % is not seen on this machine)'
    fb run chain.lua short:eager@torch:here short:compile@torch:here --format json
    json "with their samples" out columns.0.source=recorded columns.0.rounds.wall_us.7=200.0 columns.1.rounds.wall_us.7=100.0
    fb diff chain.lua short:eager@torch:here short:compile@torch:here
    is "by which they are compared" 0 out '^wall: faster: 2 ×'
    if "$FUSEBOX" devices --list 2>/dev/null | grep -q 'NVRTC:'; then
        : >standin.log
        fb record chain.lua --compile sm_90 --only peers --worker "$peer" --jobs 2
        is "compiling ahead asks the framework too" 0 out 'sm_90: 2 plans and 0 toggles compiled'
        holds "for what it compiles alone" sh -c 'grep -q "^compile ahead$" standin.log && ! grep -q "eager" standin.log && ! grep -qv ahead standin.log'
    fi
fi
done_testing
