"""What scripts/import/from_torch.py writes: nodes, scopes and loops of a graph in JSON, as engine/graph/graph_json.h describes it.

A Graph is built call by call. Each method gives a Value; operands are Values or numbers. What an op of fusebox does not take is
`Unsupported` here, with a sentence, so that it is told with the user's line and not when the graph is opened.
"""
import hashlib
import json
import math
import os
import re
import struct

DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "bool"}
NAMES = {ours: theirs for theirs, ours in DTYPES.items()}
NPY = {"f32": "<f4", "f16": "<f2", "f64": "<f8", "i32": "<i4", "i64": "<i8"}
FLOATS, INTEGERS = ("f16", "bf16", "f32", "f64"), ("i32", "i64")
NO_KERNEL = ("input", "param", "const", "iota", "view", "permute", "slice", "expand", "pad", "flip", "unfold")
MOST_DIMENSIONS, MOST_NODES = 8, 1 << 20
RESERVED = re.compile(r"[^A-Za-z0-9_]")

# made from engine/graph/ops.def by `make ops`: change that
OPS = {  # name: operands, PyTorch's call of the same arguments, how it is written, parameters
    "neg": ("number", "", "-{0}", {}),
    "abs": ("number", "", "torch.abs({0})", {}),
    "sign": ("number", "", "torch.sign({0})", {}),
    "exp": ("float", "exp", "torch.exp({0})", {}),
    "exp2": ("float", "exp2", "torch.exp2({0})", {}),
    "log": ("float", "log", "torch.log({0})", {}),
    "log2": ("float", "log2", "torch.log2({0})", {}),
    "log1p": ("float", "log1p", "torch.log1p({0})", {}),
    "sqrt": ("float", "sqrt", "torch.sqrt({0})", {}),
    "rsqrt": ("float", "rsqrt", "torch.rsqrt({0})", {}),
    "reciprocal": ("float", "reciprocal", "torch.reciprocal({0})", {}),
    "sin": ("float", "sin", "torch.sin({0})", {}),
    "cos": ("float", "cos", "torch.cos({0})", {}),
    "tanh": ("float", "tanh", "torch.tanh({0})", {}),
    "sigmoid": ("float", "sigmoid", "torch.sigmoid({0})", {}),
    "erf": ("float", "erf", "torch.erf({0})", {}),
    "erfinv": ("float", "erfinv", "torch.erfinv({0})", {}),
    "lgamma": ("float", "lgamma", "torch.lgamma({0})", {}),
    "digamma": ("float", "digamma", "torch.digamma({0})", {}),
    "gelu": ("float", "", "F.gelu({0})", {}),
    "relu": ("number", "", "F.relu({0})", {}),
    "softplus": ("float", "softplus", "F.softplus({0}, {value}, {high})", {"beta": 1, "threshold": 20}),
    "elu": ("float", "", "F.elu({0}, {value})", {"alpha": 1}),
    "mish": ("float", "mish", "F.mish({0})", {}),
    "floor": ("float", "", "torch.floor({0})", {}),
    "ceil": ("float", "", "torch.ceil({0})", {}),
    "round": ("float", "", "torch.round({0})", {}),
    "clamp": ("number", "", "torch.clamp({0}, {value}, {high})", {"low": -math.inf, "high": math.inf}),
    "cast": ("any", "", "", {}),
    "copy": ("any", "", "{0}", {}),
    "logical_not": ("bool", "", "~{0}", {}),
    "bitwise_not": ("integer", "", "~{0}", {}),
    "add": ("number", "", "{0} + {1}", {}),
    "sub": ("number", "", "{0} - {1}", {}),
    "mul": ("number", "", "{0} * {1}", {}),
    "div": ("float", "", "{0} / {1}", {}),
    "floor_divide": ("integer", "", "{0} // {1}", {}),
    "pow": ("float", "", "torch.pow({0}, {1})", {}),
    "minimum": ("number", "", "torch.minimum({0}, {1})", {}),
    "maximum": ("number", "", "torch.maximum({0}, {1})", {}),
    "remainder": ("number", "", "torch.remainder({0}, {1})", {}),
    "atan2": ("float", "", "torch.atan2({0}, {1})", {}),
    "copysign": ("float", "", "torch.copysign({0}, {1})", {}),
    "eq": ("any", "", "{0} == {1}", {}),
    "ne": ("any", "", "{0} != {1}", {}),
    "lt": ("any", "", "{0} < {1}", {}),
    "le": ("any", "", "{0} <= {1}", {}),
    "gt": ("any", "", "{0} > {1}", {}),
    "ge": ("any", "", "{0} >= {1}", {}),
    "logical_and": ("bool", "", "{0} & {1}", {}),
    "logical_or": ("bool", "", "{0} | {1}", {}),
    "bitwise_and": ("integer or bool", "", "{0} & {1}", {}),
    "bitwise_or": ("integer or bool", "", "{0} | {1}", {}),
    "bitwise_xor": ("integer or bool", "", "{0} ^ {1}", {}),
    "bitwise_left_shift": ("integer", "", "{0} << {1}", {}),
    "bitwise_right_shift": ("integer", "", "{0} >> {1}", {}),
    "where": ("any", "", "torch.where({0}, {1}, {2})", {}),
    "sum": ("number", "", "", {}),
    "mean": ("float", "", "", {}),
    "amax": ("number", "", "", {}),
    "amin": ("number", "", "", {}),
    "prod": ("number", "", "", {}),
    "argmax": ("number", "", "", {}),
    "argmin": ("number", "", "", {}),
}
# end of what is made from ops.def

# Operand dtypes; an op that is not here takes all.
KINDS = {"float": FLOATS, "integer": INTEGERS, "number": FLOATS + INTEGERS, "bool": ("bool",), "integer or bool": INTEGERS + ("bool",)}
TAKES = {name: KINDS[kind] for name, (kind, *_) in OPS.items() if kind in KINDS}
TAKES.update(matmul=FLOATS, cumsum=KINDS["number"], cumprod=KINDS["number"], rank=KINDS["number"], index_add=KINDS["number"])


class Unsupported(Exception):
    """What a call needs and fusebox does not have."""


def refuse(text):
    raise Unsupported(text)


class Value:
    """A node of the graph being written."""

    def __init__(self, id, shape, dtype):
        self.id, self.shape, self.dtype = id, list(shape), dtype


def dtype_of(theirs):
    """fusebox's name of a dtype of PyTorch."""
    name = str(theirs).replace("torch.", "")
    return DTYPES.get(name) or refuse(f"{name} is no dtype of fusebox")


def promoted(*xs):
    """The dtype in which PyTorch computes with these tensors and numbers."""
    import torch
    def like(x):
        return torch.empty([1] * min(len(x.shape), 1), dtype=getattr(torch, NAMES[x.dtype]), device="meta") if isinstance(x, Value) else x
    kinds = [like(x) for x in xs]
    if len(kinds) < 2:
        return dtype_of(torch.result_type(kinds[0], kinds[0]))
    tensors = [k for k in kinds if isinstance(k, torch.Tensor)]
    whole = tensors[0] if tensors else kinds[0]
    for k in kinds:
        dtype = torch.result_type(whole, k)
        both = any(isinstance(v, torch.Tensor) and v.dim() for v in (whole, k))
        whole = torch.empty([1] if both else [], dtype=dtype, device="meta")
    return dtype_of(whole.dtype)


def floating(dtype):
    """The dtype, or that of floats by default where it is an integer's or bool."""
    import torch
    return dtype if dtype in FLOATS else dtype_of(torch.get_default_dtype())


class Complex:
    """A tensor of complex numbers: its real and its imaginary part."""

    def __init__(self, re, im):
        self.re, self.im, self.shape, self.dtype = re, im, re.shape, re.dtype

    def __repr__(self):
        return "a complex tensor"


def values_in(x):
    """The Values in arguments or results, both of a complex one."""
    if isinstance(x, (list, tuple)):
        return [v for one in x for v in values_in(one)]
    return values_in([x.re, x.im]) if isinstance(x, Complex) else [x] if isinstance(x, Value) else []


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
        self.scope, self.names, self.kept, self.taken, self.modules = -1, set(), set(), [], {}  # taken: the names in order
        self.regions, self.region, self.unroll = [{"id": 0}], 0, 0
        self.infinite = {}  # sources that hold -inf → is there a row of nothing else
        self.files = {}  # name → tensor and dtype: weights that are written once the whole graph is there

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
        self.taken.append(out)
        return out

    def keep_names(self, names):
        """Names that inputs will have: a submodule of the same name gets another."""
        self.kept = {word(name) for name in names}
        self.names |= self.kept

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
            s["name"] = s["path"].rpartition(".")[2].partition("[")[0]
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
        """An op scope: what `make` builds, a value or several, is one call of the framework."""
        path = self.unique(self.path(self.scope) + kind)
        s = {"id": len(self.scopes), "kind": "op", "name": path.rsplit(".", 1)[-1], "path": path, "op": kind, "attrs": attrs,
             "args": [a.id for a in args if a is not None], "results": []}
        if self.scope >= 0:
            s["parent"] = self.scope
        self.scopes.append(s)
        before, self.scope, first = self.scope, s["id"], len(self.nodes)
        out = make()
        self.scope = before
        s["results"] = [v.id for v in values_in(out) if v.id >= first]
        return out

    def call(self, kind, args, make):
        """What a call of PyTorch makes: in an op scope of that kind where it is more than one node that is computed, so that it
        stays known as one call. For that it is made twice: a scope comes before what is in it."""
        nodes, scopes, regions, names = (len(v) for v in (self.nodes, self.scopes, self.regions, self.taken))
        out = make()
        own = [n for n in self.nodes[nodes:] if n.get("scope", -1) == self.scope and n["op"] not in NO_KERNEL]
        inner = [s for s in self.scopes[scopes:] if s.get("parent", -1) == self.scope]
        if len(own) + len(inner) < 2 or len(self.regions) > regions:
            return out
        self.names.difference_update(self.taken[names:])
        del self.nodes[nodes:], self.scopes[scopes:], self.taken[names:]
        return self.op(kind, args, {}, make)

    # -- nodes

    def add(self, op, args, shape, dtype, name=None, **attrs):
        for a in args[op == "where":]:
            if a.dtype not in TAKES.get(op, (a.dtype,)):
                raise Unsupported(f"{op} of {a.dtype}, which fusebox's {op} does not take")
        if len(shape) > MOST_DIMENSIONS:
            raise Unsupported(f"{len(shape)} dimensions are more than the {MOST_DIMENSIONS} there may be")
        if len(self.nodes) >= MOST_NODES:
            raise Unsupported(f"a graph has at most {MOST_NODES} nodes")
        path = word(name or op)
        if op == "input" and path in self.kept:
            self.kept.remove(path)
        else:
            path = self.unique(self.path(self.scope) + path)
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
        if dtype == "bool":
            value = bool(value)
        elif dtype in INTEGERS:
            if isinstance(value, float) and not math.isfinite(value) or float(int(value)) != int(value):
                raise Unsupported(f"the {dtype} {value}, which a number of JSON does not hold")
            value = int(value)
        return self.add("const", [], [], dtype, "c", value=number(value))

    def value(self, x, dtype):
        """A Value of this dtype, from a Value or a number."""
        return self.cast(x, dtype) if isinstance(x, Value) else self.const(x, dtype)

    def cast(self, x, dtype):
        if x.dtype == dtype:
            return x
        if dtype == "bool":
            return self.add("ne", [x, self.const(0, x.dtype)], x.shape, "bool")
        return self.add("cast", [x], x.shape, dtype)

    def unary(self, op, x, **attrs):
        return self.add(op, [x], x.shape, x.dtype, **attrs)

    def binary(self, op, a, b, result=None, at=None):
        """Of two operands of which one may be a number, computed in the dtype `at`: PyTorch's own unless it is said."""
        dtype = at or promoted(a, b)
        if dtype == "bool":  # PyTorch's arithmetic with truth values
            op = {"add": "logical_or", "mul": "logical_and", "maximum": "logical_or", "minimum": "logical_and"}.get(op, op)
        a, b = self.value(a, dtype), self.value(b, dtype)
        return self.add(op, [a, b], broadcast(a.shape, b.shape), result or dtype)

    def where(self, c, a, b, dtype=None):
        dtype = dtype or promoted(a, b)
        a, b = self.value(a, dtype), self.value(b, dtype)
        return self.add("where", [self.cast(c, "bool"), a, b], broadcast(c.shape, a.shape, b.shape), dtype)

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

    def unfold(self, x, dim, size, step):
        """The windows of `size` along dim, their elements as a last dimension."""
        dim = dim % len(x.shape)
        shape = x.shape[:dim] + [(x.shape[dim] - size) // step + 1] + x.shape[dim + 1:] + [size]
        return self.add("unfold", [x], shape, x.dtype, dim=dim, stop=size, step=step)

    def select(self, x, dim, index):
        dim = dim % len(x.shape)
        index = index + x.shape[dim] if index < 0 else index
        part = self.slice(x, dim, index, index + 1)
        return self.view(part, x.shape[:dim] + x.shape[dim + 1:])

    def axes(self, x, dims):
        """Dimensions as a call names them: one, several, or none for all."""
        dims = range(len(x.shape)) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        return sorted(d % max(len(x.shape), 1) for d in dims if x.shape)

    def reduced_shape(self, x, dims):
        return [n for d, n in enumerate(x.shape) if d not in self.axes(x, dims)]

    def reduce(self, op, x, dims, keep):
        axes = self.axes(x, dims)
        shape = [1 if d in axes else n for d, n in enumerate(x.shape)] if keep else self.reduced_shape(x, dims)
        if op in ("argmax", "argmin") and not x.shape:
            return self.const(0, "i64")
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
        dtype = promoted(*parts)
        some = [p for p in parts if op == "stack" or p.shape != [0]] or parts[:1]
        parts = [self.cast(p, dtype) for p in some]
        shape = list(parts[0].shape)
        dim = dim % (len(shape) + (op == "stack"))
        if op == "stack":
            shape.insert(dim, len(parts))
        else:
            shape[dim] = sum(p.shape[dim] for p in parts)
        return parts[0] if shape == parts[0].shape else self.add(op, parts, shape, dtype, dim=dim)

    def pad(self, x, amounts, value=0):
        """As PyTorch's pad: before and after the last dimension, the one before it, and so on. Less than nothing is cut off."""
        before, after = [0] * len(x.shape), [0] * len(x.shape)
        for i in range(0, len(amounts), 2):
            before[-1 - i // 2], after[-1 - i // 2] = amounts[i], amounts[i + 1]
        for d, n in enumerate(list(x.shape)):
            x = self.slice(x, d, max(-before[d], 0), n - max(-after[d], 0))
        before, after = [max(n, 0) for n in before], [max(n, 0) for n in after]
        shape = [b + n + a for b, n, a in zip(before, x.shape, after)]
        if shape == x.shape:
            return x
        value = bool(value) if x.dtype == "bool" else int(value or 0) if x.dtype in INTEGERS else value or 0
        return self.add("pad", [x], shape, x.dtype, before=before, after=after, value=number(value))

    def noted(self, tensor, value, own=True):
        """The source, and whether it hides rows as a mask; `own`: its values stay."""
        if tensor.is_floating_point() and bool((tensor == -math.inf).any()):
            self.infinite[value.id] = not own or not tensor.dim() or bool((tensor == -math.inf).all(-1).any())
        return value

    def tensor(self, name, tensor):
        """A parameter, from a file whose name is that of its content; or drawn as it is spread where there is no folder."""
        import torch
        tensor = tensor.detach().cpu()
        try:
            dtype = dtype_of(tensor.dtype)
        except Unsupported as why:
            raise Unsupported(f"the tensor {name}: {why}") from None
        if not tensor.numel():
            return self.expand(self.const(0, dtype), tensor.shape)
        if dtype == "bool":  # files hold numbers
            return self.cast(self.tensor(name, tensor.to(torch.int32)), "bool")
        if self.folder:
            data = {"dist": "file", "file": self.file(tensor, dtype)}
        elif dtype in INTEGERS:
            data = {"dist": "integer", "value": float(tensor.min()), "high": float(tensor.max()) + 1}
        else:
            wide = tensor.double().reshape(-1)
            wide = wide[wide.isfinite()]  # a mask may hold -inf
            wide = wide if len(wide) else tensor.double().reshape(-1)[:1]
            spread = float(wide.std(correction=0)) if len(wide) > 1 else 0.0
            data = {"dist": "normal", "value": float(wide.mean()), "high": spread} if spread else \
                {"dist": "constant", "value": number(wide.mean())}
        return self.noted(tensor, self.add("param", [], tensor.shape, dtype, name, **data))

    def file(self, tensor, dtype):
        """The name of a weight's file; it is written when the graph is done."""
        kind = "f32" if dtype == "bf16" else dtype
        stored = tensor.float() if dtype == "bf16" else tensor
        content = stored.contiguous().view(-1).numpy()
        key = hashlib.sha256(kind.encode() + repr(tuple(tensor.shape)).encode() + content.tobytes()).hexdigest()[:32]
        self.files[key + ".npy"] = (tensor, kind)
        return key

    def write_files(self):
        for name, (tensor, kind) in self.files.items():
            os.makedirs(self.folder, exist_ok=True)
            stored = tensor.float() if kind == "f32" else tensor
            shape = tuple(tensor.shape)
            head = f"{{'descr': '{NPY[kind]}', 'fortran_order': False, 'shape': {shape}, }}"
            head += " " * (-(10 + len(head) + 1) % 64) + "\n"
            with open(os.path.join(self.folder, name), "wb") as f:
                f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
                f.write(stored.contiguous().view(-1).numpy().tobytes())

    def document(self):
        head = f'{{"fusebox_graph":1,"title":{json.dumps(self.title)},\n"scopes":[\n'
        def lines(rows):
            return ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        return (head + lines(self.scopes) + '],\n"regions":[\n' + lines(self.regions) + '],\n"nodes":[\n' + lines(self.nodes) + '],\n"outputs":' +
                json.dumps(self.outputs, separators=(",", ":")) + "}\n")
