#!/usr/bin/env python3
"""PyTorch as a device of fusebox: the worker protocol on stdin and stdout, the graph rebuilt as a PyTorch function.

    fusebox run SCRIPT split_stack:eager@torch split_stack:max --worker 'python3 scripts/workers/torch_worker.py'

It is the device `torch`, on the first GPU if there is one, else on the CPU. Its plans are names, nothing to edit:

    eager           each op scope as PyTorch's own layer, everything else op by op
    eager+graph     the same, replayed as one CUDA graph
    compile         torch.compile
    compile+graph   torch.compile, replayed as one CUDA graph
    max-autotune    torch.compile(mode="max-autotune-no-cudagraphs")

Needs PyTorch and nothing else; without it the device is listed with what is missing.

Adding any other framework is writing a file like this one. engine/worker/protocol.h lists the messages,
engine/graph/graph_json.h says what the lines of a graph hold, and README.md beside this file walks through a worker in
the order in which it is best written. What may be taken over as it stands: the inputs (they are the same numbers for
everyone), the device's lock, the statistics, and everything under "the protocol".
"""
import collections
import contextlib
import fcntl
import itertools
import json
import math
import os
import re
import signal
import socket
import struct
import sys
import threading
import time

PROTOCOL, VERSION = 1, "0.1.0"


class Refused(Exception):
    """A sentence for the user; `kind` is one of engine/base/error.h."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Cancelled(BaseException):
    """Raised in the middle of whatever runs; no Exception, so that no library takes it for a failure of its own."""


# ---- inputs: the counter-based generator of engine/base/rng.h, in 64-bit integers that wrap --------------------------

MASK = (1 << 64) - 1
CHUNK = 1 << 24  # elements at once: a few hundred megabytes of intermediates


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def rng_key(seed, name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return splitmix64((seed & MASK) ^ h)


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def shift(x, n):
    """A logical shift to the right."""
    return (x >> n) & ((1 << (64 - n)) - 1)


def rng_bits(key, start, n):
    """splitmix64(key + i * 0x9e37…) for i = start … start + n - 1."""
    x = torch.arange(start, start + n, dtype=torch.int64, device=DEVICE)
    x = x * signed(0x9E3779B97F4A7C15) + signed((key + 0x9E3779B97F4A7C15) & MASK)
    x = (x ^ shift(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shift(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shift(x, 31)


def drawn(node, dist, bits):
    """Doubles, or int64 for integers, from bits."""
    low, high = number(node, "value"), number(node, "high")
    if dist == "uniform":
        return low + (high - low) * (shift(bits, 40).double() * 2.0**-24)
    if dist == "normal":
        fields = (bits & 0xFFFF) + (shift(bits, 16) & 0xFFFF) + (shift(bits, 32) & 0xFFFF) + shift(bits, 48) - 131070
        return low + high * (fields.double() * (1.7320508075688772 / 65536.0))
    span = max(int(high) - int(low), 1)
    return int(low) + shift(bits, 11) % span


def rounded(x, dtype):
    """Doubles to a dtype, rounded once. The 16-bit types are reached through float, which would round twice: so float
    is rounded to odd, and has bits enough that the second rounding decides as if it were the first."""
    if dtype not in (torch.float16, torch.bfloat16) or x.dtype != torch.float64:
        return (x != 0) if dtype == torch.bool else x.to(dtype)
    near = x.float()
    back = near.double()
    toward_zero = torch.where(back.abs() > x.abs(), torch.nextafter(near, torch.zeros_like(near)), near)
    odd = (toward_zero.view(torch.int32) | 1).view(torch.float32)
    return torch.where(back == x, near, odd).to(dtype)


def iota(node):
    shape, dim = node["shape"], node.get("dim", 0)
    if not shape:
        return torch.zeros((), dtype=torch.int64, device=DEVICE)
    along = [n if d == dim else 1 for d, n in enumerate(shape)]
    return torch.arange(shape[dim], device=DEVICE).reshape(along).expand(shape).contiguous()


ALIKE = {-2: 0.0, -1: 1.0}  # engine/interp/input.h: seeds of zeros and of ones, as JSON has them


def source(node, seed, files):
    """What a source node holds under a seed: bit for bit what fb_source_fill gives every other device."""
    shape, dtype, dist = node["shape"], DTYPES[node["dtype"]], node.get("dist", "uniform")
    if node["op"] == "iota":
        return rounded(iota(node).double() if dtype.is_floating_point else iota(node), dtype)
    if seed in ALIKE and node["op"] in ("input", "param", "feed") and dtype.is_floating_point:
        return torch.full(shape, ALIKE[seed], dtype=dtype, device=DEVICE)
    if node["op"] == "const" or dist == "constant":
        value = torch.tensor(number(node, "value"), dtype=torch.float64, device=DEVICE)
        return rounded(value, dtype).expand(shape).contiguous()
    if dist == "file":
        if node.get("file") not in files:
            raise Refused("input", f"{node['name']}: its file {node.get('file')} is not there")
        return rounded(files[node["file"]].to(DEVICE), dtype).reshape(shape)
    key = splitmix64(node.get("seed", 0) & MASK) if node["op"] == "random" else rng_key(seed, node["name"])
    out = torch.empty(math.prod(shape), dtype=dtype, device=DEVICE)
    for start in range(0, out.numel(), CHUNK):
        n = min(CHUNK, out.numel() - start)
        values = drawn(node, dist, rng_bits(key, start, n))
        out[start:start + n] = rounded(values.double() if dtype.is_floating_point else values, dtype)
    return out.reshape(shape)


# ---- one node in PyTorch ----------------------------------------------------------------------------------------------

SOURCES = {"input", "param", "feed", "const", "iota", "random"}
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
CALL = {name: call for name, (_, _, call, _) in OPS.items() if call}
CALL.update(receive="{0}", matmul="torch.matmul({0}, {1})")


def is_infix(op):
    """Is it written between its operands, as people write a number there?"""
    return CALL.get(op, "").startswith("{0} ")


def number(node, key):
    """An attribute as a double; JSON has no infinities, so they come as words."""
    return float(node.get(key, 0))


def written(node, key):
    value = number(node, key)
    if node["dtype"] in ("i32", "i64") and math.isfinite(value):
        return repr(int(value))
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def listed(values):
    return "[" + ", ".join(str(v) for v in values) + "]"


def reduction(node, x):
    axes, keep = node.get("axes", []), bool(node.get("keepdim"))
    if node["op"] in ("argmax", "argmin"):
        return f"torch.{node['op']}({x}, {axes[0]}, keepdim={keep})"
    if not axes:
        return x
    same = f", dtype=dtype_{node['dtype']}"  # PyTorch sums small integers in 64 bits
    if node["op"] != "prod":
        return f"torch.{node['op']}({x}, {listed(axes)}, keepdim={keep}{same if node['op'] == 'sum' else ''})"
    for axis in sorted(axes, reverse=True):
        x = f"torch.prod({x}, {axis}, keepdim={keep}{same})"
    return x


def gather(node, args, shapes):
    if node["op"] == "embedding":
        return f"F.embedding({args[1]}, {args[0]})" if len(shapes[0]) == 2 else f"{args[0]}[{args[1]}]"
    rest = node["shape"][1:]
    return (f"torch.zeros({listed(node['shape'])}, dtype={args[0]}.dtype, device={args[0]}.device)"
            f".index_add(0, {args[1]}.reshape(-1), {args[0]}.reshape({listed([-1] + rest)}))")


def rearrangement(node, x, shapes):
    op = node["op"]
    if op == "view":
        return f"{x}.reshape({listed(node['shape'])})"
    if op == "permute":
        return f"{x}.permute({listed(node['axes'])})"
    if op == "slice":
        step = node.get("step", 1)
        by = f":{step}" if step != 1 else ""
        return f"{x}[{':, ' * node['dim']}{node['start']}:{node['stop']}{by}]"
    if op == "expand":
        return f"{x}.expand({listed(node['shape'])})"
    if op == "flip":
        return f"torch.flip({x}, {listed(node['axes'])})"
    if op == "unfold":
        return f"{x}.unfold({node['dim']}, {node['stop']}, {node.get('step', 1)})"
    if op == "pad":
        pairs = [p for d in reversed(range(len(shapes[0]))) for p in (node["before"][d], node["after"][d])]
        return f"F.pad({x}, {listed(pairs)}, value={written(node, 'value')})"
    return None


def expression(node, args, shapes):
    """One node in PyTorch, operands already written; `shapes` are the operands' shapes."""
    op, x = node["op"], args[0]
    if op in CALL:
        params = {key: written(node, key) for key in ("value", "high") if "{" + key + "}" in CALL[op]}
        return CALL[op].format(*args, **params)
    if op == "cast":
        return f"{x}.to(dtype_{node['dtype']})"
    if op in ("sum", "mean", "amax", "amin", "prod", "argmax", "argmin"):
        return reduction(node, x)
    if op == "cumsum":
        return f"torch.cumsum({x}, {node['dim']}, dtype=dtype_{node['dtype']})"
    if op in ("cat", "stack"):
        return f"torch.{op}([{', '.join(args)}], {node['dim']})"
    if op in ("embedding", "index_add"):
        return gather(node, args, shapes)
    text = rearrangement(node, x, shapes)
    if text is None:
        raise Refused("input", f"{node['name']}: {op} is not known to the PyTorch worker")
    return text


def over_pictures(op, a, args):
    """Convolutions and pools; padding that differs before and behind has no call of PyTorch's."""
    if op.startswith("conv_transpose"):
        return (f"F.{op}({', '.join(args)}, stride={listed(a['stride'])}, padding={listed(a['padding'])}, "
                f"output_padding={listed(a['output_padding'])}, groups={a['groups']}, dilation={listed(a['dilation'])})")
    if op.startswith("conv") and a["before"] == a["after"]:
        return (f"F.{op}({', '.join(args)}, stride={listed(a['stride'])}, padding={listed(a['before'])}, "
                f"dilation={listed(a['dilation'])}, groups={a['groups']})")
    if op.startswith("avg_pool"):
        return f"F.{op}({args[0]}, {listed(a['kernel'])}, {listed(a['stride'])}, {listed(a['padding'])})"
    if op.startswith("max_pool"):
        return f"F.{op}({args[0]}, {listed(a['kernel'])}, {listed(a['stride'])}, {listed(a['padding'])}, {listed(a['dilation'])})"
    return None


def scope_call(scope, args):
    """PyTorch's own call for an op scope, or None where the decomposition runs instead."""
    a, op = scope.get("attrs") or {}, scope["op"]
    if op == "layer_norm" and "normalized_shape" in a:
        weights = "".join(f", {name}={arg}" for name, arg in zip(("weight", "bias"), args[1:]))
        return f"F.layer_norm({args[0]}, {listed(a['normalized_shape'])}{weights}, eps={a.get('eps', 1e-5)!r})"
    if op == "linear":
        return f"F.linear({', '.join(args)})"
    if op == "addmm":
        return f"torch.addmm({', '.join(args)})"
    if op == "softmax":
        return f"F.softmax({args[0]}, {a.get('dim', -1)})"
    if op == "silu":
        return f"F.silu({args[0]})"
    if op == "log_softmax":
        return f"F.log_softmax({args[0]}, {a.get('dim', -1)})"
    if op == "rms_norm" and "normalized_shape" in a:
        weight = f", weight={args[1]}" if len(args) > 1 else ""
        return f"F.rms_norm({args[0]}, {listed(a['normalized_shape'])}{weight}, eps={a.get('eps', 1e-6)!r})"
    if op == "batch_norm" and len(args) >= 3:
        weights = "".join(f", {name}={arg}" for name, arg in zip(("weight", "bias"), args[3:]))
        return f"F.batch_norm({args[0]}, {args[1]}, {args[2]}{weights}, eps={a.get('eps', 1e-5)!r})"
    if op == "group_norm" and "groups" in a:
        weights = "".join(f", {name}={arg}" for name, arg in zip(("weight", "bias"), args[1:]))
        return f"F.group_norm({args[0]}, {a['groups']}{weights}, eps={a.get('eps', 1e-5)!r})"
    if op.startswith(("conv", "max_pool", "avg_pool")):
        return over_pictures(op, a, args)
    if op == "scaled_dot_product_attention":
        mask = f", attn_mask={args[3]}" if len(args) > 3 else ""
        return f"F.scaled_dot_product_attention({', '.join(args[:3])}{mask}, scale={a.get('scale')!r})"
    if op == "lstm_cell":
        return f"torch.lstm_cell({args[0]}, [{args[1]}, {args[2]}], {', '.join(args[3:])})"
    if op == "gru_cell":
        return f"torch.gru_cell({', '.join(args)})"
    return None


# ---- the graph as Python source ---------------------------------------------------------------------------------------

VIEWS = {"view", "permute", "slice", "expand"}


class Call:
    """An op scope that PyTorch runs itself."""

    def __init__(self, text, args, results, inside):
        self.text, self.args, self.results, self.inside = text, args, results, inside


class Source:
    """A graph written out as one Python function of its sources. With `scopes`, op scopes become PyTorch's own calls."""

    def __init__(self, graph, scopes):
        self.graph, self.nodes, self.regions = graph, graph["nodes"], graph["regions"]
        self.readers = collections.defaultdict(list)
        self.by_region = collections.defaultdict(list)
        for node in self.nodes:
            self.by_region[node.get("region", 0)].append(node)
            for a in node.get("args", ()):
                self.readers[a].append(node["id"])
        self.outputs = {o["node"] for o in graph["outputs"]}
        self.results = checked(graph)
        self.calls = self.find_calls() if scopes else {}  # result → Call
        self.needed = self.demand()
        self.inputs = []
        self.lines = []

    # -- which scopes are calls

    def members(self):
        scopes, out = self.graph["scopes"], collections.defaultdict(set)
        for node in self.nodes:
            s = node.get("scope", -1)
            while s >= 0:
                out[s].add(node["id"])
                s = scopes[s].get("parent", -1)
        return out

    def call_of(self, scope, inside):
        """None where PyTorch has no such call, or where it would not show what others read from inside."""
        args, results = scope.get("args") or [], scope.get("results") or []
        if not scope.get("op") or not results or min(args + results) < 0 or not inside.issuperset(results):
            return None
        if len({self.nodes[i].get("region", 0) for i in inside}) != 1:
            return None
        leaks = [i for i in inside - set(results) if self.nodes[i]["op"] not in VIEWS
                 and (i in self.outputs or any(r not in inside for r in self.readers[i]))]
        early = [r for i in results for r in self.readers[i] if r not in inside and r < max(results)]
        if leaks or early:
            return None
        text = scope_call(scope, [f"v{a}" for a in args])
        return Call(text, args, results, inside) if text else None

    def find_calls(self):
        members, covered, calls = self.members(), set(), {}
        for i, scope in enumerate(self.graph["scopes"]):  # parents come first, so the outermost wins
            if members[i] & covered:
                continue
            call = self.call_of(scope, members[i])
            if call:
                covered |= call.inside
                calls.update({r: call for r in call.results})
        return calls

    # -- what is computed at all

    def demand(self):
        needed, todo = set(), list(self.results)
        while todo:
            i = todo.pop()
            if i in needed:
                continue
            needed.add(i)
            node = self.nodes[i]
            todo += self.calls[i].args + self.calls[i].results if i in self.calls else node.get("args", [])
            region = self.regions[node.get("region", 0)]
            if region.get("loop", -1) >= 0:
                todo.append(region["loop"])
            if node["op"] == "loop":
                body = self.regions[node["body"]]
                todo += [k for k in body.get("yields", []) + body.get("stacked", []) if k >= 0]
                todo += [n["id"] for n in self.by_region[node["body"]] if n["op"] in ("assign", "receive")]
        return needed

    # -- names

    def literal(self, i):
        """A scalar that Python may write as a number, as a user of PyTorch would."""
        node = self.nodes[i]
        if node["op"] == "step":
            return f"t{self.regions[node['region']]['loop']}"
        if node["op"] != "const" or node["shape"] or node["dtype"] == "bool" or not math.isfinite(number(node, "value")):
            return None
        return repr(source(node, 0, {}).item())

    def operands(self, node):
        args = node.get("args", [])
        texts = [f"v{a}" for a in args]
        free = {"pow": (1,), "where": (1, 2)}.get(node["op"], (0, 1) if is_infix(node["op"]) else ())
        literals = {k: self.literal(args[k]) for k in free}
        if free and all(literals.values()) and len(free) == 2:
            del literals[0 if 0 in literals else 1]  # one of the two says what dtype the result has
        for k, text in literals.items():
            if text:
                texts[k] = f"({text})" if text.startswith("-") else text
        return texts

    # -- statements

    def node(self, node, indent):
        i, op = node["id"], node["op"]
        if i in self.calls:
            call = self.calls[i]
            if i == max(call.results):
                self.lines.append(f"{indent}{', '.join(f'v{r}' for r in call.results)} = {call.text}")
        elif op == "loop":
            self.loop(node, indent)
        elif op == "step":
            self.lines.append(f"{indent}v{i} = torch.tensor({self.literal(i)}, device=device)")
        elif op == "result":
            self.lines.append(f"{indent}v{i} = v{node['args'][0]}[{node.get('index', 0)}]")
        elif op == "assign":
            self.lines.append(f"{indent}v{i} = v{node['args'][1]}")
        elif op not in SOURCES and op not in ("carried", "item"):
            shapes = [self.nodes[a]["shape"] for a in node.get("args", ())]
            self.lines.append(f"{indent}v{i} = {expression(node, self.operands(node), shapes)}")

    def region(self, number, indent):
        for node in self.by_region[number]:
            if node["id"] in self.needed:
                self.node(node, indent)

    def assigned(self, body):
        """(parameter, assign) of a body and the loops inside it."""
        out = []
        for node in self.by_region[body]:
            if node["op"] == "assign":
                out.append((node["args"][0], node["id"]))
            elif node["op"] == "loop":
                out += self.assigned(node["body"])
        return out

    def loop(self, node, indent):
        """A loop node is a list: what is carried out of it, then what it stacked. Parameters that it assigns change from
        step to step for the body, and the outside goes on reading them as they were."""
        i, inner, body = node["id"], indent + "    ", self.regions[node["body"]]
        carried, stacked, args = body.get("carried", []), body.get("stacked", []), node.get("args", [])
        assigned = self.assigned(node["body"])
        put = self.lines.append
        put(f"{indent}c{i} = [{', '.join(f'v{a}' for a in args[:len(carried)])}]")
        put(f"{indent}s{i} = [{', '.join('[]' for _ in stacked)}]")
        for p, a in assigned:
            put(f"{indent}p{i}_{p} = v{a} = v{p}")
        put(f"{indent}for t{i} in range({body['trips']}):")
        for k, c in enumerate(carried):
            if c >= 0:
                put(f"{inner}v{c} = c{i}[{k}]")
        turned = body.get("backwards", False)
        place = f"{body['trips']} - 1 - t{i}" if turned else f"t{i}"
        for k, c in enumerate(body.get("items", [])):
            if c >= 0:
                put(f"{inner}v{c} = v{args[len(carried) + k]}[{place}]")
        self.region(node["body"], inner)
        every = body.get("every", [1] * len(stacked))
        for k, s in enumerate(stacked):
            last = f"if t{i} % {every[k]} == {every[k] - 1}: " if every[k] > 1 else ""
            put(f"{inner}{last}s{i}[{k}].append(v{s})")
        put(f"{inner}c{i} = [{', '.join(f'v{y}' for y in body.get('yields', []))}]")
        for p, a in assigned:
            put(f"{inner}v{p} = v{a}")
        for p in {p for p, _ in assigned}:
            put(f"{indent}v{p} = p{i}_{p}")
        put(f"{indent}v{i} = c{i} + [torch.stack({'s[::-1]' if turned else 's'}) for s in s{i}]")

    # -- the function

    def drop_dead(self):
        """A value goes when it was read for the last time, as it does where people reuse a name; else nothing would be
        freed before the end. Values of loops go by themselves."""
        last, made = {}, set()
        for at, line in enumerate(self.lines):
            for name in re.findall(r"\bv\d+\b", line):
                last[name] = at
            if re.match(r"    v", line):
                made |= set(re.findall(r"\bv\d+\b", line.split(" = ")[0]))
        made -= {f"v{r}" for r in self.results} | {f"v{i}" for i in self.inputs}
        gone = collections.defaultdict(list)
        for name in made:
            at = last[name]
            while at + 1 < len(self.lines) and self.lines[at].startswith("     "):
                at += 1  # inside a loop: after it
            gone[at].append(name)
        out = []
        for at, line in enumerate(self.lines):
            out.append(line)
            if at in gone:
                out.append(f"    del {', '.join(sorted(gone[at]))}")
        return out

    def text(self):
        self.region(0, "    ")
        body = "\n".join(self.lines)
        read = set(re.findall(r"\bv\d+\b", body)) | {f"v{r}" for r in self.results}
        self.inputs = [n["id"] for n in self.nodes if n["op"] in SOURCES and f"v{n['id']}" in read]
        head = f"def model({', '.join(f'v{i}' for i in self.inputs)}):"
        return "\n".join([head] + self.drop_dead() + [f"    return [{', '.join(f'v{r}' for r in self.results)}]"]) + "\n"


def checked(graph):
    """The nodes whose values leave the graph, as fb_reference_nodes has them."""
    outputs = {o["node"] for o in graph["outputs"]}
    return [n["id"] for n in graph["nodes"]
            if n["op"] == "assign" or (n.get("region", 0) == 0 and n["op"] != "feed"
                                       and (n["id"] in outputs or n["op"] == "receive"))]


NUMBERS = itertools.count(1)


def function(graph, scopes, wide=False):
    """The function and the source nodes that it takes. `wide`: everything that is a float is a double."""
    out = Source(graph, scopes)
    text = out.text()
    names = {"torch": torch, "F": torch.nn.functional, "device": DEVICE}
    for name, dtype in DTYPES.items():
        names[f"dtype_{name}"] = torch.float64 if wide and dtype.is_floating_point else dtype
    # A file's name of its own for each: what the compiler counts and keeps by place in a source is no other graph's.
    file = f"<fusebox graph {next(NUMBERS)}>"
    exec(compile(text, file, "exec"), names)
    names["model"].written = (file, text, out.calls)
    return names["model"], [graph["nodes"][i] for i in out.inputs]


# ---- the device's lock ------------------------------------------------------------------------------------------------


class Lock:
    """engine/worker/lock.c: one file a device and machine; its first eight bytes count tickets; ticket n is a lock on byte
    1024 + n. The device belongs to the lowest ticket alive, and a process that ends drops its own."""

    IDLE_S, HOLD_S, FIRST = 0.05, 2.0, 1024

    def __init__(self, device):
        cache = os.environ.get("XDG_CACHE_HOME", "")
        if not cache.startswith("/"):
            cache = os.path.join(os.path.expanduser("~"), ".cache")
        self.path = os.path.join(cache, "fusebox", "locks", f"{socket.gethostname()}.{device}")
        self.fd, self.ticket, self.since = -1, 0, 0.0

    def _lock(self, command, start, length):
        answer = fcntl.fcntl(self.fd, command, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, length, 0))
        kind, _, at, _, _ = struct.unpack("hhqqi4x", answer)
        return None if kind == fcntl.F_UNLCK else at

    def _enter(self):
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        self.ticket = int.from_bytes(os.pread(self.fd, 8, 0) or bytes(8), "little")
        self._lock(fcntl.F_OFD_SETLK, self.FIRST + self.ticket, 1)
        os.pwrite(self.fd, (self.ticket + 1).to_bytes(8, "little"), 0)
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def ahead(self, start=0, end=None):
        """Tickets alive before ours. The system tells of one that is in the way, not of which."""
        end = self.ticket if end is None else end
        found = self._lock(fcntl.F_OFD_GETLK, self.FIRST + start, end - start) if start < end else None
        if found is None:
            return 0
        found -= self.FIRST
        return 1 + self.ahead(start, found) + self.ahead(found + 1, end)

    def take(self, waiting):
        """Calls waiting(n) while n others are ahead; returns the µs that it took. A lock that cannot be had at all stops
        nobody from measuring."""
        start = time.perf_counter()
        if self.fd >= 0:
            wanted = self._lock(fcntl.F_OFD_GETLK, self.FIRST + self.ticket + 1, 0) is not None
            if start - self.since <= self.HOLD_S or not wanted:
                return 0.0
            self.leave()
        try:
            self._enter()
            while n := self.ahead():
                waiting(n)
                time.sleep(0.005)
        except OSError:
            self.leave()
        self.since = time.perf_counter()
        return (self.since - start) * 1e6

    def leave(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


# ---- measuring --------------------------------------------------------------------------------------------------------


def stat(samples):
    """As engine/measure/stat.c: linear between the order statistics."""
    s = sorted(samples)

    def quantile(q):
        at = q * (len(s) - 1)
        low = int(at)
        return s[low] + (at - low) * (s[low + 1] - s[low]) if low + 1 < len(s) else s[-1]
    return {"median": quantile(0.5), "p10": quantile(0.1), "p90": quantile(0.9), "n": len(s)}


def wait():
    if CUDA:
        torch.cuda.synchronize()


def outside(shape, dtype):
    """Memory that is fed from and received into: pinned beside a GPU, so that copies need not be waited for."""
    return torch.empty(shape, dtype=dtype, pin_memory=CUDA)


def graphed(run):
    """`run` as one CUDA graph, recorded after a few runs on a stream of its own, as PyTorch asks for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return lambda: (graph.replay(), result)[1]


def overloads(name):
    packet = getattr(torch.ops.aten, name.split("::")[1], None)
    found = [getattr(packet, o) for o in packet.overloads()] if packet else []
    return [o for o in found if torch._C._dispatch_has_kernel(o.name())]  # the rest belongs to TorchScript alone


def is_cpu_kernel(name):
    """Ops that do work: generated kernels, and what is neither a view, nor memory, nor made of other ops."""
    if not name.startswith("aten::"):
        return "cpp_fused" in name
    if name.startswith("aten::empty") or name in ("aten::resize_", "aten::lift_fresh", "aten::_unsafe_view"):
        return False
    found = overloads(name)
    returned = [o._schema.returns[0].alias_info if o._schema.returns else None for o in found]
    is_view = bool(found) and all(alias and not alias.is_write for alias in returned)
    implicit = torch._C.DispatchKey.CompositeImplicitAutograd
    return not is_view and not any(o.has_kernel_for_dispatch_key(implicit) for o in found)


def gpu_launches(events):
    """(name, start, µs) of what ran on the GPU."""
    return [(e.name, e.time_range.start, e.time_range.elapsed_us()) for e in events
            if e.device_type == torch.autograd.DeviceType.CUDA]


def cpu_launches(events):
    """The same on a CPU: the outermost ops that do work."""
    kernel = {name: is_cpu_kernel(name) for name in {e.name for e in events}}
    out = []
    for e in events:
        parent = e.cpu_parent
        while parent and not kernel[parent.name]:
            parent = parent.cpu_parent
        if kernel[e.name] and not parent:
            out.append((e.name, e.time_range.start, e.cpu_time_total))
    return out


def kernel_rows(launches, rounds):
    """The report's kernels from the launches of so many runs, the launches a run, and the µs of each run."""
    by_name, runs = collections.defaultdict(list), [0.0] * rounds
    for name, _, us in sorted(launches, key=lambda launch: launch[1]):
        by_name[name].append(us)
    kernels = []
    for name, times in by_name.items():
        each, more = divmod(len(times), rounds)
        if more or not each:  # not the same every run: an average is all there is
            sums, each = [sum(times) / rounds] * rounds, max(1, round(len(times) / rounds))
        else:
            sums = [sum(times[k * each:(k + 1) * each]) for k in range(rounds)]
        runs = [a + b for a, b in zip(runs, sums)]
        kernels.append({"name": name[:240], "family": "compiled" if "fused" in name else "library", "nodes": [], "count": each,
                        "device_us": stat(sums)})
    kernels.sort(key=lambda k: -k["device_us"]["median"])
    return kernels, sum(k["count"] for k in kernels), runs


def worst_of(node, got, want, at, shape):
    where = ",".join(str(i) for i in torch.unravel_index(torch.tensor(at), shape)) if shape else ""
    place = f"[{where}]" if where else ""
    return f"{node['name'][:48]}{place}: {got.reshape(-1)[at].item():.9g}, expected {want.reshape(-1)[at].item():.9g}"


def compiled_graphs():
    """How many graphs the compiler was given so far in this process: where it gives up, it runs eagerly without a word."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


ALLOWED = {"bf16": 3e-2, "f16": 5e-3, "f32": 2e-4, "f64": 1e-10}  # of the largest value of an output


class Case:
    """One graph under one plan, prepared. Inputs of several seeds take turns, each checked when it comes."""

    PLANS = ("eager", "eager+graph", "compile", "compile+graph", "max-autotune")
    TURN_CALLS, ROUNDS, KEPT = 4, 15, 128

    def __init__(self, graph, plan, seeds, files):
        if plan not in self.PLANS:
            raise Refused("input", f"PyTorch has no plan \"{plan}\"; it has {', '.join(self.PLANS)}")
        if plan.endswith("+graph") and not CUDA:
            raise Refused("unavailable", f"PyTorch finds no GPU here, and {plan} replays a CUDA graph")
        self.graph, self.plan, self.seeds, self.files = graph, plan, seeds, files
        self.timed = [seed for seed in seeds if seed in ALIKE] or seeds  # zeros and ones are timed alone
        self.hot, self.cold, self.busy, self.calls, self.waited_us = [], [], [], 0, 0.0
        self.rounds = []  # (when it began, its median), the latest
        self.images, self.verified, self.seed = {}, set(), None
        self.error = {"max_abs": 0.0, "max_rel": 0.0, "bound": 0.0, "ok": True}
        self.kernels, self.launches, self.peak, self.compile_ms = [], None, None, None
        self.tf32 = any(n.get("precision") == "tf32" for n in graph["nodes"])
        self.run = None
        # What is fed and received is copied by every run, in order with its kernels, as fusebox's own plans do it.
        self.feeds, self.saved = {}, {}  # number of an input or a result → memory outside
        self.copy_us = []

    def settings(self):
        """Those of PyTorch that are global, and of this case."""
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        torch.backends.cudnn.allow_tf32 = self.tf32

    def build(self):
        """Builds it, and runs it once."""
        self.settings()
        model, self.inputs = function(self.graph, scopes=True)
        self.model, self.written = model, model.written
        if self.plan.startswith("compile"):
            self.model = torch.compile(model, dynamic=False)
        elif self.plan == "max-autotune":
            self.model = torch.compile(model, mode="max-autotune-no-cudagraphs", dynamic=False)
        nodes = self.graph["nodes"]
        self.received = [k for k, i in enumerate(checked(self.graph)) if nodes[i]["op"] == "receive"]
        for k in self.received:
            node = nodes[checked(self.graph)[k]]
            self.saved[k] = outside(node["shape"], DTYPES[node["dtype"]])
        self.load(self.seeds[0])
        start = time.perf_counter()
        self.run = self.whole_run
        compiled = compiled_graphs()
        self.decisions = inductor_plan.Decisions(self) if inductor_plan and not self.plan.startswith("eager") else None
        with torch.no_grad(), self.decisions or contextlib.nullcontext():
            self.run()
            wait()
            if not self.plan.startswith("eager"):
                self.compile_ms = (time.perf_counter() - start) * 1e3
                if compiled_graphs() == compiled:
                    raise Refused("unavailable", f"PyTorch compiled nothing of it: {self.plan} would be eager under another name")

    def prepare(self):
        self.build()
        with torch.no_grad():
            if self.plan.endswith("+graph"):
                self.run = graphed(self.run)
            self.check()
            if self.error["ok"]:
                self.profile()

    # -- a run

    def copy_in(self):
        for i, memory in self.feeds.items():
            self.arguments[i].copy_(memory, non_blocking=True)

    def copy_out(self, results):
        results = list(results)
        for k, memory in self.saved.items():
            results[k] = memory.copy_(results[k], non_blocking=True)
        return results

    def whole_run(self):
        self.copy_in()
        return self.copy_out(self.model(*self.arguments))

    # -- inputs

    def load(self, seed):
        """A CUDA graph reads where it was recorded: its inputs are copied there, all others take turns as they are."""
        if seed == self.seed:
            return
        if seed not in self.images:
            self.images[seed] = [source(node, seed, self.files) for node in self.inputs]
        image = self.images[seed]
        fed = [i for i, node in enumerate(self.inputs) if node["op"] == "feed"]
        if self.seed is None:
            keep = self.plan.endswith("+graph")
            self.arguments = [t.clone() if keep or i in fed else t for i, t in enumerate(image)]
            self.feeds = {i: outside(image[i].shape, image[i].dtype) for i in fed}
        elif self.plan.endswith("+graph"):
            for to, t in zip(self.arguments, image):
                to.copy_(t)
        else:
            self.arguments = [self.arguments[i] if i in fed else t for i, t in enumerate(image)]
        for i in fed:
            self.feeds[i].copy_(image[i])
            self.arguments[i].fill_(0)  # what a run does not copy is not there
        self.seed = seed

    # -- the answer

    def check(self):
        """Against the graph op by op in double: another path through PyTorch, which knows no op scopes."""
        got = self.run()
        wait()  # for what is received
        got = [t.clone() for t in got]
        wide, inputs = function(self.graph, scopes=False, wide=True)
        known = {n["id"]: a for n, a in zip(self.inputs, self.arguments)}
        arguments = [known[n["id"]] if n["id"] in known else source(n, self.seed, self.files) for n in inputs]
        want = wide(*(a.double() if a.is_floating_point() else a for a in arguments))
        del arguments
        dtypes = {n["dtype"] for n in self.graph["nodes"]}
        allowed = next(a for d, a in ALLOWED.items() if d in dtypes or d == "f64")
        if self.tf32:
            allowed = max(allowed, 5e-3)
        for i, a, b in zip(checked(self.graph), got, want):
            if a.numel():
                self.compare(self.graph["nodes"][i], a, b, allowed)
        self.verified.add(self.seed)
        del got, want
        if CUDA:
            torch.cuda.empty_cache()  # other processes measure on this GPU too

    def compare(self, node, got, want, allowed):
        got, want = got.to(want.device).double(), want.double()
        diff = (got - want).abs()
        diff = torch.where((got == want) | (got.isnan() & want.isnan()), torch.zeros_like(diff), diff).nan_to_num(math.inf)
        at = int(diff.argmax())
        most, e = diff.reshape(-1)[at].item(), self.error
        finite = want[want.isfinite()]
        scale = max(finite.abs().max().item() if finite.numel() else 0.0, 1e-30)
        bound = most / scale / (allowed if node["dtype"] in ALLOWED else 1e-30)
        e["max_abs"] = max(e["max_abs"], most)
        e["max_rel"] = max(e["max_rel"], most / scale)
        e["bound"] = max(e["bound"], bound)
        if bound > 1 and e["ok"]:
            e["ok"], e["worst"] = False, worst_of(node, got, want, at, got.shape)

    # -- times

    def profile(self):
        """What one run launches, as PyTorch's own profiler sees it."""
        from torch.profiler import ProfilerActivity, profile
        for _ in range(3):
            self.run()
        wait()
        if CUDA:
            torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() if CUDA else 0
        start = time.perf_counter()
        result = self.run()
        wait()
        rounds = max(3, min(self.ROUNDS, int(0.5 / max(time.perf_counter() - start, 1e-6))))
        if CUDA:
            inputs = sum(t.numel() * t.element_size() for t in self.arguments)
            self.peak = torch.cuda.max_memory_allocated() - before + inputs
        self.time_copies(rounds, result)
        del result
        profiled = self.run if CUDA else lambda: self.model(*self.arguments)  # on a CPU copies look like any op
        with profile(activities=[ProfilerActivity.CUDA if CUDA else ProfilerActivity.CPU], acc_events=True) as p:
            for _ in range(rounds):
                profiled()
            wait()
        launches = gpu_launches(p.events()) if CUDA else cpu_launches(p.events())
        if self.feeds or self.saved:
            launches = [e for e in launches if not e[0].startswith(("Memcpy HtoD", "Memcpy DtoH"))]
        if launches:
            self.kernels, self.launches, self.busy = kernel_rows(launches, rounds)

    def time_copies(self, rounds, results):
        """What the copies of a run take by themselves."""
        for _ in range(rounds if self.feeds or self.saved else 0):
            wait()
            if CUDA:
                begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                on_device = [t.to(DEVICE) for t in results]
                begun.record()
                self.copy_in()
                self.copy_out(on_device)
                ended.record()
                wait()
                self.copy_us.append(begun.elapsed_time(ended) * 1e3)
            else:
                elsewhere = [t.clone() for t in results]
                start = time.perf_counter()
                self.copy_in()
                self.copy_out(elsewhere)
                self.copy_us.append((time.perf_counter() - start) * 1e6)

    def sample(self, n, cold):
        self.settings()
        with torch.no_grad():
            turn = 1 if cold else self.TURN_CALLS
            self.load(self.timed[self.calls // turn % len(self.timed)])
            self.calls += 1
            if self.seed not in self.verified:
                self.check()
            if not self.error["ok"]:
                raise Refused("input", f"the result is wrong, so no time is taken: {self.error['worst']}")
            if not cold:
                self.run()
            began, before = time.perf_counter(), len(self.hot)
            for _ in range(n):
                if cold:
                    FLUSH.add_(1)
                wait()
                start = time.perf_counter()
                self.run()
                wait()
                (self.cold if cold else self.hot).append((time.perf_counter() - start) * 1e6)
            if not cold:
                self.rounds = [*self.rounds[1 - self.KEPT:], (began * 1e6, stat(self.hot[before:])["median"])]

    def report(self, brief=False):
        r = {"device": "torch", "plan": self.plan, "nodes": len(self.graph["nodes"]), "source": "measured",
             "launch_mode": "graph" if self.plan.endswith("+graph") else "stream", "error": self.error}
        if not self.error["ok"]:  # a plan whose answer is wrong shows no time
            return r
        known = {"launches": self.launches, "peak_bytes": self.peak, "compile_ms": self.compile_ms, "kernels": self.kernels}
        r.update({key: value for key, value in known.items() if value is not None})
        if self.decisions and not brief:
            r["their_plan"] = self.decisions.report()
        for key, samples in (("wall_us", self.hot), ("cold_us", self.cold), ("device_us", self.busy)):
            if samples:
                r[key] = stat(samples)
        if self.rounds:  # what a comparison with another column pairs
            r["rounds"] = {"at_us": [round(at) for at, _ in self.rounds], "wall_us": [us for _, us in self.rounds],
                           "device_us": [None for _ in self.rounds]}
        if self.hot and self.busy and r["wall_us"]["median"] >= r["device_us"]["median"]:
            copies = stat(self.copy_us)["median"] if self.copy_us else 0
            r["gap_us"] = max(0, r["wall_us"]["median"] - r["device_us"]["median"] - copies)
        if self.feeds or self.saved:
            def size(memory):
                return sum(t.numel() * t.element_size() for t in memory.values())
            r.update(copies="in order", copy_hidden_us=0, bytes={"copied": {"in": size(self.feeds), "out": size(self.saved)}})
            if self.copy_us:
                r["copy_us"] = stat(self.copy_us)
        return r


# ---- the protocol -----------------------------------------------------------------------------------------------------


def finite(value):
    """What JSON has no word for is left out: a figure that is not known is absent."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items() if not isinstance(v, float) or math.isfinite(v)}
    return [finite(v) for v in value] if isinstance(value, list) else value


class Front:
    """The other end. A thread reads it, so that a cancel arrives while something runs; requests wait in line."""

    def __init__(self, stream, out):
        self.stream, self.out = stream, out
        self.line, self.news = collections.deque(), threading.Condition()
        self.running = self.cancelled = None  # ids
        self.shielded = False
        self.main, self.writing = threading.main_thread().ident, threading.Lock()
        signal.signal(signal.SIGUSR1, self.interrupt)

    def say(self, message):
        with self.writing:
            self.out.write((json.dumps(finite(message), separators=(",", ":"), allow_nan=False) + "\n").encode())
            self.out.flush()

    def fail(self, number, kind, text):
        self.say({"type": "error", "id": number, "kind": kind, "text": " ".join(text.split())[:400]})

    def read_graph(self):
        head = json.loads(self.stream.readline())
        graph = {part: [json.loads(self.stream.readline()) for _ in range(head["n_" + part])]
                 for part in ("scopes", "regions", "nodes")}
        graph["outputs"] = json.loads(self.stream.readline())["outputs"]
        return graph

    def read(self):
        """Ends the process with its stdin, whatever it does: nothing stays behind on the far side of an ssh."""
        while line := self.stream.readline():
            try:
                message = json.loads(line)
                kind = message["type"]
                if kind == "graph":
                    message["graph"] = self.read_graph()
                elif kind == "file":
                    message["data"] = self.stream.read(message["bytes"])
            except (ValueError, KeyError, TypeError) as e:
                self.fail(0, "input", f"a message that cannot be read: {type(e).__name__}: {e}")
                continue
            if kind == "cancel":
                self.cancel(message.get("id"))
                continue
            with self.news:
                self.line.append(message)
                self.news.notify()
            if kind == "quit":
                return
        os._exit(0)

    def cancel(self, number):
        with self.news:
            gone = [m for m in self.line if m.get("id") == number and m["type"] in ("prepare", "sample")]
            for m in gone:
                self.line.remove(m)
            self.cancelled = number
            if self.running == number:
                signal.pthread_kill(self.main, signal.SIGUSR1)
        for _ in gone:
            self.fail(number, "cancelled", "cancelled")

    def interrupt(self, *_):
        """In the main thread, between two of its steps."""
        if self.running is not None and self.running == self.cancelled and not self.shielded:
            self.running = None
            raise Cancelled

    def next(self):
        """The next message; after a moment without one others may have the device."""
        with self.news:
            while not self.line:
                if not self.news.wait(Lock.IDLE_S if LOCK.fd >= 0 else None):
                    LOCK.leave()
            return self.line.popleft()


class Worker:
    def __init__(self, front):
        self.front, self.graphs, self.cases, self.files = front, {}, {}, {}
        self.can_compile = False

    def devices(self):
        entry = {"device": "torch", "kind": "torch"}
        if MISSING:
            return {"devices": [dict(entry, missing=MISSING)], "libraries": []}
        on = torch.cuda.get_device_name(0) if CUDA else f"the CPU, {torch.get_num_threads()} threads"
        name = f"PyTorch {torch.__version__} on {on}"
        return {"devices": [dict(entry, name=name, plans=list(Case.PLANS))], "libraries": []}

    def hello(self, message):
        if message.get("fusebox") != PROTOCOL:
            raise Refused("unavailable", f"this worker speaks protocol {PROTOCOL}, the front {message.get('fusebox')}: "
                          "use those of the same fusebox")
        return dict({"type": "hello", "fusebox": PROTOCOL, "version": VERSION, "host": socket.gethostname()}, **self.devices())

    def graph(self, message):
        self.graphs[message["hash"]] = self.graphs.pop(message["hash"], message["graph"])
        while len(self.graphs) > 64:
            self.graphs.pop(next(iter(self.graphs)))

    def file(self, message):
        if not MISSING:
            self.files[message["key"]] = torch.frombuffer(bytearray(message["data"]), dtype=torch.float64)

    def take_device(self, number):
        return LOCK.take(lambda n: self.front.say({"type": "progress", "id": number, "what": f"waiting, {n} ahead", "fraction": 0}))

    def load_compiler(self):
        """The first torch.compile loads half of PyTorch, which does not survive being cancelled in the middle."""
        if self.can_compile:
            return
        self.front.shielded = True
        try:
            torch.compile(lambda x: torch.relu(x @ x + 1))(torch.ones(8, 8, device=DEVICE))
        finally:
            self.front.shielded = False
        # One process compiles hundreds of graphs, each once: no sign that one of them is compiled again and again.
        for limit in ("recompile_limit", "accumulated_recompile_limit", "cache_size_limit", "accumulated_cache_size_limit"):
            if hasattr(torch._dynamo.config, limit):
                setattr(torch._dynamo.config, limit, 1 << 20)
        self.can_compile = True
        self.front.interrupt()  # by what came meanwhile

    def prepare(self, message):
        number, plan = message["id"], message.get("plan")
        if MISSING:
            raise Refused("unavailable", MISSING)
        if message.get("graph") not in self.graphs:
            raise Refused("input", f"graph {message.get('graph')} was not sent, or long ago")
        if not isinstance(plan, str):
            raise Refused("input", f"PyTorch plans for itself: a plan is one of {', '.join(Case.PLANS)}")
        case = Case(self.graphs[message["graph"]], plan, message.get("seeds") or [0], self.files)
        if message.get("ahead"):
            return self.compile_ahead(number, case)
        self.take_device(number)
        what = "running" if plan.startswith("eager") else "compiling"
        self.front.say({"type": "progress", "id": number, "what": f"PyTorch: {what} {plan}", "fraction": 0})
        if not plan.startswith("eager"):
            self.load_compiler()
        case.prepare()
        self.cases[number] = case
        return {"type": "prepared", "id": number, "report": case.report()}

    def compile_ahead(self, number, case):
        """Into PyTorch's own cache, for a worker that will measure it: nothing is timed, so the device is not asked for."""
        if not case.plan.startswith("eager"):
            self.load_compiler()
            case.build()
        return {"type": "prepared", "id": number, "report": {"device": "torch", "plan": case.plan, "error": case.error}}

    def sample(self, message):
        number = message["id"]
        if number not in self.cases:
            raise Refused("input", f"no case {number} is prepared")
        waited = self.take_device(number)
        self.cases[number].sample(message.get("n", 20), message.get("cache") == "cold")
        brief = bool(message.get("brief"))
        return {"type": "sampled", "id": number, "waited_us": waited, "brief": brief, "report": self.cases[number].report(brief)}

    def release(self, message):
        if self.cases.pop(message["id"], None) and CUDA:
            torch.cuda.empty_cache()
        return {"type": "released", "id": message["id"]}

    def calibrate(self, message):
        raise Refused("unavailable", "PyTorch needs no calibration: nothing is predicted for it")

    def list(self, message):
        return dict({"type": "devices", "id": message["id"]}, **self.devices())

    HANDLERS = {"hello": hello, "graph": graph, "file": file, "prepare": prepare, "sample": sample, "release": release,
                "calibrate": calibrate, "devices": list}

    def attempt(self, message):
        """The answer, or (kind, text) of why there is none: one case's failure is that case's message."""
        handler = self.HANDLERS.get(message["type"])
        try:
            if not handler:
                raise Refused("input", f"there is no message of type \"{message['type']}\"")
            return handler(self, message)
        except Refused as e:
            return (e.kind, str(e))
        except Exception as e:
            full = not MISSING and isinstance(e, torch.OutOfMemoryError)
            return ("limit" if full else "system", f"PyTorch: {type(e).__name__}: {e}")

    def serve(self):
        front = self.front
        while (message := front.next())["type"] != "quit":
            number = message.get("id", 0)
            try:
                front.running = number if message["type"] in ("prepare", "sample") else None
                answer = self.attempt(message)
                front.running = None
            except Cancelled:
                answer = ("cancelled", "cancelled")
                if self.can_compile:
                    torch._dynamo.reset()
            if isinstance(answer, tuple):
                front.fail(number, *answer)
            elif answer:
                front.say(answer)


def main():
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes to stderr, never into the protocol
    front = Front(sys.stdin.buffer, out)
    threading.Thread(target=front.read, daemon=True).start()
    Worker(front).serve()


try:
    import inductor_plan
except ImportError:
    inductor_plan = None  # a worker that was copied without it measures all the same
MISSING, CUDA = None, False
for cache in ("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"):
    os.environ.setdefault(cache, "1")  # what another worker has compiled ahead is not compiled again
try:
    import torch
except ImportError as e:
    MISSING = f"PyTorch is not installed for {sys.executable or 'this python3'} ({e})"
else:
    CUDA = torch.cuda.is_available()
    DEVICE = torch.device("cuda:0" if CUDA else "cpu")
    DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "i32": torch.int32,
              "i64": torch.int64, "bool": torch.bool}
    FLUSH = torch.zeros((256 if CUDA else 64) << 18, dtype=torch.int32, device=DEVICE)
    if not CUDA:
        import torch._inductor.config
        torch._inductor.config.cpp.enable_kernel_profile = True  # names its kernels to the profiler
LOCK = Lock("cuda:0" if CUDA else "host")

if __name__ == "__main__":
    main()
