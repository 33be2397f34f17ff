#!/bin/sh
# Other frameworks as devices: the workers beside PyTorch's (JAX, ONNX Runtime, tinygrad), by name and by command, and plans of
# ours on a framework's compiler. PYTHON is the interpreter (python3); what it does not have is skipped with a word.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

srcdir=${FB_SRCDIR:-.}
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "1..0 # SKIP there is no $python"; exit 0; }
export FUSEBOX_PYTHON="$python"

# ---- without any framework: names, what is missing, plans that are handed over ----

mkdir without
for module in torch jax onnxruntime onnx tinygrad numpy; do
    echo "raise ImportError(\"No module named $module\")" >without/$module.py
done
for framework in jax onnxruntime tinygrad torch; do
    fb devices --list --worker "env PYTHONPATH=without $python $srcdir/scripts/workers/${framework}_worker.py"
    is "$framework: without it one line says so" 0 out "^$framework: .* is not installed for .*No module named"
    fb run split_stack "combined:none@$framework" $small --worker "env PYTHONPATH=without $python $srcdir/scripts/workers/${framework}_worker.py"
    is "$framework: and so does a column" 3 err1 "$framework.*is not installed"
done
mkdir nothing && printf '#!/bin/sh\nexit 0\n' >nothing/python && chmod +x nothing/python
FUSEBOX_PYTHON=$PWD/nothing/python fb devices --list --worker auto
is "auto: where there is none of them, that is said" 0 err1 'auto: .*has none of torch, jax, onnxruntime and tinygrad'
printf '#!/bin/sh\nif [ "$1" = -c ]; then echo jax; else exec "%s" "$@"; fi\n' "$(command -v "$python")" >nothing/python
PYTHONPATH=$PWD/without FUSEBOX_PYTHON=$PWD/nothing/python fb devices --list --worker auto
is "auto: those that Python finds are started" 0 out '^jax: ' no '^tinygrad: '
fb run split_stack combined:none $small --worker jaxx
is "a name that is none of them is a command" 0 err 'cannot run jaxx'

fb ops --format json
cp out ops.json
"$python" - "$srcdir" ops.json >out 2>err <<'PYTHON'
import json, re, sys
folder, ops = sys.argv[1] + "/scripts/workers/", {o["name"] for o in json.load(open(sys.argv[2]))["ops"]}
table = open(sys.argv[1] + "/engine/graph/ops.def").read()
ops |= set(re.findall(r"^OTHER\(\w+, (\w+),", table, re.M))
structure = {"input", "param", "const", "iota", "random", "carried", "step", "item", "assign", "feed", "receive", "loop", "result"}
base = open(folder + "fusebox_arrays.py").read()
for name in ("jax", "onnxruntime", "tinygrad"):
    text = open(folder + name + "_worker.py").read() + (base if name == "jax" else "")
    words = set(re.findall(r"\"([a-z_0-9]+)\"", text)) | set(re.findall(r"def op_(\w+)", text))
    words |= set(re.findall(r"\b([a-z_0-9]+)\b", "".join(re.findall(r"for op in \(\"(.*?)\"\)\.split", text, re.S))))
    print(name, *sorted(ops - structure - words) or ["all"])
PYTHON
status=$?
is "each op is mapped, or refused by name" 0 out '^jax all$' out '^onnxruntime all$' out '^tinygrad all$'

fb run split_stack combined:none@torch combined:max@torch combined:compile@torch combined:rolled@torch $small --worker "env STANDIN_OBEYS=1 STANDIN_LOG=given.log $python $srcdir/tests/cli/standin_peer.py"
is "a plan of ours is handed over as groups, one of its own by name" 0
"$python" -c '
import json
given = {(p if isinstance(p, str) else p["name"]): p for p in (json.loads(line) if line[0] == "{" else line.strip() for line in open("given.log"))}
none, most = (given[k]["groups"] for k in ("none", "max"))
print("groups", len(none), "more" if len(none) > len(most) >= 1 else "not more", len(most))
print("same nodes", sorted({i for g in most for i in g}) == sorted({i for g in none for i in g}))
print("named", given["compile"])' >out 2>err
status=$?
is "as many groups as the plan has kernels" 0 out '^groups [0-9]+ more' out '^same nodes True' out '^named compile'

# ---- with what is there ----

there() { # FRAMEWORK PLAN…: each variant under each plan, against double
    framework=$1
    shift
    if ! "$python" -c "import $framework, numpy" 2>/dev/null; then
        tests=$((tests + 1))
        echo "ok $tests - $framework # SKIP $python has no $framework"
        return
    fi
    columns=
    for plan in "$@"; do
        for variant in layers attention gather order scan loop train half; do columns="$columns $variant:$plan@$framework"; done
    done
    # shellcheck disable=SC2086
    timeout 600 "$FUSEBOX" run "$srcdir/tests/cli/layers.lua" $columns --worker "$framework" --format json >out 2>err </dev/null
    status=$?
    is "$framework: loops, scopes, gathers, ranks and assignments run under $*" 0
    "$python" -c '
import json
columns = json.load(open("out"))["columns"]
print(sum(c["error"]["ok"] and c["wall_us"]["n"] > 0 for c in columns), "of", len(columns))' >verified 2>&1
    mv verified out
    is "$framework: and all answers are right" 0 out "^$((8 * $#)) of $((8 * $#))$"
}
there jax jit eager
there onnxruntime all none
there tinygrad jit

if "$python" -c 'import torch' 2>/dev/null; then
    cat >apart.lua <<'LUA'
return function(g)
  local x = g:input("x", { 64, 96 }, "f32", { dist = "normal" })
  local y = ((x * 2 + 1):tanh() - 0.5):sigmoid()
  return y * x, (y + 1):sum(1)
end
LUA
    timeout 600 "$FUSEBOX" run apart.lua none@torch max@torch --worker torch --format json >out 2>err </dev/null
    status=$?
    if grep -q 'obeys a plan was tested with' err; then
        report ok "torch: another version of PyTorch says so"
    else
        is "torch: Inductor obeys a plan of ours" 0
        json "every step a kernel under none, one or two under max" out columns.0.launches=8 columns.0.error.ok=true columns.1.error.ok=true
        "$python" -c 'import json; c = json.load(open("out"))["columns"]; print("fewer", c[1]["launches"] <= 2)' >fewer
        mv fewer out
        is "torch: and what max fuses is fused" 0 out '^fewer True'
    fi
    cat >own.lua <<'LUA'
return function(g)
  local x, w = g:input("x", { 8, 16 }, "f32", { dist = "normal" }), g:param("w", { 16, 4 })
  return ((x:matmul(w) + g:param("b", { 4 })):relu() * 2):tanh()
end
LUA
    timeout 600 "$FUSEBOX" export own.lua none ownplan.py --as inductor >out 2>err </dev/null
    status=$?
    is "export --as inductor writes a module" 0 err1 'ownplan.py: 5 groups'
    fb export own.lua none ownplan.py --as inductor
    is "but over nothing" 2 err1 'there already'
    fb export own.lua none own-plan.py --as inductor
    is "nor what cannot be imported" 2 err1 'what Python imports'
    timeout 600 "$python" - >out 2>err <<'PYTHON'
import torch
if not torch.__version__.startswith("2.11"):
    print("another version")
    raise SystemExit
import ownplan
class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.b, self.w = torch.nn.Parameter(torch.randn(4)), torch.nn.Parameter(torch.randn(16, 4))
    def forward(self, x):
        return torch.tanh(torch.relu(x @ self.w + self.b) * 2)
own, x = Own(), torch.randn(8, 16)
with torch.no_grad():
    print("same", torch.allclose(torch.compile(own)(x), own(x), atol=1e-6))
    r = ownplan.report()
    print("found", r["found"], "of", r["operations"], "kernels", r["kernels"], "obeyed", r["obeyed"])
    torch.compile(lambda x: torch.sin(x) + 1)(x)
    print("another", ownplan.report())
PYTHON
    status=$?
    grep -q 'another version' out || is "and a model of one's own is compiled as it says" 0 out '^same True' \
        out '^found 5 of 5 kernels 5 obeyed 5' out "^another .*'found': 0"
else
    tests=$((tests + 1))
    echo "ok $tests - plans for Inductor # SKIP $python has no torch"
fi
done_testing
