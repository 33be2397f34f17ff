"""Graphs of the importer's layers made without PyTorch: each against the same written out place by place or, for a
transposed convolution, against the definition. Writes a graph whose outputs are the largest differences, all of them 0.

  import_layers.py SOURCE FILE.json
"""
import itertools
import math
import sys

sys.path.insert(0, sys.argv[1] + "/scripts/import")
import torch_graph  # noqa: E402
from torch_calls import CALLS, stuffed  # noqa: E402
import torch_layers  # noqa: E402, F401: fills the table

torch_graph.promoted = lambda *xs: "f32"  # as PyTorch says of all that is here


def drawn(g, name, shape):
    return g.add("input", [], shape, "f32", name, dist="normal", value=0.0, high=1.0)


def place_by_place(g, x, w, stride, padding, dilation, groups):
    """The sum over the kernel's places of w at that place times the elements there."""
    k, (out, inner) = len(w.shape) - 2, w.shape[:2]
    x = g.pad(x, [n for d in reversed(range(k)) for n in (padding[d], padding[d])])
    space = [(x.shape[2 + d] - dilation[d] * (w.shape[2 + d] - 1) - 1) // stride[d] + 1 for d in range(k)]
    parts = []
    for q in range(groups):
        total = None
        for place in itertools.product(*(range(n) for n in w.shape[2:])):
            at, here = g.slice(x, 1, q * inner, (q + 1) * inner), g.slice(w, 0, q * out // groups, (q + 1) * out // groups)
            for d, p in enumerate(place):
                first = p * dilation[d]
                at = g.slice(at, 2 + d, first, first + (space[d] - 1) * stride[d] + 1, stride[d])
                here = g.slice(here, 2 + d, p, p + 1)
            y = g.matmul(g.view(here, [out // groups, inner]), g.view(at, [x.shape[0], inner, math.prod(space)]))
            total = y if total is None else g.binary("add", total, y)
        parts.append(total)
    y = g.join("cat", parts, 1) if groups > 1 else parts[0]
    return g.view(y, [x.shape[0], out] + space)


def spread_out(g, x, w, stride, padding, more, dilation):
    """A transposed convolution by its definition: each element adds the kernel, times itself, to its window."""
    k, (inner, out) = len(w.shape) - 2, w.shape[:2]
    size = [(x.shape[2 + d] - 1) * stride[d] + dilation[d] * (w.shape[2 + d] - 1) + 1 for d in range(k)]
    total = None
    for place in itertools.product(*(range(n) for n in w.shape[2:])):
        here = w
        for d, p in enumerate(place):
            here = g.slice(here, 2 + d, p, p + 1)
        y = g.matmul(g.swap(g.view(here, [inner, out]), 0, 1), g.view(x, [x.shape[0], inner, math.prod(x.shape[2:])]))
        y = g.view(y, [x.shape[0], out] + x.shape[2:])
        amounts = []
        for d in range(k):
            y = stuffed(g, y, 2 + d, stride[d])
        for d in reversed(range(k)):
            first = place[d] * dilation[d]
            amounts += [first, size[d] - first - y.shape[2 + d]]
        y = g.pad(y, amounts)
        total = y if total is None else g.binary("add", total, y)
    return g.pad(total, [n for d in reversed(range(k)) for n in (-padding[d], more[d] - padding[d])])


def apart(g, a, b):
    assert a.shape == b.shape, (a.shape, b.shape)
    return g.reduce("amax", g.unary("abs", g.binary("sub", a, b)), list(range(len(a.shape))), False)


def pooled(g, x, kernel, stride, padding, op):
    """The largest of shifted parts, or their mean; zeros of the padding count."""
    k = len(kernel)
    x = g.pad(x, [n for d in reversed(range(k)) for n in (padding[d], padding[d])], -math.inf if op == "maximum" else 0)
    y = None
    for place in itertools.product(*(range(n) for n in kernel)):
        at = x
        for d, p in enumerate(place):
            n = (x.shape[2 + d] - kernel[d]) // stride[d]
            at = g.slice(at, 2 + d, p, p + n * stride[d] + 1, stride[d])
        y = at if y is None else g.binary(op, y, at)
    return y if op == "maximum" else g.binary("mul", y, 1 / math.prod(kernel))


def main():
    g, found = torch_graph.Graph("layers", None), []
    for k, stride, padding, dilation, groups in ((1, [2], [1], [2], 1), (2, [2, 1], [1, 0], [1, 2], 2), (3, [1, 2, 1], [0, 1, 1], [1, 1, 1], 1)):
        x, w = drawn(g, "x", [2, 4] + [9, 8, 5][:k]), drawn(g, "w", [6, 4 // groups] + [3, 2, 3][:k])
        y = CALLS[f"conv{k}d"](g, x, w, None, stride, padding, dilation, groups)
        found.append(apart(g, y, place_by_place(g, x, w, stride, padding, dilation, groups)))
        z, v, more = drawn(g, "z", [2, 6] + [4, 3, 3][:k]), drawn(g, "v", [6, 5] + [3, 2, 3][:k]), [n - 1 for n in stride]
        t = CALLS[f"conv_transpose{k}d"](g, z, v, None, stride, padding, more, 1, dilation)
        found.append(apart(g, t, spread_out(g, z, v, stride, padding, more, dilation)))
        kernel, padding = [3, 2, 2][:k], [1, 1, 0][:k]
        m = CALLS[f"max_pool{k}d"](g, x, kernel, stride, padding)
        found.append(apart(g, m, pooled(g, x, kernel, stride, padding, "maximum")))
        a = CALLS[f"avg_pool{k}d"](g, x, kernel, stride, padding)
        found.append(apart(g, a, pooled(g, x, kernel, stride, padding, "add")))
    for kernel, stride, padding, more, dilation in (
        ([4], [2], [1], [0], [1]),
        ([2], [3], [0], [2], [1]),
        ([3], [2], [2], [1], [2]),
        ([3], [6], [1], [4], [4]),
        ([3], [2], [0], [1], [3]),
        ([2, 2], [2, 2], [0, 0], [0, 0], [1, 1]),
        ([3, 2], [5, 3], [1, 1], [2, 0], [2, 2]),
        ([1, 3], [3, 4], [0, 3], [2, 0], [2, 6]),
        ([7, 3], [2, 4], [6, 0], [1, 3], [1, 1]),
        ([5, 1, 3], [3, 2, 1], [2, 0, 2], [0, 1, 0], [1, 1, 1]),
        ([2, 3, 2], [2, 2, 4], [1, 1, 0], [0, 1, 3], [2, 3, 3]),
    ):
        k, at = len(kernel), "_" + "_".join(str(n) for n in kernel + stride + dilation)
        z, v, b = drawn(g, "z" + at, [2, 3] + [5, 2, 3][:k]), drawn(g, "v" + at, [3, 4] + kernel), drawn(g, "b" + at, [4])
        t = CALLS[f"conv_transpose{k}d"](g, z, v, b, stride, padding, more, 1, dilation)
        by_hand = g.binary("add", spread_out(g, z, v, stride, padding, more, dilation), g.view(b, [4] + [1] * k))
        found.append(apart(g, t, by_hand))
    g.outputs.append({"name": "out", "node": g.join("stack", found, 0).id})
    with open(sys.argv[2], "w") as f:
        f.write(g.document())


main()
