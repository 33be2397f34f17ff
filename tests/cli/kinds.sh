#!/bin/sh
# Formats × kinds: no figure loses its kind on the way out. One script holds a plan of each kind on a recording from a GPU;
# each format is asked for each of them, and for what it must not say of the others.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

device=replay:h200
cat >composed.json <<'JSON'
{"fusebox_plan":1,"groups":[{"nodes":["layer_norm.sub","layer_norm.mul"]}]}
JSON
cat >predicted.json <<'JSON'
{"fusebox_plan":1,"groups":[{"nodes":["layer_norm.sub","layer_norm.mul","layer_norm.mean_2"]}]}
JSON
# The graph of models/layer_norm, whose kernels are recorded, with an experiment of these plans; bars, for it has no x.
cat >layer_norm.lua <<'LUA'
local fb, nn = require "fusebox", require "nn"
return fb.script {
  model = function(g) return nn.layer_norm(g:input("x", { 16384, 4096 }, "f32", { dist = "normal" })) end,
  experiment = function(e)
    for c in e:sweep { plan = { "none", "composed.json", "predicted.json" } } do
      local r = e:measure(c)
      e:row(c, { us = r.wall_us and r.wall_us.median, failed = r.failed })
    end
    e:plot { y = "us" }
  end,
}
LUA

none='' # what is measured has no sign
us='[0-9][0-9.]* [nµm]?s'

# swept FORMAT NAME EXPECTED…: the experiment in a format, run once
swept() {
    as=$1 what=$2
    shift 2
    [ -f "swept.$as" ] || { fb run layer_norm.lua --experiment --device $device --format "$as" && cp out "swept.$as"; }
    cp "swept.$as" out
    is "$what" 0 "$@"
}

# one FORMAT KIND PLAN SIGN OTHER: a column alone in a format
one() {
    format=$1 kind=$2 plan=$3 sign=$4 other=$5
    case $format in
    table) fb run layer_norm.lua "$plan" --device $device && is "a table, $kind" 0 out "^[^ ]+@$device +$sign$us .* $kind\$" no "@$device +$other$us" ;;
    csv) fb run layer_norm.lua "$plan" --device $device --format csv && is "CSV, $kind" 0 out ',source,' out ",$kind," &&
        holds "samples in CSV, $kind" python3 -c "import csv, sys; row = next(csv.DictReader(open('out'))); sys.exit((row['samples'] == '') != ('$kind' == 'predicted'))" ;;
    markdown) fb run layer_norm.lua "$plan" --device $device --format markdown && is "Markdown, $kind" 0 out "^\\| [^|]+ \\| $sign$us \\|.* $kind \\|\$" no "@$device \\| $other$us" ;;
    json)
        fb run layer_norm.lua "$plan" --device $device --format json
        json "JSON, $kind" out columns.0.source="$kind" columns.0.wall_us.kind="$kind" columns.0.device_us.kind="$kind" \
            columns.0.wall_us.low columns.0.wall_us.high
        [ "$kind" = predicted ] && has=! || has=
        json "which was run so often, $kind" out fusebox=3 "${has}columns.0.wall_us.n" "${has}columns.0.device_us.n"
        ;;
    html) fb run layer_norm.lua "$plan" --device $device --format html && is "a page, $kind" 0 out "<td>$sign$us</td>" out "<td class=\"name\">$kind" out "<dt>${sign:+$sign }$kind</dt>" ;;
    svg)
        fb run layer_norm.lua "$plan" --device $device --format svg
        if [ -n "$sign" ]; then
            is "a picture, $kind" 0 out 'class="[^"]*hollow' out "$sign $kind"
        else
            is "a picture, $kind" 0 no '[~≈][0-9]' no 'class="[^"]*(hollow|guess)"'
        fi
        ;;
    jsonl)
        fb run layer_norm.lua "$plan" --device $device --out "$kind.jsonl"
        json "a results file, $kind" "$kind.jsonl" source="$kind" wall_us.kind="$kind" device_us.kind="$kind"
        ;;
    diff)
        fb diff layer_norm.lua max "$plan" --device $device
        is "diff, $kind" 0 out "^second .* $sign$us  " out "\\(times: recorded( → $kind)?\\)" no "^(launches|rest) .* $other[-+][0-9.]+ "
        [ "$kind" = recorded ] || holds "diff's parts, $kind" grep -Eq "^launches .* $sign[-+]$us " out
        fb diff layer_norm.lua max "$plan" --device $device --format json
        json "diff in JSON, $kind" out why.source="$kind" columns.1.wall_us.kind="$kind"
        ;;
    gate)
        for as in table markdown json; do
            fb gate layer_norm.lua "$plan" --faster-than max --device $device --format $as
            holds "gate as $as, $kind" grep -Eq "\\(wall $sign$us against $us\\)" out
        done
        ;;
    experiment)
        swept table "an experiment's table and ranking, $kind" out "^$plan .* $sign[0-9.]+ +$kind\$" out "^[^ ]*$plan[^ ]* +$sign[0-9.]+ "
        swept csv "an experiment as CSV, $kind" out 'source' out "^$plan,.*,$kind"
        swept markdown "an experiment as Markdown, $kind" out "^\\| $plan \\|.* $sign[0-9.]+ \\|.* $kind \\|"
        swept html "an experiment's page, $kind" out "$sign[0-9.]+</td>" out "<td class=\"name\">$kind"
        swept svg "an experiment's picture, $kind" out ">$sign[0-9][0-9.]*<"
        [ -f rows.jsonl ] || fb run layer_norm.lua --experiment --device $device --out rows.jsonl
        holds "an experiment's file, $kind" grep -Eq "\"plan\":\"$plan\".*\"source\":\"$kind\"" rows.jsonl
        ;;
    esac
}

for format in table csv markdown json html svg jsonl diff gate experiment; do
    one $format recorded none "$none" '[~≈]'
    one $format composed composed.json ≈ '~?'
    one $format predicted predicted.json '~' '≈?'
done

# Formats that hold several kinds say what the signs mean.
for format in table markdown html svg; do
    fb run layer_norm.lua none composed.json predicted.json --device $device --format $format
    is "signs have a legend in $format" 0 out '~.*predicted.*by the cost model' out '≈.*composed.*of recorded kernels'
done

# A device's own measurements beside them; what was measured has no sign, and no ratio to another device's.
cat >two.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { n = fb.int { 64 } },
  variants = {
    one = function(g, p) return g:input("x", { p.n, 33 }):tanh():exp():relu() end,
    other = function(g, p) return g:input("x", { p.n, 33 }):tanh():exp():sqrt() end,
  },
}
LUA
ratio='[0-9.]+(e[+]?[0-9]+)? ?×'
for format in table markdown; do
    fb run two.lua one:max@host one:none@host one:max@$device other:max@host --format $format
    is "measured beside predicted in $format" 0 out "one:max@host .* measured" out "one:max@$device .* ~$us .* predicted" \
        no "one:max@$device [^×]*$ratio" no "other:max@host [^×]*$ratio" no 'host[ |]+[~≈]'
done
fb diff two.lua one:max@host one:max@$device
is "diff tells no ratio to another device" 0 out '^no ratio: it is another device than the first one.s$' no "$ratio|slower|faster"
fb diff two.lua one:max@host other:max@host
is "nor to another computation" 0 out '^no ratio: it is another computation than the first one.s$' no "$ratio|slower|faster"
fb diff two.lua one:max@host other:max@host --format json
json "nor in JSON" out 'why.incomparable=another computation' '!why.verdicts.wall' '!why.verdicts.device'
fb gate two.lua one:max@host --faster-than other:max@host
is "nor a gate" 3 out '\? +faster than other:max@host +.* it is another computation' no "$ratio"

# ---- hand-outs: the columns of a page as elsewhere, and which device each figure is of
cat >lesson.lua <<'LUA'
local fb = require "fusebox"
return fb.lesson { title = "Kinds", pages = {
  fb.page { title = "All", script = "layer_norm", columns = { "none", "composed.json", "predicted.json" } },
  fb.page { title = "Here", script = "two", columns = { "one:max@host", "one:max" } },
} }
LUA
fb lesson lesson.lua --format html --device $device
is "a hand-out, each kind" 0 out "<td>$us</td>" out "<td>≈$us</td>" out "<td>~$us</td>" out '<td class="name">recorded' \
    out '<td class="name">composed' out '<td class="name">predicted' out '<td class="name">measured' \
    out '<dt>≈ composed</dt>' out '<dt>~ predicted</dt>' no "$ratio[^<]*</td>.*<td class=\"name\">predicted.*host"
is "a hand-out names its devices" 0 out "<p class=\"dim\">$device: NVIDIA H200 · calibrated .* recorded 20" \
    out '<p class="dim">host: .* · (un)?calibrated'
fb lesson lesson.lua --printable --device $device
is "a sheet of questions has no figure" 0 no "[~≈]?[0-9.]+ [nµm]s" no '<dt>'

# ---- kernels that took longer, timed one by one, than whole runs: marked, and nothing is said of what lies between them
busy() {
    how=$1
    shift
    fb "$@" one:eager@torch --worker "env STANDIN_BUSY=$how python3 ${FB_SRCDIR:-.}/tests/cli/standin_peer.py"
}
for format in table markdown html; do
    busy 300 run two.lua --format $format
    is "busy above wall has a mark in $format" 0 out '300 µs\?' no '200 µs\?'
    [ $format = markdown ] || is "and its sentence in $format" 0 out 'device busy\?: More than wall: the kernels were timed'
    busy 30 run two.lua --format $format
    is "busy below wall has none in $format" 0 out '30.0 µs' no 'busy\?' no 'µs\?'
done
busy 300 run two.lua --format json
json "nor is there a gap in JSON" out columns.0.device_us.median=300.0 '!columns.0.gap_us'
busy 30 run two.lua --format json
json "as there is below wall" out columns.0.gap_us
busy 150 diff two.lua one:compile@torch
is "nor launches in a difference" 0 out 'cannot be told of the first, whose kernels, timed one by one, took longer than whole'


# ---- the whole moves what its kernels move, the copies among them that are no group's
cat >same.lua <<'LUA'
local fb = require "fusebox"
return fb.script { model = function(g) return g:input("x", { 64, 33 }) end }
LUA
fb run same.lua max@host --format json
json "an input that is a result is copied" out columns.0.launches=1 columns.0.bytes.modelled.read=8448 columns.0.bytes.modelled.written=8448
fb run models/mlp_loop carried:eager carried:max --device $device --format json
holds "states that are handed on are moved" python3 - <<'PY'
import json
for column in json.load(open("out"))["columns"]:
    parts = [k["bytes"]["modelled"] for k in column["kernels"]]
    assert any(k.get("group", -1) < 0 for k in column["kernels"])
    for way in ("read", "written"):
        assert column["bytes"]["modelled"][way] == sum(part[way] for part in parts), (column["plan"], way)
PY

# ---- values are of devices that run; what a recording composes or predicts of them is nothing
for plan in none composed.json predicted.json; do
    for format in table json; do
        fb values layer_norm.lua $plan layer_norm.mul --device $device --format $format
        is "no values of $plan as $format" 3 no . err1 'a recording keeps figures and no values'
    done
done

# ---- a recording holds what was measured: nothing of another recording
for what in plans toggles experiments; do
    fb record layer_norm.lua --device $device --only $what --out again.json
    is "no recording of a recording: $what" 2 err1 'runs nothing: record on a device that does'
    holds "nor a file of it: $what" test ! -e again.json
done

# ---- devices: what was measured there is plain, what nobody measured is a guess, in the table and in JSON
mkdir empty
XDG_CACHE_HOME=$work/empty fb devices --list
sed -n '/^host:/,/^replay/p' out | grep -E '^  (launch|copy|gemm)' >here
holds "an uncalibrated device has times and rates" grep -Eq "launch ~$us" here
holds "and all of them are guesses" sh -c '! grep -Eq "(launch|synchronising|barrier|call|:|,) [0-9]" here'
is "which is said" 0 out '^~ guessed: not measured on that device$'
sed -n "/^$device:/,/recorded/p" out | grep -E '^  (launch|copy|gemm)' >there
holds "a recorded device's are plain" grep -Eq "launch $us, in a graph $us" there
holds "its rates, too" sh -c '! grep -E "^  (copy|gemm)" there | grep -q "~"'
holds "but what calibration leaves out" grep -Eq "grid barrier ~$us" there
XDG_CACHE_HOME=$work/empty fb devices --list --format json
json "guesses in JSON" out devices.host.calibrated=false devices.host.guessed.0=launch_us
json "and of a GPU" out "devices.$device.guessed.0=barrier_us"
holds "what has the sign is listed, and nothing else" python3 - <<'PY'
import json
devices = json.load(open("out"))["devices"]
host, gpu = devices["host"], devices["replay:h200"]
shown = ["launch_us", "sync_us", "barrier_us", "copy_hot", "copy_cold", "gemm.f32", "gemm.bf16"]
assert all(key in host["guessed"] for key in shown)
assert [key for key in shown if key in gpu["guessed"]] == ["barrier_us"]
assert not any(key in ("units", "memory_bytes", "cache_bytes", "date") for key in host["guessed"] + gpu["guessed"])
PY

# ---- a ranking of two devices: no bar is of the other's length
cat >rank.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  model = function(g) return g:input("x", { 64, 33 }):tanh() end,
  experiment = function(e)
    e:row({ plan = "a", device = "host" }, { v = 2 })
    e:row({ plan = "b", device = "host" }, { v = 1 })
    e:row({ plan = "a", device = "gpu" }, { v = 8000 })
    e:plot { y = "v" }
  end,
}
LUA
fb run rank.lua --experiment --device $device
is "bars of two devices" 0 out 'a@gpu .* █{32} *$' out 'a@host .* █{32} *$' out 'b@host .* █{16} *$' out '^bars are scaled for each device by itself$'

done_testing
