#!/bin/sh
# fusebox ops, and what is made from the same table: types for editors, the importer's and the PyTorch worker's dictionaries.
. "${FB_SRCDIR:-.}/tests/cli/lib.sh"

fb ops
is "the ops as a table" 0 out '^tanh\(x\) +float +Tanh +Hyperbolic tangent' out '^clamp\(x, low=-inf, high=inf\) +number'
fb ops --format json
is "as JSON" 0 out '"name": "add"' out '"torch": "\{0\} \+ \{1\}"'
json "which is JSON" out fusebox ops
fb ops --format xml
is "no other format" 2 err1 'no format "xml"; there are: table, json, lua, python, onnx'
sh "$FB_SRCDIR/tests/cli/write_ops.sh" "$FUSEBOX" "$FB_SRCDIR" --check >out 2>err
status=$?
is "files in other languages are what the table says" 0
mkdir -p copy/scripts/import copy/scripts/workers
for f in fusebox.d.lua import/torch_graph.py workers/torch_worker.py workers/onnxruntime_worker.py; do cp "$FB_SRCDIR/scripts/$f" "copy/scripts/$f"; done
chmod -R u+w copy
sed -i 's/Hyperbolic tangent/Tangent/' copy/scripts/fusebox.d.lua
sh "$FB_SRCDIR/tests/cli/write_ops.sh" "$FUSEBOX" copy --check >out 2>err
status=$?
is "one that is not is told" 1 err1 '^scripts/fusebox.d.lua: not what engine/graph/ops.def says; run "make ops"$'
sh "$FB_SRCDIR/tests/cli/write_ops.sh" "$FUSEBOX" copy >out 2>err
status=$?
is "and written anew" 0 out '^scripts/fusebox.d.lua$'
holds "as it was" cmp -s copy/scripts/fusebox.d.lua "$FB_SRCDIR/scripts/fusebox.d.lua"

# What a script may do with an op's parameters.
cat >params.lua <<'LUA'
return function(g)
  local x = g:input("x", { 8 })
  return x:clamp(), x:clamp(-1), x:clamp(nil, 0.5)
end
LUA
fb graph params.lua --device host
is "parameters may be left out" 0 out 'clamp.*-inf, inf' out 'clamp.*-1, inf' out 'clamp.*-inf, 0.5'
echo 'return function(g) return g:input("x", { 8 }):clamp(1, 2, 3) end' >many.lua
fb graph many.lua --device host
is "and are not more than there are" 1 err 'clamp takes 3 values, not 4'

# The importer and the worker write ops with parameters as the table says; PyTorch itself is not asked.
if command -v python3 >/dev/null 2>&1; then
    cat >calls.py <<'PY'
import sys
import types
sys.dont_write_bytecode = True
sys.modules["torch"] = None
sys.path[:0] = [sys.argv[1] + "/scripts/import", sys.argv[1] + "/scripts/workers"]
import torch_worker
sys.modules["torch"] = types.ModuleType("torch")
import torch_layers
from torch_calls import CALLS
from torch_graph import Graph
g = Graph("calls", None)
x = g.add("input", [], [3, 5], "f32")
for name, args in (("softplus", (2, 5)), ("elu", (0.5,)), ("log_sigmoid", ()), ("mish", ()), ("log1p", ())):
    CALLS[name](g, x, *args)
for node in g.nodes[1:]:
    if node["op"] != "const":
        print(torch_worker.expression(node, [f"v{a}" for a in node["args"]], []))
PY
    python3 calls.py "$FB_SRCDIR" >out 2>err
    status=$?
    is "calls of PyTorch become ops, and ops calls" 0 out '^F.softplus\(v0, 2.0, 5.0\)$' out '^F.elu\(v0, 0.5\)$' \
        out '^F.mish\(v0\)$' out '^torch.log1p\(v0\)$'
fi

# Ops with a function and parameters of their own, and their gradients, in the kernels of two plans.
cat >activations.lua <<'LUA'
local fb = require "fusebox"
return fb.script {
  params = { dtype = fb.choice { "f32", "f64", "bf16", "f16" } },
  model = function(g, p)
    local x, w = g:input("x", { 33, 257 }, p.dtype) * 8, g:param("w", { 257 }, p.dtype)
    local y = x + w
    local loss = (y:softplus(2) + y:elu() + y:mish() + (y * y):log1p()):mean()
    return x:softplus() + x:softplus(0.5, 1) + x:elu(0.7) + x:mish() + x:abs():log1p(), loss, g:grad(loss, { w })[1]
  end,
}
LUA
for dtype in f32 bf16; do
    fb check activations.lua none max --set dtype=$dtype --device host
    is "softplus, elu, mish and log1p in $dtype" 0 out '✓ none' out '✓ max'
done
done_testing
