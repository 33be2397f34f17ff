#!/bin/sh
# Traces of a GPU: launches, kernels and metrics over time, in a stream and as a graph; and that plans go by its calibration. Speaks
# TAP; exits with 77 where there is no GPU. Needs fusebox in the folder FB_BUILD, and python3 to read the traces.
FB_BUILD=$(cd "${FB_BUILD:-.}" && pwd) || exit 1
export FUSEBOX="$FB_BUILD/fusebox" JSON_CHECK=/bin/false
. "${FB_SRCDIR:-$(dirname "$0")/../..}/tests/cli/lib.sh"
device=${DEVICE:-cuda:0}

cat >graph.lua <<'END'
local fb, nn = require "fusebox", require "nn"
return fb.script {
  model = function(g) return nn.layer_norm(g:input("x", { 4096, 1024 })):tanh() end,
  plans = { graph = function(pl) pl:launch("graph") end, stream = function(pl) end },
}
END
# What is in a trace: per process the kernels, the calls, and the highest value of each counter.
cat >look.py <<'END'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
for pid in sorted({e["pid"] for e in events}):
    own = [e for e in events if e["pid"] == pid]
    name = next(e["args"]["name"] for e in own if e["name"] == "process_name")
    kernels = [e for e in own if e["ph"] == "X" and 10 <= e["tid"] < 90]
    calls = [e for e in own if e["ph"] == "X" and e["tid"] == 1]
    ends = [k["ts"] + k["dur"] for k in kernels]
    # In a graph a kernel may be said to start while the last blocks of the one before it retire.
    shared = [a["ts"] + a["dur"] - b["ts"] for a, b in zip(kernels, kernels[1:])]
    late = sum(1 for us in shared if us > (0.01 if len(calls) == len(kernels) else 0.5))
    early = sum(1 for k in kernels if k["ts"] < calls[0]["ts"]) if calls else -1
    print(name, "kernels", len(kernels), "calls", len(calls), "overlaps", late, "before-call", early,
          "unknown", sum(1 for k in kernels if k["name"] == "(unknown)"), "end", round(max(ends), 1),
          "most shared", round(max(shared, default=0), 3))
    copies = {tid: [e for e in own if e["ph"] == "X" and e["tid"] == tid] for tid in (8, 90)}
    beside = sum(max(0, min(c["ts"] + c["dur"], k["ts"] + k["dur"]) - max(c["ts"], k["ts"]))
                 for tid in copies for c in copies[tid] for k in kernels)
    print("  copies of", name, "in", len(copies[8]), "out", len(copies[90]), "beside kernels" if beside > 1 else "alone",
          "unknown", sum(1 for tid in copies for c in copies[tid] if c["name"] == "(unknown)"))
    for counter in sorted({e["name"] for e in own if e["ph"] == "C"}):
        values = [e["args"]["percent"] for e in own if e["name"] == counter]
        print("  counter", counter, "samples", len(values), "most", round(max(values), 1))
END

fb run graph.lua stream graph --device "$device" --trace t.json
if [ "${status:-1}" = 3 ]; then
    echo "1..0 # SKIP $(cat err)"
    exit 77
fi
is "a trace" 0 out '✓'
python3 look.py t.json >out 2>err
sed 's/^/# /' out
is "in a stream: a call a kernel, after it, one behind the other" 0 \
    out '^stream@cuda:. kernels ([0-9]+) calls \1 overlaps 0 before-call 0 unknown 0'
is "as a graph: one call for all" 0 out '^graph@cuda:. kernels [0-9]+ calls 1 overlaps 0 before-call 0 unknown 0'
fb run overlap heavy:in_order heavy:overlapped heavy:in_order_graph heavy:overlapped_graph --set rows=16384 --set depth=8 \
    --device "$device" --trace c.json
is "copies: right answers" 0
python3 look.py c.json >out 2>err
sed 's/^/# /' out
is "copies in order are between the kernels' runs" 0 out 'copies of heavy:in_order@.* in 1 out 1 alone unknown 0' \
    out 'copies of heavy:in_order_graph@.* in 1 out 1 alone unknown 0'
is "overlapped ones beside them" 0 out 'copies of heavy:overlapped@.* in 1 out 1 beside kernels unknown 0' \
    out 'copies of heavy:overlapped_graph@.* in 1 out 1 beside kernels unknown 0'
fb run add_mul_relu max --set rows=16384 --device "$device" --trace m.json --metrics
if grep -q 'no metrics' err; then
    is "no metrics: says what to change" 0 err1 'NVreg_RestrictProfilingToAdminUsers|CUPTI|metrics'
else
    is "metrics over time" 0
    python3 look.py m.json >out 2>err
    sed 's/^/# /' out
    is "at 20 µs: more than 100 samples, busy multiprocessors and DRAM" 0 out 'counter SM active % samples [0-9]{3,} most ([5-9][0-9]|100)' \
        out 'counter DRAM read % samples [0-9]{3,} most [3-9][0-9]'
fi

# Plans are made before the device is opened: what it was calibrated with has to be in the list.
fb devices --device "$device"
sleep 5 | "$FUSEBOX" worker >hello.json 2>err
python3 -c 'import json, sys
entry = next(d for d in json.loads(open("hello.json").readline())["devices"] if d["device"] == sys.argv[1])
print(entry["machine"]["calibrated"], len(entry["machine"]["copy_hot"]))' "$device" >out 2>>err
is "a calibration is known before the device is opened" 0 out '^True [1-9]'
done_testing
