#!/usr/bin/env python3
"""A PyTorch module as a fusebox graph: traced with torch.export, written as JSON, its weights as .npy files beside it.

    python3 scripts/import/from_torch.py MODEL.py:make [-o NAME.json] [--weights drawn] [--unroll N]
    fusebox NAME.json

MODEL.py is a Python file; its function `make` gives a module and a tuple of example inputs: `return net, (x,)`. Weights go
to the folder NAME.weights; with `--weights drawn` there are no files, and each weight is drawn with its mean and spread.

A call of PyTorch that fusebox knows as one op (linear, layer_norm, softmax, silu, addmm, attention) keeps a scope of that
kind, so that the preset `eager` makes it one kernel. Submodules are regions: `encoder.layers[0].linear1`. LSTM and GRU
layers over more than `--unroll` steps (8) are loops, planned once for all steps; shorter ones are written out. Calls that
cannot be written in fusebox's ops are listed with the line of the module that made them, all at once, and nothing is
written. Shapes are those of the example inputs. Needs PyTorch; engine/graph/graph_json.h describes the document.
"""
import argparse
import hashlib
import importlib.util
import json
import math
import os
import re
import struct
import sys

DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "bool"}
NPY = {"f32": "<f4", "f16": "<f2", "f64": "<f8", "i32": "<i4", "i64": "<i8"}
RESERVED = re.compile(r"[^A-Za-z0-9_]")


class Unsupported(Exception):
    """What a call needs and fusebox does not have."""


class Value:
    """A node of the graph being written."""

    def __init__(self, id, shape, dtype):
        self.id, self.shape, self.dtype = id, list(shape), dtype


def word(text, otherwise="x"):
    """A name that fusebox takes: [A-Za-z_][A-Za-z0-9_]{0,63}."""
    text = RESERVED.sub("_", text) or otherwise
    return (text if not text[0].isdigit() else "_" + text)[:64]


def number(x):
    """As graph JSON has it: what JSON has no word for is a word."""
    x = float(x)
    return x if math.isfinite(x) else "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"


def broadcast(*shapes):
    rank, out = max(len(s) for s in shapes), []
    for d in range(rank):
        sizes = {s[d - rank + len(s)] for s in shapes if d - rank + len(s) >= 0} - {1}
        if len(sizes) > 1:
            raise Unsupported(f"shapes {shapes} do not broadcast")
        out.append(sizes.pop() if sizes else 1)
    return out


class Graph:
    """Nodes and scopes in the order in which they are made."""

    def __init__(self, title, folder):
        self.folder = folder  # of weights; None where they are drawn
        self.title, self.nodes, self.scopes, self.outputs = title, [], [], []
        self.scope, self.names, self.modules = -1, set(), {}
        self.regions, self.region, self.unroll = [{"id": 0}], 0, 0

    # -- scopes

    def path(self, scope):
        return self.scopes[scope]["path"] + "." if scope >= 0 else ""

    def unique(self, path):
        """The path, or path_2, path_3 … where it is taken; indices in brackets stay at the end."""
        base, bracket = (path[:path.rindex("[")], path[path.rindex("["):]) if path.endswith("]") else (path, "")
        n, out = 2, path
        while out in self.names:
            out, n = f"{base}_{n}{bracket}", n + 1
        self.names.add(out)
        return out

    def module(self, parent, name, index):
        key = (parent, name, index)
        if key not in self.modules:
            s = {"id": len(self.scopes), "kind": "region", "name": name}
            if parent >= 0:
                s["parent"] = parent
            if index is not None:
                s["index"] = index
            whole = self.path(parent) + name + (f"[{index}]" if index is not None else "")
            s["path"] = self.unique(whole)
            self.scopes.append(s)
            self.modules[key] = s["id"]
        return self.modules[key]

    def enter(self, modules):
        """The region of a path of submodules: layers.0.linear1 is layers[0], then linear1."""
        self.scope, parts, i = -1, [p for p in modules.split(".") if p], 0
        while i < len(parts):
            index = int(parts[i + 1]) if i + 1 < len(parts) and parts[i + 1].isdigit() else None
            self.scope = self.module(self.scope, word(parts[i]), index)
            i += 1 if index is None else 2

    def op(self, kind, args, attrs, make):
        """An op scope: what `make` builds is one call of the framework."""
        path = self.unique(self.path(self.scope) + kind)
        s = {"id": len(self.scopes), "kind": "op", "name": path.rsplit(".", 1)[-1], "path": path, "op": kind, "attrs": attrs,
             "args": [a.id for a in args if a is not None], "results": []}
        if self.scope >= 0:
            s["parent"] = self.scope
        self.scopes.append(s)
        before, self.scope = self.scope, s["id"]
        out = make()
        self.scope = before
        s["results"] = [out.id]
        return out

    # -- nodes

    def add(self, op, args, shape, dtype, name=None, **attrs):
        path = self.unique(self.path(self.scope) + word(name or op))
        node = {"id": len(self.nodes), "op": op, "args": [a.id for a in args], "name": path, "dtype": dtype, "shape": list(shape),
                "region": self.region}
        if self.scope >= 0:
            node["scope"] = self.scope
        node.update(attrs)
        self.nodes.append(node)
        return Value(node["id"], shape, dtype)

    def loop(self, x, states, body):
        """body(x[t], states) → states for all t: what the first state was at every step, and the states after the last."""
        outside, number, trips = self.region, len(self.regions), x.shape[0]
        region = {"id": number, "parent": outside, "trips": trips}
        self.regions.append(region)
        self.region = number
        carried = [self.add("carried", [], s.shape, s.dtype, index=k) for k, s in enumerate(states)]
        item = self.add("item", [], x.shape[1:], x.dtype, index=0)
        after = body(item, carried)
        self.region = outside
        region.update(carried=[v.id for v in carried], yields=[v.id for v in after], items=[item.id], stacked=[after[0].id])
        node = self.add("loop", states + [x], [], "i64", body=number, trips=trips)
        region["loop"] = node.id
        shapes = [s.shape for s in states] + [[trips] + states[0].shape]
        results = [self.add("result", [node], shape, s.dtype, index=k) for k, (shape, s) in enumerate(zip(shapes, states + states))]
        return results[-1], results[:-1]

    def const(self, value, dtype):
        return self.add("const", [], [], dtype, "c", value=number(value))

    def value(self, x, dtype):
        return x if isinstance(x, Value) else self.const(x, dtype)

    def cast(self, x, dtype):
        return x if x.dtype == dtype else self.add("cast", [x], x.shape, dtype)

    def unary(self, op, x, **attrs):
        return self.add(op, [x], x.shape, x.dtype, **attrs)

    def binary(self, op, a, b, result=None):
        rank = ["bool", "i32", "i64", "f16", "bf16", "f32", "f64"]
        if isinstance(a, Value) and isinstance(b, Value):
            dtype = max(a.dtype, b.dtype, key=rank.index)
        else:
            x, y = (a, b) if isinstance(a, Value) else (b, a)
            dtype = "f32" if isinstance(y, float) and x.dtype in ("bool", "i32", "i64") else x.dtype
        a, b = self.cast(self.value(a, dtype), dtype), self.cast(self.value(b, dtype), dtype)
        return self.add(op, [a, b], broadcast(a.shape, b.shape), result or dtype)

    def view(self, x, shape):
        shape = list(shape)
        if -1 in shape:
            known = math.prod(n for n in shape if n != -1)
            shape[shape.index(-1)] = math.prod(x.shape) // max(known, 1)
        return x if shape == x.shape else self.add("view", [x], shape, x.dtype)

    def permute(self, x, axes):
        axes = [a % len(x.shape) for a in axes]
        return x if axes == sorted(axes) else self.add("permute", [x], [x.shape[a] for a in axes], x.dtype, axes=axes)

    def swap(self, x, a, b):
        axes = list(range(len(x.shape)))
        axes[a], axes[b] = axes[b], axes[a]
        return self.permute(x, axes)

    def expand(self, x, shape):
        rank = len(shape)
        own = [1] * (rank - len(x.shape)) + x.shape
        shape = [own[d] if n == -1 else n for d, n in enumerate(shape)]
        return x if shape == x.shape else self.add("expand", [x], shape, x.dtype)

    def slice(self, x, dim, start, stop, step=1):
        dim, n = dim % len(x.shape), x.shape[dim % len(x.shape)]
        start = 0 if start is None else min(max(start + n if start < 0 else start, 0), n)
        stop = n if stop is None else min(max(stop + n if stop < 0 else stop, start), n)
        shape = list(x.shape)
        shape[dim] = -(-(stop - start) // step)
        if shape == x.shape:
            return x
        return self.add("slice", [x], shape, x.dtype, dim=dim, start=start, stop=stop, step=step)

    def select(self, x, dim, index):
        dim = dim % len(x.shape)
        index = index + x.shape[dim] if index < 0 else index
        part = self.slice(x, dim, index, index + 1)
        return self.view(part, x.shape[:dim] + x.shape[dim + 1:])

    def reduce(self, op, x, dims, keep):
        dims = range(len(x.shape)) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        axes = sorted(d % len(x.shape) for d in dims)
        shape = [1 if d in axes else n for d, n in enumerate(x.shape)] if keep else \
            [n for d, n in enumerate(x.shape) if d not in axes]
        dtype = "i64" if op in ("argmax", "argmin") else x.dtype
        return self.add(op, [x], shape, dtype, axes=axes, keepdim=bool(keep))

    def matmul(self, a, b):
        one_a, one_b = len(a.shape) == 1, len(b.shape) == 1
        a = self.view(a, [1] + a.shape) if one_a else a
        b = self.view(b, b.shape + [1]) if one_b else b
        shape = broadcast(a.shape[:-2], b.shape[:-2]) if len(a.shape) > 2 or len(b.shape) > 2 else []
        y = self.add("matmul", [a, b], shape + [a.shape[-2], b.shape[-1]], a.dtype, precision="ieee")
        if one_a or one_b:
            y = self.view(y, shape + ([] if one_a else [a.shape[-2]]) + ([] if one_b else [b.shape[-1]]))
        return y

    def join(self, op, parts, dim):
        rank = len(parts[0].shape) + (op == "stack")
        dim, shape = dim % rank, list(parts[0].shape)
        if op == "stack":
            shape.insert(dim, len(parts))
        else:
            parts = [p for p in parts if math.prod(p.shape)] or parts[:1]
            shape[dim] = sum(p.shape[dim] for p in parts)
        return self.add(op, parts, shape, parts[0].dtype, dim=dim)

    def pad(self, x, amounts, value=0.0):
        before, after = [0] * len(x.shape), [0] * len(x.shape)
        for i in range(0, len(amounts), 2):
            before[-1 - i // 2], after[-1 - i // 2] = amounts[i], amounts[i + 1]
        if min(before + after) < 0:
            raise Unsupported("padding of less than nothing")
        shape = [b + n + a for b, n, a in zip(before, x.shape, after)]
        return x if shape == x.shape else self.add("pad", [x], shape, x.dtype, before=before, after=after, value=number(value or 0))

    def document(self):
        head = f'{{"fusebox_graph":1,"title":{json.dumps(self.title)},\n"scopes":[\n'
        def lines(rows):
            return ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        return (head + lines(self.scopes) + '],\n"regions":[\n' + lines(self.regions) + '],\n"nodes":[\n' + lines(self.nodes) + '],\n"outputs":' +
                json.dumps(self.outputs, separators=(",", ":")) + "}\n")


# ---- calls of PyTorch: a row each, fn(graph, arguments…) → value ------------------------------------------------------

CALLS = {}


def call(*names):
    def keep(fn):
        for name in names:
            CALLS[name] = fn
        return fn
    return keep


for _name in ("neg", "abs", "sign", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "sigmoid",
              "erf", "relu", "floor", "ceil", "round", "logical_not"):
    CALLS[_name] = lambda g, x, _op=_name: g.unary(_op, x)
for _name, _op in {"mul": "mul", "div": "div", "pow": "pow", "minimum": "minimum", "maximum": "maximum",
                   "remainder": "remainder", "logical_and": "logical_and", "logical_or": "logical_or", "floor_divide": "floor_divide",
                   "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor"}.items():
    CALLS[_name] = lambda g, a, b, _op=_op: g.binary(_op, a, b)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    CALLS[_name] = lambda g, a, b, _op=_name: g.binary(_op, a, b, "bool")
for _name, _op in {"sum": "sum", "mean": "mean", "amax": "amax", "amin": "amin"}.items():
    CALLS[_name] = lambda g, x, dim=None, keepdim=False, dtype=None, _op=_op: g.reduce(_op, x, dim, keepdim)
CALLS["bitwise_not"] = lambda g, x: g.unary("logical_not" if x.dtype == "bool" else "bitwise_not", x)
for _name in ("contiguous", "clone", "detach", "alias", "lift_fresh_copy"):
    CALLS[_name] = lambda g, x, **_: x


@call("add", "sub")
def _add(g, a, b, alpha=1, op="add"):
    return g.binary(op, a, g.binary("mul", b, alpha) if alpha != 1 else b)


CALLS["sub"] = lambda g, a, b, alpha=1: _add(g, a, b, alpha, "sub")
CALLS["rsub"] = lambda g, a, b, alpha=1: _add(g, b, a, alpha, "sub")
CALLS["matmul"] = CALLS["mm"] = CALLS["bmm"] = lambda g, a, b: g.matmul(a, b)
CALLS["square"] = lambda g, x: g.binary("mul", x, x)
CALLS["argmax"] = lambda g, x, dim, keepdim=False: g.reduce("argmax", x, dim, keepdim)
CALLS["argmin"] = lambda g, x, dim, keepdim=False: g.reduce("argmin", x, dim, keepdim)
CALLS["cumsum"] = lambda g, x, dim, dtype=None: g.unary("cumsum", x, dim=dim % len(x.shape))
CALLS["view"] = CALLS["reshape"] = CALLS["_unsafe_view"] = lambda g, x, shape: g.view(x, shape)
CALLS["permute"] = lambda g, x, axes: g.permute(x, axes)
CALLS["transpose"] = lambda g, x, a, b: g.swap(x, a, b)
CALLS["t"] = CALLS["numpy_T"] = lambda g, x: g.permute(x, list(range(len(x.shape)))[::-1])
CALLS["expand"] = lambda g, x, shape, implicit=False: g.expand(x, shape)
CALLS["expand_as"] = lambda g, x, other: g.expand(x, other.shape)
CALLS["slice"] = lambda g, x, dim=0, start=None, end=None, step=1: g.slice(x, dim, start, end, step)
CALLS["narrow"] = lambda g, x, dim, start, length: g.slice(x, dim, start, start + length)
CALLS["select"] = lambda g, x, dim, index: g.select(x, dim, index)
CALLS["cat"] = CALLS["concat"] = lambda g, parts, dim=0: g.join("cat", parts, dim)
CALLS["stack"] = lambda g, parts, dim=0: g.join("stack", parts, dim)
CALLS["unbind"] = lambda g, x, dim=0: [g.select(x, dim, i) for i in range(x.shape[dim % len(x.shape)])]
CALLS["flip"] = lambda g, x, dims: g.unary("flip", x, axes=sorted(d % len(x.shape) for d in dims))
CALLS["dropout"] = lambda g, x, p, train: x if not train or p == 0 else refuse("dropout in training: call eval() first")
CALLS["pad"] = lambda g, x, amounts, mode="constant", value=None: g.pad(x, amounts, value) if mode == "constant" else refuse(
    f"padding of mode {mode}")
CALLS["constant_pad_nd"] = lambda g, x, amounts, value=0.0: g.pad(x, amounts, value)
CALLS.update({f"__{_name}__": CALLS[f"bitwise_{_name}"] for _name in ("and", "or", "xor")})
CALLS["fill"] = lambda g, x, value: g.expand(g.cast(g.value(value, x.dtype), x.dtype), x.shape)
CALLS["copy"] = lambda g, x, other, *_: g.expand(g.cast(other, x.dtype), x.shape)
CALLS["where"] = lambda g, c, a, b: select_where(g, c, a, b)
CALLS["tril"] = lambda g, x, diagonal=0: triangle(g, x, "le", diagonal)
CALLS["triu"] = lambda g, x, diagonal=0: triangle(g, x, "ge", diagonal)
CALLS["masked_fill"] = lambda g, x, mask, value: select_where(g, mask, value, x)
CALLS["embedding"] = lambda g, table, index, *_, **__: g.add("embedding", [table, index], index.shape + table.shape[1:], table.dtype)


def refuse(text):
    raise Unsupported(text)


def select_where(g, c, a, b):
    dtype = next((v.dtype for v in (a, b) if isinstance(v, Value)), "f32")
    a, b = g.value(a, dtype), g.value(b, dtype)
    return g.add("where", [c, a, b], broadcast(c.shape, a.shape, b.shape), dtype)


@call("slice_scatter")
def _slice_scatter(g, x, part, dim=0, start=None, end=None, step=1):
    """x with a part replaced, joined of what lies before, the part, and what lies behind."""
    n = x.shape[dim]
    start, end = (0 if start is None else start) % (n + 1), n if end is None else min(end + n if end < 0 else end, n)
    if step != 1:
        raise Unsupported("every so many elements of a tensor changed in place")
    return g.join("cat", [g.slice(x, dim, 0, start), part, g.slice(x, dim, end, n)], dim)


@call("select_scatter")
def _select_scatter(g, x, part, dim, index):
    dim, index = dim % len(x.shape), index % x.shape[dim]
    part = g.view(part, x.shape[:dim] + [1] + x.shape[dim + 1:])
    return _slice_scatter(g, x, part, dim, index, index + 1)


def triangle(g, x, op, diagonal):
    """x where column - row is at most, or at least, `diagonal`; zeros elsewhere."""
    rows, columns = x.shape[-2:]
    off = g.binary("sub", _arange(g, columns), g.view(_arange(g, rows), [rows, 1]))
    keep = g.binary(op, off, diagonal, "bool")
    return g.binary("logical_and", x, keep) if x.dtype == "bool" else select_where(g, keep, x, 0)


@call("clamp", "clamp_min", "hardtanh")
def _clamp(g, x, low=None, high=None):
    return g.unary("clamp", x, value=number(-math.inf if low is None else low), high=number(math.inf if high is None else high))


@call("flatten")
def _flatten(g, x, start=0, end=-1):
    start, end = start % len(x.shape), end % len(x.shape)
    return g.view(x, x.shape[:start] + [math.prod(x.shape[start:end + 1])] + x.shape[end + 1:])


@call("unflatten")
def _unflatten(g, x, dim, sizes):
    dim = dim % len(x.shape)
    known = math.prod(n for n in sizes if n != -1)
    sizes = [x.shape[dim] // known if n == -1 else n for n in sizes]
    return g.view(x, x.shape[:dim] + sizes + x.shape[dim + 1:])


@call("squeeze")
def _squeeze(g, x, dims=None):
    dims = range(len(x.shape)) if dims is None else [dims] if isinstance(dims, int) else dims
    dims = {d % len(x.shape) for d in dims}
    return g.view(x, [n for d, n in enumerate(x.shape) if d not in dims or n != 1])


@call("unsqueeze")
def _unsqueeze(g, x, dim):
    dim = dim % (len(x.shape) + 1)
    return g.view(x, x.shape[:dim] + [1] + x.shape[dim:])


@call("split", "split_with_sizes")
def _split(g, x, size, dim=0):
    n = x.shape[dim % len(x.shape)]
    sizes = size if isinstance(size, list) else [min(size, n - at) for at in range(0, n, size)]
    ends = [sum(sizes[:i + 1]) for i in range(len(sizes))]
    return [g.slice(x, dim, end - s, end) for s, end in zip(sizes, ends)]


@call("chunk")
def _chunk(g, x, chunks, dim=0):
    return _split(g, x, -(-x.shape[dim % len(x.shape)] // chunks), dim)


@call("to", "_to_copy", "type_as")
def _to(g, x, *args, **kwargs):
    for a in list(args) + [kwargs.get("dtype")]:
        name = str(a).replace("torch.", "")
        if isinstance(a, Value):
            return g.cast(x, a.dtype)
        if name in DTYPES:
            return g.cast(x, DTYPES[name])
    return x


@call("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones")
def _filled(g, like, value=None, dtype=None, _name="zeros", **_):
    shape = like.shape if isinstance(like, Value) else like
    kind = DTYPES.get(str(dtype).replace("torch.", ""), like.dtype if isinstance(like, Value) else "f32")
    return g.expand(g.const({"z": 0, "o": 1}.get(_name[0], value), kind), shape)


for _name in ("zeros", "ones", "full", "zeros_like", "ones_like", "full_like"):
    CALLS[_name] = lambda g, *a, _n=_name, **k: _filled(g, *a, _name=_n, **{x: v for x, v in k.items() if x == "dtype"})
for _name in ("new_zeros", "new_ones"):
    CALLS[_name] = lambda g, x, shape, _n=_name, **_: g.expand(g.const(_n == "new_ones", x.dtype), shape)


@call("arange")
def _arange(g, *args, dtype=None, **_):
    start, end, step = (list(args) + [1])[:3] if len(args) > 1 else (0, args[0], 1)
    x = g.add("iota", [], [max(0, math.ceil((end - start) / step))], DTYPES.get(str(dtype).replace("torch.", ""), "i64"), dim=0)
    x = g.binary("mul", x, step) if step != 1 else x
    return g.binary("add", x, start) if start else x


# ---- gathers and sums of products


@call("index")
def _index(g, x, indices):
    """x[:, i, j] with tensors for dimensions that lie side by side: one gather of rows by i * n + j."""
    dims = [d for d, i in enumerate(indices) if i is not None]
    constant = not any(isinstance(i, Value) for i in indices)
    if any("bool" in str(indices[d].dtype) for d in dims) or dims != list(range(dims[0], dims[0] + len(dims))):
        raise Unsupported("an index that is a mask, or by tensors that do not lie side by side")
    flat = None
    for d in dims:
        i, n = indices[d], x.shape[d]
        if constant:
            flat = i % n if flat is None else flat * n + i % n
            continue
        i = select_where(g, g.binary("lt", i, 0, "bool"), g.binary("add", i, n), i)  # from the end
        flat = i if flat is None else g.binary("add", g.binary("mul", flat, n), i)
    flat = add_tensor(g, "index", flat) if constant else flat
    before, after = list(range(dims[0])), list(range(dims[-1] + 1, len(x.shape)))
    rest = [x.shape[d] for d in before + after]
    table = g.view(g.permute(x, dims + before + after), [math.prod(x.shape[d] for d in dims)] + rest)
    y = g.add("embedding", [table, flat], flat.shape + rest, x.dtype)
    k = len(flat.shape)
    return g.permute(y, [k + d for d in before] + list(range(k)) + [k + d for d in range(len(before), len(rest))])


@call("embedding_bag")
def _embedding_bag(g, table, index, offsets, scale_by_freq=False, mode=0, sparse=False, weights=None, last=False, padding=None):
    """Bags of one size: as nn.EmbeddingBag has them for an index of two dimensions. (No other offsets are constants.)"""
    sizes = {b - a for a, b in zip(offsets, offsets[1:] + [index.shape[0]])} if isinstance(offsets, list) else set()
    if len(sizes) != 1 or last or padding not in (None, -1):
        raise Unsupported("bags of unlike sizes")
    bags = [len(offsets), sizes.pop()]
    rows = g.add("embedding", [table, g.view(index, bags)], bags + table.shape[1:], table.dtype)
    if weights is not None:
        rows = g.binary("mul", rows, g.view(weights, bags + [1]))
    return [g.reduce(("sum", "mean", "amax")[mode], rows, 1, False), None, None, None]


@call("einsum")
def _einsum(g, equation, parts, *_, **__):
    """One or two operands, each letter once in each of them, as a product of matrices."""
    left, _, out = equation.replace(" ", "").partition("->")
    names = left.split(",")
    if len(parts) > 2 or "." in equation or "->" not in equation or any(len(set(n)) != len(n) for n in names + [out]):
        raise Unsupported(f"einsum {equation}")
    size = {c: n for letters, x in zip(names, parts) for c, n in zip(letters, x.shape)}
    def laid(k, letters):  # summed over what nobody else has, then in this order
        x, own = parts[k], names[k]
        gone = [d for d, c in enumerate(own) if c not in letters]
        x = g.reduce("sum", x, gone, False) if gone else x
        own = "".join(c for c in own if c in letters)
        return g.permute(x, [own.index(c) for c in letters if c in own])
    if len(parts) == 1:
        return laid(0, out)
    a, b = names
    both = [c for c in a if c in b and c in out]
    summed = [c for c in a if c in b and c not in out]
    only_a, only_b = [c for c in a if c in out and c not in b], [c for c in b if c in out and c not in a]
    def sizes(*groups):
        return [size[c] for letters in groups for c in letters]
    n, rows, inner, columns = (math.prod(sizes(letters)) for letters in (both, only_a, summed, only_b))
    lead = [n] if both else []
    y = g.matmul(g.view(laid(0, both + only_a + summed), lead + [rows, inner]),
                 g.view(laid(1, both + summed + only_b), lead + [inner, columns]))
    order = both + only_a + only_b
    return g.permute(g.view(y, sizes(order)), [order.index(c) for c in out])


# ---- calls that fusebox knows as one op


@call("linear")
def _linear(g, x, w, b=None):
    def make():
        y = g.matmul(x, g.swap(w, 0, 1))
        return g.binary("add", y, b) if b is not None else y
    return g.op("linear", [x, w, b], {}, make)


@call("addmm")
def _addmm(g, b, x, w, beta=1, alpha=1):
    if beta != 1 or alpha != 1:
        return g.binary("add", g.binary("mul", b, beta), g.binary("mul", g.matmul(x, w), alpha))
    return g.op("addmm", [b, x, w], {}, lambda: g.binary("add", g.matmul(x, w), b))


@call("layer_norm")
def _layer_norm(g, x, size, w=None, b=None, eps=1e-5, *_):
    def make():
        axes = list(range(len(x.shape) - len(size), len(x.shape)))
        centred = g.binary("sub", x, g.reduce("mean", x, axes, True))
        variance = g.reduce("mean", g.binary("mul", centred, centred), axes, True)
        y = g.binary("mul", centred, g.unary("rsqrt", g.binary("add", variance, eps) if eps else variance))
        y = g.binary("mul", y, w) if w is not None else y
        return g.binary("add", y, b) if b is not None else y
    return g.op("layer_norm", [x, w, b], {"normalized_shape": list(size), "eps": eps}, make)


@call("batch_norm")
def _batch_norm(g, x, w, b, mean, var, *rest):
    training, eps = (rest[0], rest[2]) if isinstance(rest[0], bool) and len(rest) > 2 else (False, rest[1])
    if training:
        raise Unsupported("batch_norm in training: call eval() first")
    def along(v):
        return g.view(v, [v.shape[0]] + [1] * (len(x.shape) - 2))
    scale = g.unary("rsqrt", g.binary("add", var, eps))
    y = g.binary("mul", g.binary("sub", x, along(mean)), along(g.binary("mul", scale, w) if w is not None else scale))
    return g.binary("add", y, along(b)) if b is not None else y


CALLS["_native_batch_norm_legit_no_training"] = lambda g, *a: [_batch_norm(g, *a), None, None]


@call("softmax", "_softmax", "log_softmax", "_log_softmax")
def _softmax(g, x, dim, *_, log=False):
    def make():
        shifted = g.binary("sub", x, g.reduce("amax", x, dim, True))
        e = g.unary("exp", shifted)
        total = g.reduce("sum", e, dim, True)
        return g.binary("sub", shifted, g.unary("log", total)) if log else g.binary("div", e, total)
    return make() if log else g.op("softmax", [x], {"dim": dim}, make)


CALLS["log_softmax"] = CALLS["_log_softmax"] = lambda g, x, dim, *_: _softmax(g, x, dim, log=True)
CALLS["silu"] = lambda g, x: g.op("silu", [x], {}, lambda: g.binary("mul", x, g.unary("sigmoid", x)))
CALLS["leaky_relu"] = lambda g, x, slope=0.01: select_where(g, g.binary("gt", x, 0, "bool"), x, g.binary("mul", x, slope))


CALLS["relu6"] = lambda g, x: _clamp(g, x, 0, 6)
CALLS["hardsigmoid"] = lambda g, x: g.binary("mul", _clamp(g, g.binary("add", x, 3), 0, 6), 1 / 6)
CALLS["hardswish"] = lambda g, x: g.binary("mul", x, CALLS["hardsigmoid"](g, x))


@call("gelu")
def _gelu(g, x, approximate="none"):
    if approximate == "none":
        return g.unary("gelu", x)
    cube = g.binary("mul", g.binary("mul", g.binary("mul", x, x), x), 0.044715)
    inner = g.binary("mul", g.binary("add", x, cube), math.sqrt(2 / math.pi))
    return g.binary("mul", g.binary("mul", x, 0.5), g.binary("add", g.unary("tanh", inner), 1))


@call("rms_norm")
def _rms_norm(g, x, size, w=None, eps=None):
    square = g.reduce("mean", g.binary("mul", x, x), list(range(len(x.shape) - len(size), len(x.shape))), True)
    y = g.binary("mul", x, g.unary("rsqrt", g.binary("add", square, 2.0**-23 if eps is None else eps)))
    return g.binary("mul", y, w) if w is not None else y


@call("var", "std")
def _spread(g, x, dim=None, correction=1, keepdim=False, root=False):
    dims = list(range(len(x.shape))) if dim is None else [dim] if isinstance(dim, int) else dim
    centred = g.binary("sub", x, g.reduce("mean", x, dims, True))
    total = g.reduce("sum", g.binary("mul", centred, centred), dims, keepdim)
    y = g.binary("mul", total, 1 / (math.prod(x.shape[d] for d in dims) - int(correction)))
    return g.unary("sqrt", y) if root else y


CALLS["std"] = lambda g, x, *a, **k: _spread(g, x, *a, root=True, **k)


@call("scaled_dot_product_attention")
def _attention(g, q, k, v, mask=None, dropout_p=0.0, is_causal=False, scale=None, **_):
    if dropout_p:
        raise Unsupported("attention with dropout: call eval() first")
    scale = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    if is_causal:
        rows = g.view(_arange(g, q.shape[-2]), [q.shape[-2], 1])
        mask = g.binary("ge", rows, _arange(g, k.shape[-2]), "bool")
    def make():
        scores = g.binary("mul", g.matmul(q, g.swap(k, len(k.shape) - 1, len(k.shape) - 2)), scale)
        if mask is not None:
            scores = select_where(g, mask, scores, -1e30) if mask.dtype == "bool" else g.binary("add", scores, mask)
        e = g.unary("exp", g.binary("sub", scores, g.reduce("amax", scores, -1, True)))
        return g.matmul(g.binary("div", e, g.reduce("sum", e, -1, True)), v)
    return g.op("scaled_dot_product_attention", [q, k, v, mask], {"scale": scale}, make)


def unfold(g, x, kernel, stride, padding, dilation, fill=0.0):
    """The windows of x [N, C, H, W], in a list over the kernel's places: each [N, C, h, w]."""
    x = g.pad(x, [padding[1], padding[1], padding[0], padding[0]], fill)
    h = (x.shape[2] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    w = (x.shape[3] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    return [g.slice(g.slice(x, 2, i * dilation[0], i * dilation[0] + (h - 1) * stride[0] + 1, stride[0]), 3, j * dilation[1],
                    j * dilation[1] + (w - 1) * stride[1] + 1, stride[1]) for i in range(kernel[0]) for j in range(kernel[1])]


@call("conv1d", "conv2d", "convolution")
def _conv(g, x, w, b=None, stride=(1,), padding=(0,), dilation=(1,), *rest):
    groups = rest[-1] if rest else 1
    if len(rest) == 3 and rest[0]:
        raise Unsupported("a transposed convolution")
    if groups != 1 or isinstance(padding, str) or len(x.shape) != len(w.shape):
        raise Unsupported("a convolution with groups, with padding in words or without a batch")
    flat = len(w.shape) == 3
    if len(w.shape) not in (3, 4):
        raise Unsupported("a convolution over three dimensions")
    def both(v, one):
        v = [v] if isinstance(v, int) else list(v)
        return [one, v[0]] if flat else v * 2 if len(v) == 1 else v
    x = g.view(x, x.shape[:2] + [1] + x.shape[2:]) if flat else x
    w = g.view(w, w.shape[:2] + [1] + w.shape[2:]) if flat else w
    out, channels, kh, kw = w.shape
    windows = unfold(g, x, (kh, kw), both(stride, 1), both(padding, 0), both(dilation, 1))
    n, _, h, wide = windows[0].shape
    columns = g.view(g.join("stack", windows, 2), [n, channels * kh * kw, h * wide])
    y = g.matmul(g.view(w, [out, channels * kh * kw]), columns)
    y = g.binary("add", y, g.view(b, [out, 1])) if b is not None else y
    return g.view(y, [n, out, wide] if flat else [n, out, h, wide])


@call("max_pool2d")
def _max_pool(g, x, kernel, stride=None, padding=(0, 0), dilation=(1, 1), ceil_mode=False):
    if ceil_mode:
        raise Unsupported("pooling that rounds up")
    two = lambda v: list(v) * (2 // len(v)) if isinstance(v, (list, tuple)) else [v, v]
    windows = unfold(g, x, two(kernel), two(stride or kernel), two(padding), two(dilation), -3e38)
    return g.reduce("amax", g.join("stack", windows, 0), 0, False)


@call("avg_pool2d")
def _avg_pool(g, x, kernel, stride=None, padding=(0, 0), *_):
    two = lambda v: list(v) * (2 // len(v)) if isinstance(v, (list, tuple)) else [v, v]
    windows = unfold(g, x, two(kernel), two(stride or kernel), two(padding), [1, 1])
    return g.reduce("mean", g.join("stack", windows, 0), 0, False)


@call("adaptive_avg_pool2d")
def _adaptive(g, x, size):
    if list(size if isinstance(size, (list, tuple)) else [size, size]) != [1, 1]:
        raise Unsupported("adaptive pooling to more than one element")
    return g.reduce("mean", x, [2, 3], True)


def over_time(g, x, states, reverse, step):
    """step(x[t], states) → states for x [T, …]: all steps' first state, and the last states. A loop where there are more
    steps than `--unroll` says, else written out."""
    if x.shape[0] > g.unroll:
        x = g.unary("flip", x, axes=[0]) if reverse else x
        y, states = g.loop(x, states, step)
        return g.unary("flip", y, axes=[0]) if reverse else y, states
    steps, y = [g.select(x, 0, t) for t in range(x.shape[0])], [None] * x.shape[0]
    for t in (reversed(range(len(steps))) if reverse else range(len(steps))):
        states = step(steps[t], states)
        y[t] = states[0]
    return g.join("stack", y, 0), states


def lstm_layer(g, x, h, c, w, reverse):
    """x [T, N, I] → [T, N, H] and the last h and c; x is multiplied for all steps at once."""
    w_ih, w_hh, b_ih, b_hh = (list(w) + [None, None])[:4]

    def step(xw, states):
        h, c = states
        i, f, z, o = _chunk(g, g.binary("add", xw, _linear(g, h, w_hh, b_hh)), 4, 1)
        c = g.binary("add", g.binary("mul", g.unary("sigmoid", f), c),
                     g.binary("mul", g.unary("sigmoid", i), g.unary("tanh", z)))
        return [g.binary("mul", g.unary("sigmoid", o), g.unary("tanh", c)), c]
    y, (h, c) = over_time(g, _linear(g, x, w_ih, b_ih), [h, c], reverse, step)
    return y, h, c


def gru_layer(g, x, h, w, reverse):
    """x [T, N, I] → [T, N, H] and the last h."""
    w_ih, w_hh, b_ih, b_hh = (list(w) + [None, None])[:4]

    def step(xw, states):
        h, = states
        xr, xz, xn = _chunk(g, xw, 3, 1)
        hr, hz, hn = _chunk(g, _linear(g, h, w_hh, b_hh), 3, 1)
        r, z = g.unary("sigmoid", g.binary("add", xr, hr)), g.unary("sigmoid", g.binary("add", xz, hz))
        n = g.unary("tanh", g.binary("add", xn, g.binary("mul", r, hn)))
        return [g.binary("add", n, g.binary("mul", z, g.binary("sub", h, n)))]
    y, (h,) = over_time(g, _linear(g, x, w_ih, b_ih), [h], reverse, step)
    return y, h


def stacked(g, x, params, has_biases, layers, bidirectional, batch_first, layer_of):
    """Layers of a recurrent network over each other: layer_of(x, number, weights, reverse) → y. The last y."""
    each, directions = (4 if has_biases else 2), 2 if bidirectional else 1
    x = g.swap(x, 0, 1) if batch_first else x
    for layer in range(layers):
        numbers = [layer * directions + d for d in range(directions)]
        out = [layer_of(x, k, params[each * k:each * (k + 1)], d == 1) for d, k in enumerate(numbers)]
        x = g.join("cat", out, 2) if bidirectional else out[0]
    return g.swap(x, 0, 1) if batch_first else x


@call("gru")
def _gru(g, x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    if train and dropout:
        raise Unsupported("a GRU with dropout in training: call eval() first")
    hs = []
    def layer_of(x, k, w, reverse):
        y, h = gru_layer(g, x, g.select(hx, 0, k), w, reverse)
        hs.append(h)
        return y
    y = stacked(g, x, params, has_biases, layers, bidirectional, batch_first, layer_of)
    return [y, g.join("stack", hs, 0)]


@call("lstm")
def _lstm(g, x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    if train and dropout:
        raise Unsupported("an LSTM with dropout in training: call eval() first")
    hs, cs = [], []
    def layer_of(x, k, w, reverse):
        y, h, c = lstm_layer(g, x, g.select(hx[0], 0, k), g.select(hx[1], 0, k), w, reverse)
        hs.append(h), cs.append(c)
        return y
    y = stacked(g, x, params, has_biases, layers, bidirectional, batch_first, layer_of)
    return [y, g.join("stack", hs, 0), g.join("stack", cs, 0)]


# ---- from an exported program -----------------------------------------------------------------------------------------


def place_of(node):
    """The user's line that made a call, as the trace tells it."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    own = [f for f in frames if "/torch/" not in f[0]] or frames
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}" if own else node.name


def module_of(node):
    """The path of submodules in which a call was made: "encoder.layers.0"."""
    stack = node.meta.get("nn_module_stack") or {}
    last = list(stack.values())[-1][0] if stack else ""
    return re.sub(r"@\d+", "", re.sub(r"^L\['self'\]\.?", "", last)).replace("['", ".").replace("']", "").strip(".")


def plain(x, constants):
    """Tensors of nodes that are constants, in lists as they stand; a list of numbers for a single one."""
    if isinstance(x, (list, tuple)):
        same = all(v is None or v in constants for v in x)
        return [constants[v] if v is not None else None for v in x] if same else x
    return constants[x].tolist() if x in constants else x


def operands(x, known):
    """Arguments with nodes replaced by what they gave."""
    if isinstance(x, (list, tuple)):
        return [operands(v, known) for v in x]
    return known[x] if type(x).__name__ == "Node" else x


def write_npy(path, tensor, dtype):
    shape = tuple(tensor.shape)
    head = f"{{'descr': '{NPY[dtype]}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(tensor.contiguous().view(-1).numpy().tobytes()))


def add_weight(g, name, tensor):
    """A parameter where its module is: "encoder.linear1.weight"."""
    modules, own = name.rsplit(".", 1) if "." in name else ("", name)
    g.enter(modules)
    return add_tensor(g, own, tensor)


def add_tensor(g, name, tensor):
    """A parameter, from a file whose name is that of its content; or drawn as it is spread where there is no folder."""
    import torch
    dtype, folder = DTYPES.get(str(tensor.dtype).replace("torch.", "")), g.folder
    tensor = tensor.detach().cpu()
    if not tensor.numel() or not dtype:
        raise Unsupported(f"the weight {name}: {tensor.dtype}{list(tensor.shape)}")
    if dtype == "bool":  # files hold numbers
        return g.binary("ne", add_tensor(g, name, tensor.to(torch.int32)), 0, "bool")
    if folder:
        stored = tensor.float() if dtype == "bf16" else tensor
        kind = "f32" if dtype == "bf16" else dtype
        key = hashlib.sha256(kind.encode() + repr(tuple(tensor.shape)).encode() +
                             stored.contiguous().view(-1).numpy().tobytes()).hexdigest()[:32]
        os.makedirs(folder, exist_ok=True)
        write_npy(os.path.join(folder, key + ".npy"), stored, kind)
        data = {"dist": "file", "file": key}
    elif dtype in ("i32", "i64"):
        data = {"dist": "integer", "value": float(tensor.min()), "high": float(tensor.max()) + 1}
    else:
        wide = tensor.double()
        spread = float(wide.std(correction=0)) if tensor.numel() > 1 else 0.0
        data = {"dist": "normal", "value": float(wide.mean()), "high": spread} if spread else \
            {"dist": "constant", "value": float(wide.mean())}
    return g.add("param", [], tensor.shape, dtype, name, **data)


def add_input(g, name, tensor):
    dtype = DTYPES[str(tensor.dtype).replace("torch.", "")]
    g.scope = -1
    if dtype in ("i32", "i64"):
        return g.add("input", [], tensor.shape, dtype, name, dist="integer", value=float(tensor.min()), high=float(tensor.max()) + 1)
    return g.add("input", [], tensor.shape, dtype, name, dist="normal", value=0.0, high=1.0)


class Known(dict):
    """Node → what it gave. What is folded is written when it is first read: a table of indices, say, as a weight."""

    MOST = 1 << 22  # elements

    def __init__(self, g):
        super().__init__()
        self.g, self.constants, self.folded = g, {}, set()

    def __missing__(self, node):
        if node not in self.folded:
            raise KeyError(node)
        self[node] = add_tensor(self.g, node.name, self.constants[node])
        return self[node]

    def fold(self, node):
        """A call whose operands are all constants is worked out here; true if fusebox has no op that would do it."""
        import torch
        if node.op != "call_function" or any(n not in self.constants for n in node.all_input_nodes):
            return False
        value, tags = node.meta.get("val"), getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags or isinstance(value, torch.Tensor) and value.numel() > self.MOST:
            return False
        values = [torch.fx.node.map_arg(a, self.constants.__getitem__) for a in (node.args, node.kwargs)]
        self.constants[node] = node.target(*values[0], **values[1])
        if called(node) in CALLS and not self.folded.intersection(node.all_input_nodes):
            return False
        self.folded.add(node)
        return True


def called(node):
    """The name of a call, as CALLS has it."""
    name = str(node.target)
    return name.split(".")[1] if name.startswith("aten.") else getattr(node.target, "__name__", name)


def exported(net, inputs):
    """The program of a module, and the example of each of its inputs by name."""
    import torch
    with torch.no_grad():
        program = torch.export.export(net.eval(), inputs)
        if any(called(n)[-1:] == "_" for n in program.graph.nodes if n.op == "call_function"):
            program = program.run_decompositions({})  # the same calls, without changes in place
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    return program, dict(zip(names, torch.utils._pytree.tree_leaves(inputs)))


def convert(program, examples, title, folder, unroll, report):
    g, failed = Graph(title, folder), []
    g.unroll = unroll
    known = Known(g)
    signature = program.graph_signature
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    tensors = {**dict(program.named_parameters()), **dict(program.named_buffers()), **program.constants}
    for node in program.graph.nodes:
        try:
            if node.op == "placeholder" and not node.users or known.fold(node):
                continue
            if node.op == "placeholder":
                known[node] = add_weight(g, weights[node.name], tensors[weights[node.name]]) if node.name in weights else \
                    add_input(g, node.name, examples[node.name])
            elif node.op == "call_function":
                known[node] = convert_call(g, node, known)
            elif node.op == "output":
                changed = [s.target for s in signature.output_specs if s.kind.name.endswith("MUTATION")]
                if changed:
                    raise Unsupported(f"the module changes {', '.join(changed)}, which a later call would see")
                for i, v in enumerate(v for v in operands(list(node.args[0]), known) if v is not None):
                    g.outputs.append({"name": "out" if i == 0 else f"out{i + 1}", "node": v.id})
        except Unsupported as why:
            failed.append(f"{place_of(node) if node.op != 'output' else title}: {why}")
        except KeyError:
            pass  # built on what was refused already
    for line in sorted(set(failed)):
        report(line)
    return None if failed else g


# Calls of which some operands are taken as they are where they are constants.
AS_IT_IS = {"index": (1,), "embedding_bag": (2,)}


def convert_call(g, node, known):
    name = called(node)
    args = [a for a in node.args]
    for k in AS_IT_IS.get(name, ()):
        args[k] = plain(args[k], known.constants)
    args = operands(args, known)
    if name == "getitem":
        return args[0][args[1]]
    ignored = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "copy")
    kwargs = {k: operands(v, known) for k, v in node.kwargs.items() if k not in ignored}
    g.enter(module_of(node))
    inplace = name.endswith("_") and not name.startswith("_")
    fn = CALLS.get(name[:-1] if inplace else name)
    if name in ("sym_size", "_assert_tensor_metadata", "_assert_scalar"):
        return None
    if inplace or not fn:
        raise Unsupported(f"aten.{name} {'changes its operand, which' if inplace else ''} is not known to fusebox".replace("  ", " "))
    try:
        return fn(g, *args, **kwargs)
    except TypeError as why:
        raise Unsupported(f"aten.{name} with arguments that are not known to fusebox ({why})") from why


def load(what):
    from torch import nn
    path, _, function = what.partition(":")
    if not os.path.isfile(path):
        sys.exit(f"from_torch: {path}: there is no such file")
    spec = importlib.util.spec_from_file_location("model", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    make = getattr(module, function or "make", None)
    if not callable(make):
        sys.exit(f"from_torch: {path}: it has no function {function or 'make'}")
    made = make()
    net, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if inputs is None or not isinstance(net, nn.Module):
        sys.exit(f"from_torch: {what}: it must give a module and a tuple of example inputs")
    return net, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def main():
    parser = argparse.ArgumentParser(description="A PyTorch module as a fusebox graph in JSON.")
    parser.add_argument("model", metavar="MODEL.py:make")
    parser.add_argument("-o", "--out", metavar="NAME.json")
    parser.add_argument("--weights", choices=["files", "drawn"], default="files")
    parser.add_argument("--unroll", type=int, default=8, metavar="N", help="recurrent layers of at most so many steps are written out")
    o = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("from_torch: PyTorch is not installed for this Python")
    net, inputs = load(o.model)
    out = o.out or os.path.splitext(os.path.basename(o.model.partition(":")[0]))[0] + ".json"
    folder = re.sub(r"\.json$", "", out) + ".weights" if o.weights == "files" else None
    try:
        program, examples = exported(net, inputs)
    except Exception as why:  # whatever torch.export or the module itself raises: its first line says what
        line = next((text for text in str(why).splitlines() if text.strip()), "")
        sys.exit(f"from_torch: {o.model}: torch.export does not trace it: {type(why).__name__}: {line.strip()}")
    g = convert(program, examples, type(net).__name__, folder, o.unroll, lambda line: print(f"from_torch: {line}", file=sys.stderr))
    if not g:
        sys.exit(1)
    with open(out, "w") as f:
        f.write(g.document())
    print(f"{out}: {len(g.nodes)} nodes, {len(g.scopes)} scopes" + (f", weights in {folder}" if folder else ""))


if __name__ == "__main__":
    main()
