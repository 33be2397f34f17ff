"""What `make check-import` asks of one model: does it import, is it PyTorch's in value, shape and dtype, how many kernels has
the preset `eager` for how many calls of PyTorch. All in this process; nothing is written but a graph without weights.
"""
import collections
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("scripts/import", "scripts/workers", "tests/cli"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", folder))

import from_torch  # noqa: E402
import torch  # noqa: E402
import torch_worker as worker  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch_graph import Graph  # noqa: E402
from torch_values import answer, far  # noqa: E402

FUSEBOX = os.environ.get("FUSEBOX", "fusebox")
NEAR = {torch.float64: 1e-6, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}


class Kept(Graph):
    """A graph whose weights stay in memory: by the names that their files would have."""

    def sources(self):
        return {name[:-4]: tensor for name, (tensor, _) in self.files.items()}


def graph_of(net, inputs, words, folder, refused):
    """The graph, examples of its inputs, the importer when it is done, and node of PyTorch's → the names of what it became."""
    program, examples, lines = from_torch.exported(net, inputs, words)
    made, convert_call = {}, from_torch.convert_call

    def watched(g, node, known):
        first = len(g.nodes)
        out = convert_call(g, node, known)
        made[node] = [n["name"] for n in g.nodes[first:]]
        return out
    from_torch.Graph, from_torch.convert_call = Kept, watched
    importer = from_torch.Importer(program, examples, lines, type(net).__name__, folder, 8)
    try:
        importer.run()
    finally:
        from_torch.convert_call = convert_call
    refused += dict.fromkeys(importer.failed)
    return importer, examples, made


def values(g, examples):
    """What the imported graph gives, node by node in PyTorch, floats in double."""
    graph = json.loads(g.document())
    model, wanted = worker.function(graph, scopes=False, wide=True)
    weights, given = g.sources(), []
    for node in wanted:
        tensor = weights[node["file"]] if node.get("dist") == "file" else examples.get(node["name"])
        tensor = worker.source(node, 0, {}) if tensor is None else tensor
        given.append(tensor.double() if tensor.is_floating_point() else tensor)
    with torch.no_grad():
        got = dict(zip(worker.checked(graph), model(*given)))
    return [(graph["nodes"][o["node"]], got[o["node"]]) for o in graph["outputs"]]


def apart(got, want):
    """As `far`, but what is nothing beside the values that it is made of is rounding: the mean of a normalized row, say."""
    off = far(got, want)
    tiny = not math.isinf(off) and want.numel() and want.is_floating_point() and float(want.nan_to_num(0, 0, 0).abs().max()) < 1e-12
    return float((got - want).nan_to_num(0).abs().max()) if tiny else off


def compared(g, examples, net, inputs, words):
    """The largest difference from the module's own results; a sentence where it is too large."""
    tree = torch.utils._pytree.tree_structure((inputs, words))
    drawn = list(examples.values())
    with torch.no_grad():
        own, near = torch.utils._pytree.tree_leaves(answer(net, tree, drawn)), NEAR
        try:
            want = answer(net.double(), tree, [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in drawn])
        except RuntimeError:  # a call that PyTorch has for narrower floats alone: then as it is
            want, near = own, {**NEAR, torch.float32: 1e-4}
    own, want = ([v for v in torch.utils._pytree.tree_leaves(vs) if isinstance(v, torch.Tensor)] for vs in (own, want))
    worst, wrong, got = 0.0, [], values(g, examples)
    if len(got) != len(want):
        return None, [f"{len(got)} results for {len(want)}"]
    for (node, tensor), theirs, typed in zip(got, want, own):
        kind, off = f"{from_torch.dtype_of(typed.dtype)}{list(typed.shape)}", apart(tensor.reshape(-1), theirs.reshape(-1))
        if f"{node['dtype']}{node['shape']}" != kind or not off <= near.get(theirs.dtype, 0):
            wrong.append(f"{node['name']}: {node['dtype']}{node['shape']} for {kind}, off by {off}")
        worst = max(worst, off)
    return worst, wrong


# ---- how many calls PyTorch makes

# One call on a GPU whatever it is made of elsewhere.
WHOLE = ("linear", "scaled_dot_product_attention", "rms_norm", "lstm", "gru", "rnn_tanh", "rnn_relu", "layer_norm", "group_norm",
         "batch_norm", "instance_norm", "matmul", "silu", "gelu", "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d",
         "conv_transpose2d", "conv_transpose3d", "pad", "addmm", "baddbmm", "max_pool1d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
         "adaptive_avg_pool3d", "embedding_bag", "glu", "softmax", "log_softmax", "cdist", "sort", "topk", "argsort", "repeat_interleave")
COPIES = ("clone", "copy", "copy_", "contiguous", "_unsafe_view", "lift_fresh_copy", "detach", "detach_")
FREE = ("zeros", "ones", "full", "arange", "scalar_tensor", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full",
        "empty_like", "new_empty", "empty_strided", "fill", "fill_", "zero_", "sym_size", "sym_numel", "_assert_tensor_metadata", "empty", "dropout", "feature_dropout", "lift_fresh", "getitem")


class Counted(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls[str(function).split(".")[1]] += 0 if function.is_view else 1
        return function(*args, **(kwargs or {}))


def calls_in(importer):
    """Node of the program → how many calls of PyTorch's that compute it is: views, copies and fills are none, and a call that
    PyTorch takes apart counts as its parts. What the importer worked out is in no graph."""
    total = {}
    def on_meta(v):
        return torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device="meta") if isinstance(v, torch.Tensor) else v
    for n in importer.program.graph.nodes:
        target, name = n.target, from_torch.called(n)
        if n.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or n in importer.known.folded:
            continue
        if name in WHOLE:
            total[n] = collections.Counter({name: 1})
        elif not target.is_view and name not in FREE:
            args, kwargs = torch.fx.node.map_arg((n.args, n.kwargs), lambda a: on_meta(a.meta.get("val")))
            counted = Counted()
            try:
                with counted:
                    target(*args, **({**kwargs, "device": "meta"} if "device" in kwargs else kwargs))
            except Exception:  # it needs values: one call
                counted.calls[name] = 1
            total[n] = +collections.Counter({k: v for k, v in counted.calls.items() if k not in COPIES + FREE})
    return total


def beside(importer, made, kernels):
    """How many kernels and calls there are, and where the two differ: call → (difference, how often)."""
    calls, holds = calls_in(importer), {}
    kernels = [k for k in kernels if not all(re.fullmatch(r".*_copy(_\d+)?", name) for name in k[1].split())]  # of results
    for k, (_, nodes) in enumerate(kernels):
        for name in nodes.split():
            holds.setdefault(name, set()).add(k)
    unlike, seen = collections.defaultdict(lambda: [0, 0]), set()
    for node, names in made.items():
        own = set().union(*(holds.get(name, ()) for name in names)) - seen
        seen |= own
        there = sum(calls.get(node, {}).values())
        if len(own) != there:
            unlike[from_torch.called(node)][0] += len(own) - there
            unlike[from_torch.called(node)][1] += 1
    return {"calls": sum(sum(c.values()) for c in calls.values()), "eager": len(kernels), "unlike": dict(unlike)}


def kernels_of(path, plan):
    """The plan's kernels, a list of (family, nodes)."""
    run = subprocess.run([FUSEBOX, "graph", path, plan], capture_output=True, text=True, timeout=120)
    if run.returncode:
        raise ValueError("it does not open: " + run.stderr.strip().splitlines()[-1])
    text = run.stdout.rpartition(f"\nkernels of {plan}\n")[2]
    return re.findall(r"^ *\d+  (\w+) +(.*)$", text, re.M)


def ask(net, inputs, words=None, small=True, count=True):
    """A row of the table."""
    begin, refused, row = time.monotonic(), [], {}
    net.eval()
    folder = "weights" if small else None
    try:
        importer, examples, made = graph_of(net, inputs, words or {}, folder, refused)
        g = importer.g
    except Exception as why:
        line = next((text for text in str(why).splitlines() if text.strip()), "")
        return {"state": "not traced", "refused": [f"{type(why).__name__}: {line}"]}
    row["s"] = round(time.monotonic() - begin, 1)
    if refused:
        return {"state": "refused", "refused": refused, **row}
    row.update(state="imported", nodes=len(g.nodes))
    with tempfile.TemporaryDirectory() as own:
        path = os.path.join(own, "graph.json")
        g.folder, files = None, g.files
        with open(path, "w") as f:
            f.write(re.sub(r'"dist":"file","file":"[0-9a-f]+"', '"dist":"normal","value":0,"high":1', g.document()))
        try:
            row["opened"] = len(kernels_of(path, "none"))
            if count:
                row.update(beside(importer, made, kernels_of(path, "eager")))
        except (ValueError, subprocess.TimeoutExpired) as why:
            row.update(state="not opened", refused=[str(why)[:300]])
    if small and row["state"] == "imported":
        row["off"], wrong = compared(g, examples, net, inputs, words or {})
        if wrong:
            row.update(state="wrong", refused=wrong[:5])
    row["all_s"] = round(time.monotonic() - begin, 1)
    return row
