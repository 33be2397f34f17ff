#!/bin/sh
# fusebox record, and the device replay that serves what it wrote. Recorded on the host here; on a GPU it is the same.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

make_chain
recording=$FUSEBOX_RECORDINGS/here.json
sed 's/  params/  columns = { "short:max@replay" },\n  params/' chain.lua >asks.lua

fb record chain.lua --device cuda:99
is "a device that is not there" 3 err1 'cuda:99'
# Here and below --spread 1000: what a busy machine disturbs is kept too.
calibrated
fb record chain.lua --device host --out "$recording" --spread 1000
is "recording says what it did" 0 out 'here.json: [0-9]+ plans and [0-9]+ toggles measured, [0-9]+ plans known before, [0-9]+ new kernels, 0 failed'
json "the file says where it comes from" "$recording" fusebox_recording=1 device date version machine.kind=host \
    scripts.chain.short scripts.chain.long '!driver'
# A busy machine doubts its calibration, and then nothing is predicted.
sed -i 's/"doubted": *true/"doubted":false/' "$recording"
cp "$recording" before
fb record chain.lua --device host --out "$recording" --spread 1000
is "a second run finds everything there" 0 out ': 0 plans and 0 toggles measured' out ' 0 new kernels, 0 failed'

cat >large.lua <<'LUA'
return function(g)
  local x = g:input("x", { 64 })
  for _ = 1, 257 do x = x:cos() end
  return x
end
LUA
fb record large.lua --device host --out large.json --spread 1000
is "of a kernel of hundreds of nodes no edge is toggled" 0 out ' [0-9] new kernels, 0 failed'

printf '#!/bin/sh\ncase "$*" in *--version*) exec cc "$@" ;; esac\nexit 1\n' >badcc
chmod +x badcc
CC=$work/badcc fb record chain.lua --device host --set n=96 --out bad.json --spread 1000
is "cases that fail are said, and do not end it" 1 err 'long:max: ' out 'bad.json: 0 plans .* [1-9][0-9]* failed'
fb record chain.lua --device host --set n=96 --out bad.json --spread 1000
is "and are tried again by the next run" 0 out 'bad.json: [1-9][0-9]* plans .* 0 failed'

fb devices --list
is "it is listed with its date" 0 out '^replay:here: ' out 'recorded 20[0-9-]+T[0-9:]+Z: chain'
fb run chain.lua short:max@replay:here short:max@host
is "a table says which is which" 0 out 'short:max@replay:here .*recorded' out 'short:max@host .*measured' out '^replay: recorded ='
fb run chain.lua short:none@replay short:max@replay --format json
is "\"replay\" alone is the one with the script" 0
json "as recorded" out columns.0.source=recorded columns.0.device=replay:here columns.0.wall_us.median columns.0.device_us.median \
    columns.0.cold_us.median columns.0.error.ok=true columns.0.kernels.0.source=recorded columns.0.kernels.0.device_us.median \
    '!columns.0.stale' columns.1.source=recorded devices.replay:here.kind=replay devices.replay:here.recorded
fb run chain.lua short:pair@replay long:pair@replay --format json
json "plans of the script are recorded too" out columns.0.source=recorded columns.1.source=recorded

cat >last.json <<'JSON'
{"fusebox_plan":1,"groups":[{"nodes":["exp","relu"]}]}
JSON
fb run chain.lua short:last.json@replay --format json
json "one toggle away from a preset: composed" out columns.0.source=composed columns.0.wall_us.median '!columns.0.error' \
    columns.0.kernels.0.source=recorded columns.0.kernels.1.source=recorded
cat >three.json <<'JSON'
{"fusebox_plan":1,"groups":[{"nodes":["exp","relu","sqrt"]}]}
JSON
fb run chain.lua long:three.json@replay --format json
json "further away: predicted, but for what was recorded" out columns.0.source=predicted columns.0.wall_us.median \
    columns.0.kernels.0.source=recorded columns.0.kernels.1.source=predicted '!columns.0.kernels.1.device_us'
fb diff chain.lua short:none@replay short:last.json@replay
is "diff explains what was composed, whose result nobody checked" 0 out '^launches ' out 'recorded → composed'
fb run chain.lua short:max@replay --set n=128 --format json
json "another size: predicted" out columns.0.source=predicted

sed 's/"code":"[0-9a-f]*"/"code":"0123456789abcdef"/' before >"$recording"
fb run chain.lua short:max@replay
is "source that has changed is said to be stale" 0 out 'recorded, stale'
cp before "$recording"

fb check chain.lua --device replay
is "check tells recorded errors" 0 out '✓ short:none'
fb run asks.lua max --format json
json "a script that asks for the replay but is not in it: the host" out columns.0.device=host
sed 's/"chain":/"asks":/' before >"$recording"
fb run asks.lua max --format json
json "without a GPU, columns of a script that asks and is in it are the replay's" out columns.0.device=replay:here columns.0.source=recorded
fb run chain.lua max --format json
json "others stay on the host" out columns.0.device=host columns.0.source=measured

# A recording that holds a framework's plans too: as if a worker of PyTorch had stood beside the device.
graph=$(sed -n 's/.*"chain":{.*"short":"\([0-9a-f]*\)".*/\1/p' before)
sed -e 's/"peers":{}/"peers":{"torch":{"date":"2026-01-02T03:04:05Z","name":"PyTorch 2.11 on a GPU"}}/' \
    -e "s/\"peer_plans\":{}/\"peer_plans\":{\"$graph torch eager\":{\"mode\":\"stream\",\"wall\":[425,420,431,30],\"device\":[95,94,96,15],\"launches\":36,\"error\":[1e-7,2e-7,0.5],\"kernels\":[]}}/" \
    before >"$recording"
fb devices --list
is "a recorded framework is listed" 0 out '^torch:here: recorded: PyTorch 2.11 on a GPU, 2026-01-02T03:04:05Z: chain'
fb run chain.lua short:eager@torch short:max@replay
is "@torch where no worker has it: recorded" 0 out 'short:eager@torch:here +425 .s .* 36 .*recorded'
fb run chain.lua short:compile@torch
is "a plan that was not recorded" 3 err1 'no plan "compile" was recorded of this graph; recorded: eager'
# What a launch costs decides how much of the framework's time is its own, and a busy machine measures anything, and doubts it.
sed -i 's/"launch_us":[^,}]*/"launch_us":1.5/; s/"doubted": *true/"doubted":false/' "$recording"
for machine in "$XDG_CACHE_HOME"/fusebox/machines/*.json; do
    edit_checked "$machine" 's/"launch_us":[^,}]*/"launch_us":1.5/; s/"doubted": *true/"doubted":false/'
done
fb diff chain.lua short:eager@torch short:max@replay
is "diff splits what was recorded" 0 out '^first .*short:eager@torch:here' out '^dispatch ' out 'times: recorded' no '\(measured\)'
cp before "$recording"

fb record chain.lua --device replay:here
is "a replay cannot be recorded" 2 err1 'runs nothing'
sed 's/"device":"[^"]*"/"device":"Abacus"/' before >other.json
fb record chain.lua --device host --out other.json --spread 1000
is "nor one machine into the recording of another" 1 err 'recording of Abacus'
printf '{"fusebox_recording":1' >"$recording"
fb run chain.lua short:max@replay:here
is "a broken recording is a device that is not there" 3 err 'here.json'

done_testing
