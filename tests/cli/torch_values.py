"""What tests/cli/torch.sh asks of scripts/workers/torch_worker.py, from inside it: its numbers against the reference files
that fusebox wrote for the same graph and seed.

    torch_values.py inputs GRAPH.json REFERENCE-FOLDER    outputs that are sources, bit for bit, for every seed there is
    torch_values.py answers GRAPH.json REFERENCE-FOLDER   all outputs, with and without op scopes, seed 0; prints the calls
    torch_values.py print GRAPH.json                      the first values of each output, in double, seed 0
    torch_values.py module GRAPH.json REFERENCE-FOLDER MODEL.py:make [train]    all outputs against the module's own, in double, seed 0
"""
import json
import math
import os
import sys

sys.path.insert(0, os.path.join(os.environ.get("FB_SRCDIR", "."), "scripts", "workers"))
import reference_file  # noqa: E402
import torch  # noqa: E402
import torch_worker as worker  # noqa: E402


def references(folder, graph):
    """seed → node → values."""
    return {seed: {node: torch.frombuffer(values, dtype=torch.int64 if values.typecode == "q" else torch.float64)
                   if values else torch.empty(0, dtype=torch.float64) for node, values in tensors.items()}
            for seed, tensors in reference_file.all_of(folder, graph["hash"]).items()}


def inputs(graph, found):
    compared = 0
    for seed, tensors in found.items():
        for node, values in tensors.items():
            got = worker.source(graph["nodes"][node], seed, {}).reshape(-1)
            same = torch.equal(got.to(values.dtype), values)
            if not same:
                wrong = int((got.to(values.dtype) != values).nonzero()[0])
                sys.exit(f"{graph['nodes'][node]['name']} seed {seed} [{wrong}]: {got[wrong].item()!r} instead of "
                         f"{values[wrong].item()!r}")
            compared += 1
    print(compared, "tensors are the same")


def answers(graph, found):
    for scopes in (False, True):
        written = worker.Source(graph, scopes)
        model, sources = worker.function(graph, scopes)
        with torch.no_grad():
            got = model(*(worker.source(n, 0, {}) for n in sources))
        dtypes = {n["dtype"] for n in graph["nodes"]}
        allowed = next(a for d, a in worker.ALLOWED.items() if d in dtypes or d == "f64")
        for i, tensor in zip(worker.checked(graph), got):
            want = found[0][i]
            off = (tensor.reshape(-1).double() - want.double()).abs().max().item()
            scale = max(want.double().abs().max().item(), 1e-30)
            if not off <= allowed * scale:
                sys.exit(f"{graph['nodes'][i]['name']}: off by {off} of {scale}, scopes {scopes}\n{written.text()}")
    print(" ".join(sorted({c.what.split("(")[0] for c in written.calls.values()})) or "no calls")


def show(graph):
    model, sources = worker.function(graph, scopes=True, wide=True)
    values = (worker.source(n, 0, {}) for n in sources)
    for i, tensor in zip(worker.checked(graph), model(*(v.double() if v.is_floating_point() else v for v in values))):
        print(graph["nodes"][i]["name"], *(f"{v:.6g}" for v in tensor.reshape(-1)[:4].tolist()))


# How far a value may be off in the dtype that a module computes it in, even in double: a module may name a dtype.
NEAR = {torch.float64: 1e-6, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def module(graph, found, what, train=""):
    sys.path.insert(0, os.path.join(os.environ.get("FB_SRCDIR", "."), "scripts", "import"))
    import from_torch
    net, examples, words = from_torch.load(what)
    drawn = {n["name"]: worker.source(n, 0, {}) for n in graph["nodes"] if n["op"] == "input"}
    names = from_torch.exported(net, examples, words, bool(train))[1]
    values = [drawn.get(name, example) for name, example in names.items()]
    tree = torch.utils._pytree.tree_structure((examples, words))
    with torch.no_grad():
        own = torch.utils._pytree.tree_leaves(answer(net, tree, values, train))
        want = answer(net.double(), tree, [v.double() if v.is_floating_point() else v for v in values], train)
    want, worst, wrong = torch.utils._pytree.tree_leaves(want), 0.0, []
    for k, (o, tensor, typed) in enumerate(zip(graph["outputs"], want, own, strict=True)):
        node, got = graph["nodes"][o["node"]], found[0][o["node"]]
        kind = f"{from_torch.dtype_of(typed.dtype)}{list(typed.shape)}"
        off = far(got, tensor.reshape(-1))
        if f"{node['dtype']}{node['shape']}" != kind or not off <= NEAR.get(tensor.dtype, 0):
            wrong.append(f"{o['name']}: {node['dtype']}{node['shape']} for {kind}, off by {off}")
        worst = max(worst, off)
    if wrong:
        sys.exit("\n".join(wrong))
    print(len(want), f"outputs are PyTorch's in value, shape and dtype, off by {worst:.1e} at most")


def answer(net, tree, values, train=""):
    """The module's own, of copies of its inputs and of what it keeps: it may change them."""
    import copy
    args, words = torch.utils._pytree.tree_unflatten([v.clone() if isinstance(v, torch.Tensor) else v for v in values], tree)
    net = copy.deepcopy(net)
    if not train:
        return net(*args, **words)
    with torch.enable_grad():  # the loss, and its gradients in the order of the weights
        results = torch.utils._pytree.tree_leaves(net.train()(*args, **words))
        return results[:1] + list(torch.autograd.grad(results[0], [p for p in net.parameters() if p.requires_grad])) + results[1:]


def far(got, want):
    """The largest difference beside the largest value; infinite and undefined ones have to be the same."""
    got, want = got.double(), want.double()
    if got.shape != want.shape or not torch.equal(got.isnan(), want.isnan()):
        return math.inf
    odd = want.isnan() | want.isinf() | got.isinf()
    if not torch.equal(got[odd & ~want.isnan()], want[odd & ~want.isnan()]):
        return math.inf
    got, want = got[~odd], want[~odd]
    return (got - want).abs().max().item() / max(want.abs().max().item(), 1e-30) if len(want) else 0.0


if __name__ == "__main__":
    graph = json.load(open(sys.argv[2]))
    if sys.argv[1] == "print":
        sys.exit(show(graph))
    found = references(sys.argv[3], graph)
    if not found:
        sys.exit("no reference was written for this graph")
    {"inputs": inputs, "answers": answers, "module": module}[sys.argv[1]](graph, found, *sys.argv[4:])
