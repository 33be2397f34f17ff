"""Kernel boundaries of the preset `tinygrad` beside those of the tinygrad package: how many kernels, and for each how
many reductions it holds and how many buffers it reads.

Usage: tinygrad_kernels.py FUSEBOX. Speaks TAP; 77 where there is no tinygrad. Checked with tinygrad 0.14: all equal, with
its limit of 31 buffers a kernel (which it has on the CPU, not on CUDA) lifted.
"""
import json
import os
import subprocess
import sys

os.environ.setdefault("DEV", "CPU")
os.environ.setdefault("MAX_KERNEL_BUFFERS", "1000")
try:
    import tinygrad
    from tinygrad import Tensor
    from tinygrad.uop.ops import Ops
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(77)

REDUCTIONS = {"sum", "mean", "amax", "amin", "prod", "matmul"}
VIEWS = {"view", "permute", "slice", "expand", "pad", "flip"}
NO_BUFFER = {"const", "iota", "random"}

# ---- the package ----


def stored(*shape):
    return Tensor.rand(*shape).contiguous().realize()


def scheduled(*outputs):
    kernels = []
    for call in outputs[0].schedule_linear(*outputs[1:]).src:
        ops = [u.op for u in call.src[0].toposort()]
        kernels.append((ops.count(Ops.REDUCE), ops.count(Ops.PARAM) - 1))
    return sorted(kernels)


def layer_norm(x, eps=None):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred * (variance if eps is None else variance + eps).rsqrt()


def puzzler(split):
    n, b, d = 16, 64, 32
    x, w, bias = stored(n * b * d), stored(1, d), stored(1)
    if split:
        y = Tensor.stack(*[layer_norm(f.reshape(b, d)).tanh() for f in x.split(b * d)])
    else:
        y = layer_norm(x.reshape(n, b, d)).tanh()
    return [(y.dot(w.T) + bias).relu()]


def lora(merged):
    x, w, a, b, bias = stored(128, 512), stored(512, 512), stored(512, 16), stored(16, 512), stored(512)
    return [((x @ (w + 0.5 * (a @ b))) + bias).relu() if merged else (x @ w + 0.5 * ((x @ a) @ b) + bias).relu()]


def lstm(form):
    n, h = 64, 48
    x, state, c = stored(n, h), stored(n, h), stored(n, h)
    wi, wh, bi, bh = stored(4 * h, h), stored(4 * h, h), stored(4 * h), stored(4 * h)
    if form == "addmm":
        gates = (x @ wi.T + bi) + (state @ wh.T + bh)
    elif form == "cat":
        gates = x.cat(state, dim=1) @ stored(4 * h, 2 * h).T + bi
    else:
        gates = x @ wi.T + bi + state @ wh.T + bh
    i, f, z, o = gates.chunk(4, 1)
    if form == "stacked":
        opened = Tensor.stack(i, f, o).sigmoid()
        i, f, o = opened[0], opened[1], opened[2]
    else:
        i, f, o = i.sigmoid(), f.sigmoid(), o.sigmoid()
    c_next = f * c + i * z.tanh()
    return [o * c_next.tanh(), c_next]


def softmax():
    x = stored(64, 64)
    e = (x - x.max(-1, keepdim=True)).exp()
    return [e / e.sum(-1, keepdim=True)]


# ---- the preset ----


def decided(fusebox, script, variant, sets):
    column = (variant + ":" if variant else "") + "tinygrad"
    common = [x for s in sets for x in ("--set", s)]

    def ask(*words):
        return json.loads(subprocess.run([fusebox, *words, *common], check=True, capture_output=True, text=True).stdout)

    record = ask("explain", script, column, "--steps", "--format", "json")["columns"][0]
    graph = ask("graph", script, *([variant] if variant else []), "--format", "json")
    nodes = graph["nodes"]
    inlined = {s["a"] for s in record["steps"] if s["outcome"] in ("taken", "unable")}

    def base(i):
        while nodes[i]["op"] in VIEWS:
            i = nodes[i]["args"][0]
        return i

    def computed(i):
        return nodes[i]["op"] not in NO_BUFFER | VIEWS | {"input", "param", "feed"}

    def inside(i, held, read):
        held.add(i)
        for a in map(base, nodes[i]["args"]):
            if computed(a) and nodes[a]["name"] in inlined:
                inside(a, held, read)
            elif nodes[a]["op"] not in NO_BUFFER:
                read.add(a)

    kernels = []
    for i, node in enumerate(nodes):
        if computed(i) and node["name"] not in inlined:
            held, read = set(), set()
            inside(i, held, read)
            kernels.append((sum(nodes[k]["op"] in REDUCTIONS for k in held), len(read)))
    return sorted(kernels)


CASES = [
    ("split_stack", "split_stack", ["batch_size=64", "input_dim=32"], lambda: puzzler(True)),
    ("split_stack", "combined", ["batch_size=64", "input_dim=32"], lambda: puzzler(False)),
    ("models/lora_mlp", "lora", [], lambda: lora(False)),
    ("models/lora_mlp", "merged", [], lambda: lora(True)),
    ("models/lstm_step", "gates", ["H=48", "I=48"], lambda: lstm("gates")),
    ("models/lstm_step", "addmm", ["H=48", "I=48"], lambda: lstm("addmm")),
    ("models/lstm_step", "stacked", ["H=48", "I=48"], lambda: lstm("stacked")),
    ("models/lstm_step", "cat", ["H=48", "I=48"], lambda: lstm("cat")),
    ("models/softmax", "", [], softmax),
    ("models/layer_norm", "", [], lambda: [layer_norm(stored(64, 64), 1e-5)]),
    ("models/add_mul_relu", "", [], lambda: [(stored(64, 64) + 0.5 * stored(64, 64) + stored(64)).relu()]),
]


def main():
    for number, (script, variant, sets, build) in enumerate(CASES, 1):
        theirs = scheduled(*build())
        try:
            ours = decided(sys.argv[1], script, variant, sets)
        except subprocess.CalledProcessError as error:
            ours = error.stderr.strip()
        same = ours == theirs
        print(f"{'ok' if same else 'not ok'} {number} - {script} {variant}: {len(theirs)} kernels".rstrip())
        if not same:
            print(f"# tinygrad {getattr(tinygrad, '__version__', '')} (reductions, buffers read): {theirs}")
            print(f"# the preset: {ours}")
    print(f"1..{len(CASES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
