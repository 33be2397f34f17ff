#!/bin/sh
# PyTorch as a device: scripts/workers/torch_worker.py behind the worker protocol, beside our own columns.
# PYTHON is the interpreter (python3); without PyTorch in it there is only the test of what is said then.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

srcdir=${FB_SRCDIR:-.}
python=${PYTHON:-python3}
worker="$python $srcdir/scripts/workers/torch_worker.py"
command -v "$python" >/dev/null 2>&1 || { echo "1..0 # SKIP there is no $python"; exit 0; }
TORCHINDUCTOR_CACHE_DIR=$work/inductor # what others compiled tells no plan
export TORCHINDUCTOR_CACHE_DIR

# As if PyTorch were not there: a folder of that name cannot be imported.
mkdir without && echo 'raise ImportError("No module named torch")' >without/torch.py
fb run split_stack combined:eager@torch combined:max@host $small --worker "env PYTHONPATH=without $worker"
is "without PyTorch one line says so" 3 err1 'torch.*PyTorch is not installed'
fb devices --list --worker "env PYTHONPATH=without $worker"
is "and so does the list of devices" 0 out '^torch: .*PyTorch is not installed'

if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "ok $((tests + 1)) - the rest # SKIP $python has no PyTorch"
    tests=$((tests + 1))
    done_testing
    exit 0
fi
has_gpu=$("$python" -c 'import torch; print(int(torch.cuda.is_available()))' 2>/dev/null)

fbt() { # as fb, with PyTorch's worker, which takes its time to start
    timeout 600 "$FUSEBOX" "$@" --worker "$worker" >out 2>err </dev/null
    status=$?
}

# ---- in one table ----

fbt run split_stack split_stack:eager@torch combined:eager@torch combined:max@host $small --format json
is "PyTorch's columns beside ours, in one run" 0
json "with its own figures" out devices.torch.kind=torch devices.host.kind=host columns#3 columns.0.device=torch \
    columns.0.plan=eager columns.0.launches=11 columns.0.wall_us.median columns.0.wall_us.n columns.0.cold_us.median \
    columns.0.device_us.median columns.0.error.ok=true columns.0.kernels.0.name columns.0.kernels.0.count \
    columns.0.kernels.0.device_us.median columns.1.launches=4 columns.2.device=host columns.2.launches=1 \
    '!columns.0.predicted_us' '!columns.0.floor_us' '!columns.0.bytes' '!columns.0.kernels.0.registers'
fbt run split_stack combined:eager@torch combined:max@host $small
is "as a table" 0 out 'combined:eager@torch' out 'combined:max@host'
fbt devices --list
is "it is among the devices, and uncalibrated nowhere" 0 out '^torch: .*PyTorch [0-9]' no '^torch.*calibrated'
fbt run split_stack combined:quick@torch combined:eager@torch $small
is "a plan that it does not have" 1 out '✗ .*no plan' err1 'no plan "quick"; it has eager, eager\+graph, compile'
if [ "$has_gpu" = 0 ]; then
    fbt run split_stack combined:eager+graph@torch $small
    is "a CUDA graph without a GPU" 3 err1 'finds no GPU here'
fi
fbt run puzzlers/overlap both_ways:eager@torch both_ways:in_order@host --set rows=64 --format json
is "what is fed and received is copied there, too" 0
json "and counted apart from kernels" out columns.0.copies='in order' columns.0.bytes.copied.in=65536 columns.0.bytes.copied.out=65536 \
    columns.0.copy_us.median columns.0.copy_hidden_us columns.0.launches=3 columns.1.bytes.copied.in=65536
fbt run split_stack combined:compile@torch $small --format json
if [ $status = 0 ]; then
    json "torch.compile" out columns.0.plan=compile columns.0.error.ok=true columns.0.compile_ms columns.0.launches
else
    grep -q 'combined:compile@torch: PyTorch: ' err && echo "# torch.compile does not work here: $(head -c 200 err)"
    holds "torch.compile fails with one sentence" grep -q 'combined:compile@torch: PyTorch: ' err
fi

# ---- what its compiler decided ----

cat >decided.lua <<'LUA'
return function(g)
  local x = g:input("x", { 64, 32 })
  local y = (x:tanh() * 2):matmul(g:param("w", { 32, 16 }))
  return y:relu() + y:exp():sum(-1, true)
end
LUA
fbt explain decided.lua compile@torch inductor
case $("$python" -c 'import torch; print(torch.__version__)') in
2.11*)
    if [ $status = 0 ]; then
        is "Inductor's kernels are known by their nodes" 0 out 'compile@torch: Inductor 2\.11.*: [0-9]+ kernels' \
            out '^ +[0-9]+  pointwise +tanh mul$' out '^ +[0-9]+  extern +matmul$' out 'mul → matmul: ' \
            out 'beside inductor: [0-9]+ of [0-9]+ edges are fused in both or in neither'
        fbt emit decided.lua compile@torch
        is "and have sources" 0 out '(tanh|triton)'
        fbt explain decided.lua compile@torch
        is "also when they come from PyTorch's cache" 0 out '^ +[0-9]+  pointwise +tanh mul$'
    else
        holds "torch.compile fails with one sentence" grep -q 'PyTorch: ' err
    fi
    ;;
*) is "a version that was not tested has no plan, in a sentence" 3 err1 'not available: PyTorch is .* tested with' ;;
esac

# ---- the same inputs, bit for bit ----

cat >inputs.lua <<'LUA'
return function(g)
  local out = {}
  for _, dtype in ipairs { "f32", "f16", "bf16", "f64" } do
    for _, dist in ipairs { { low = -0.0510310363, high = 0.0510310363 }, { dist = "normal", mean = 0.1, std = 0.7 },
        { dist = "integer", low = -3, high = 5000 }, { dist = "constant", value = 0.1 } } do
      out[#out + 1] = g:input("in_" .. dtype .. "_" .. (dist.dist or "uniform"), { 20000 }, dtype, dist)
    end
  end
  for _, dtype in ipairs { "i32", "i64" } do
    out[#out + 1] = g:input("in_" .. dtype, { 100, 30 }, dtype, { dist = "integer", low = -70000, high = 70000 })
  end
  out[#out + 1] = g:param("weight", { 3, 5, 7 }, "f32", { low = -1, high = 1 })
  out[#out + 1] = g:rand({ 300 }, "f32", { seed = 7 })
  local all = {}
  for i, x in ipairs(out) do g:output(x, "out" .. i) end
end
LUA
reference=$XDG_CACHE_HOME/fusebox/reference
fb run inputs.lua none@host
is "sources as outputs" 0
fb graph inputs.lua --format json
cp out graph.json
holds "inputs are the same bit for bit, under two seeds" "$python" "$srcdir/tests/cli/torch_values.py" inputs graph.json "$reference"

# ---- the same answers, from PyTorch's own calls ----

layers=$srcdir/tests/cli/layers.lua
called() { # SCRIPT VARIANT CALLS SWITCH…
    script=$1 variant=$2 calls=$3
    shift 3
    fb run "$script" "${variant:+$variant:}none@host" "$@"
    [ $status = 0 ] || { report not-ok "$script $variant: the reference"; return; }
    fb graph "$script" ${variant:+"$variant:none"} "$@" --format json
    cp out graph.json
    "$python" "$srcdir/tests/cli/torch_values.py" answers graph.json "$reference" >out 2>err
    status=$?
    is "$(basename "$script") $variant: the reference's answer, through $calls" 0 out "^$calls$"
}
called "$layers" layers 'F.layer_norm F.linear F.silu F.softmax torch.addmm'
called "$layers" attention F.scaled_dot_product_attention
called "$layers" norms 'F.batch_norm F.group_norm'
called "$layers" gru torch.gru_cell
called "$layers" gather '(F.embedding|no calls)'
called "$layers" half F.layer_norm
called "$layers" order 'no calls'
called "$layers" scan 'no calls'

# Loops, by hand: a / 2 + step three times, and w - 0.8 w three times, while whoever reads w from outside sees what it was.
said() { # VARIANT REGEX
    fb graph "$layers" "$1:none" --set ones=true --format json
    cp out graph.json
    "$python" "$srcdir/tests/cli/torch_values.py" print graph.json >out 2>err
    status=$?
    is "layers.lua $1: $2" 0 out "$2"
}
said loop '^[a-z0-9_.]+ 2\.625 2\.625$'
said train '^[a-z0-9_.]+ 0\.008'
said train '^[a-z0-9_.]+ 16$'
fbt run "$layers" lstm:eager@torch --format json
is "an LSTM over time, against the same op by op in double" 0
json "through PyTorch's cell" out columns.0.error.ok=true columns.0.launches

# PyTorch promises no order of equals, and takes another one of them.
cat >ties.lua <<'LUA'
local nn = require "nn"
return function(g)
  local values, places = nn.topk((g:input("x", { 64, 40 }, "f32") * 2):round(), 5)
  return { values, places }
end
LUA
fbt run ties.lua eager@torch --format json
is "places that equals decide are undecided" 0
json "and not wrong" out columns.0.error.ok=true columns.0.error.undecided

# shellcheck disable=SC2086
for script in "$srcdir"/scripts/*/*.lua; do
    case $script in
    */lib/*) continue ;;
    */split_stack.lua) set -- $small ;;
    */lstm_step.lua) set -- --set N=5 --set I=12 --set H=20 ;;
    */lora_mlp.lua) set -- --set batch=9 --set inputs=40 --set outputs=24 --set rank=3 ;;
    */add_mul_relu.lua | */layer_norm.lua | */softmax.lua) set -- --set rows=61 --set columns=83 ;;
    *) set -- ;;
    esac
    fb check "$script" --device host "$@"
    for variant in $(sed -nE 's/^[^ ]+ ([^: ]*):none(@host)?:.*/\1:/p' out); do
        called "$script" "${variant%:}" '[a-zA-Z_. ]+' "$@"
    done
done

# ---- by hand: two seeds, a cancel, messages that make no sense ----

fb graph split_stack combined:none $small --format json
cp out graph.json
"$python" - "$worker" >out 2>err <<'PYTHON'
import json, shlex, subprocess, sys, time

graph = json.load(open("graph.json"))
w = subprocess.Popen(shlex.split(sys.argv[1]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
def say(*messages):
    w.stdin.write("".join(json.dumps(m) + "\n" for m in messages).encode())
    w.stdin.flush()
def hear(kind=None):
    while True:
        m = json.loads(w.stdout.readline())
        if m["type"] != "progress" or kind == "progress":
            return m
say({"type": "hello", "fusebox": 1, "version": "0"})
print("hello", hear()["devices"][0]["plans"][0])
sections = [("n_scopes", "scopes"), ("n_regions", "regions"), ("n_nodes", "nodes")]
say({"type": "graph", "hash": "g"}, {"fusebox_graph": 1, "title": "", **{n: len(graph[k]) for n, k in sections}},
    *(line for _, k in sections for line in graph[k]), {"outputs": graph["outputs"], "hash": graph["hash"]})
say({"type": "prepare", "id": 1, "graph": "g", "plan": "eager", "seeds": [1, 2]})
m = hear()
print(m["type"], m["report"]["error"]["ok"])
for n in range(6):
    say({"type": "sample", "id": 1, "n": 4, "cache": "hot"})
    m = hear()
print(m["type"], m["report"]["wall_us"]["n"], m["report"]["error"]["ok"])
say({"type": "sample", "id": 1, "n": 100000000, "cache": "hot"})
time.sleep(0.5)
start = time.time()
say({"type": "cancel", "id": 1})
m = hear()
print("cancel", m["type"], m.get("kind"), "soon" if time.time() - start < 20 else "late")
say({"type": "sample", "id": 1, "n": 2, "cache": "cold"})
print("after", hear()["type"])
say({"type": "prepare", "id": 2, "graph": "nothing", "plan": "eager"})
print("graph", hear()["kind"])
w.stdin.write(b'no json\n{"type":"dance","id":9}\n')
w.stdin.flush()
print("noise", hear()["kind"], hear()["id"])
say({"type": "hello", "fusebox": 99})
print("version", hear()["kind"])
say({"type": "release", "id": 1})
print(hear()["type"])
say({"type": "sample", "id": 1, "n": 1})
print("released", hear()["kind"])
w.stdin.close()
print("end", w.wait(60) is not None)
PYTHON
status=$?
is "by hand" 0 out '^hello eager' out '^prepared True' out '^sampled 24 True' out '^cancel error cancelled soon' out '^after sampled' \
    out '^graph input' out '^noise input 9' out '^version unavailable' out '^released$' out '^released input' out '^end True'
done_testing
