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

The protocol, the inputs, the analysis of graphs, the lock and the statistics are fusebox_worker.py's; README.md beside this
file walks through a worker in the order in which it is best written.
"""
import collections
import contextlib
import functools
import itertools
import math
import os
import re
import sys
import time

import fusebox_worker as shared
from fusebox_worker import ALIKE, ALLOWED, SOURCES, VIEWS, Analysis, Lock, Refused, allowed_of, checked, kernel_rows, number, stat  # noqa: F401


class Arrays:
    """PyTorch's tensors for the generator of the inputs."""

    @staticmethod
    def count(start, n):
        return torch.arange(start, start + n, dtype=torch.int64, device=DEVICE)

    @staticmethod
    def scalar(value):
        return torch.tensor(value, dtype=torch.float64, device=DEVICE)

    @staticmethod
    def double(x):
        return x.double()

    @staticmethod
    def empty(n, dtype):
        return torch.empty(n, dtype=DTYPES[dtype], device=DEVICE)

    @staticmethod
    def spread(x, shape):
        return x.expand(shape).contiguous()

    @staticmethod
    def from_bytes(x):
        return x.to(DEVICE)

    @staticmethod
    def rounded(x, dtype):
        """Doubles to a dtype, rounded once. The 16-bit types are reached through float, which would round twice: so float
        is rounded to odd, and has bits enough that the second rounding decides as if it were the first."""
        dtype = DTYPES[dtype]
        if dtype not in (torch.float16, torch.bfloat16) or x.dtype != torch.float64:
            return (x != 0) if dtype == torch.bool else x.to(dtype)
        near = x.float()
        back = near.double()
        toward_zero = torch.where(back.abs() > x.abs(), torch.nextafter(near, torch.zeros_like(near)), near)
        odd = (toward_zero.view(torch.int32) | 1).view(torch.float32)
        return torch.where(back == x, near, odd).to(dtype)


def source(node, seed, files):
    return shared.source(Arrays, node, seed, files)


# ---- one node in PyTorch ----------------------------------------------------------------------------------------------

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
CALL = {name: call for name, (_, _, call, _) in OPS.items() if call}
CALL.update(receive="{0}", matmul="torch.matmul({0}, {1})")


def is_infix(op):
    """Is it written between its operands, as people write a number there?"""
    return CALL.get(op, "").startswith("{0} ")


def written(node, key):
    value = number(node, key)
    if node["dtype"] in ("i32", "i64"):  # a float among integers, such as an infinite bound, would make floats of them
        most = 2**31 - 1 if node["dtype"] == "i32" else 2**63 - 1
        return repr(int(value) if math.isfinite(value) else most if value > 0 else -most - 1)
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


def guarded(node, args, shapes):
    """A gather or a sum at places that may lie outside of the table: those read as 0 and are added nowhere. PyTorch's own
    calls stop there."""
    table, index = args
    if node["op"] == "embedding":
        n, rest = shapes[0][0], "[..." + ", None" * (len(shapes[0]) - 1) + "]"
        inside = f"(({index} >= 0) & ({index} < {n})){rest}"
        return f"torch.where({inside}, {gather(node, [table, f'{index}.clamp(0, {n - 1})'], shapes)}, 0)"
    n = node["shape"][0]
    wider = {**node, "shape": [n + 1] + node["shape"][1:]}
    return f"{gather(wider, [table, f'torch.where(({index} >= 0) & ({index} < {n}), {index}, {n})'], shapes)}[:{n}]"


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
    if op == "rank":
        order = f"torch.argsort({x}, dim={node['dim']}, descending={bool(node.get('start'))}, stable=True)"
        return f"torch.argsort({order}, dim={node['dim']})"
    if op in ("cumsum", "cumprod"):
        return f"torch.{op}({x}, {node['dim']}, dtype=dtype_{node['dtype']})"
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
    if op in ("sort", "topk") and "descending" in a:
        k = f"{a['k']}, {a['dim']}, largest={a['descending']}" if op == "topk" else f"dim={a['dim']}, descending={a['descending']}, stable=True"
        return f"torch.{op}({args[0]}, {k})"
    if op == "lstm_cell":
        return f"torch.lstm_cell({args[0]}, [{args[1]}, {args[2]}], {', '.join(args[3:])})"
    if op == "gru_cell":
        return f"torch.gru_cell({', '.join(args)})"
    return None


# ---- the graph as Python source ---------------------------------------------------------------------------------------

class Source(Analysis):
    """A graph written out as one Python function of its sources. With `scopes`, op scopes become PyTorch's own calls."""

    def __init__(self, graph, scopes, groups=None):
        """`groups`: node → the groups of a plan that compute it, which are written beside each operation; an op scope is a
        call then only if it lies in one of them."""
        self.groups = groups
        super().__init__(graph, (lambda scope, args: scope_call(scope, [f"v{a}" for a in args])) if scopes else None)
        self.inputs = []
        self.lines = []

    # -- groups of a plan

    def call_of(self, call, scope, inside):
        parts = {tuple(self.groups[i]) for i in inside if i in self.groups} if self.groups else ()
        return None if len(parts) > 1 else super().call_of(call, scope, inside)

    def say(self, i, indent, text):
        """A statement, marked with the groups that it is of (inductor_groups.py)."""
        groups = self.groups.get(i) if self.groups else None
        if not groups:
            self.lines.append(indent + text)
            return
        steps, region = [], self.nodes[i].get("region", 0)
        while self.regions[region].get("loop", -1) >= 0:
            steps.append(f"t{self.regions[region]['loop']}")
            region = self.regions[region].get("parent", 0)
        self.lines.append(f"{indent}with marked({{'fusebox': {list(groups)}, 'fusebox_steps': {listed(steps)}}}):")
        self.lines.append(f"{indent}    {text}")

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

    def may_leave(self, i):
        """May this index be one that no table has? As far as can be seen from how it is made: a place that was moved, or
        one put in for "nowhere"."""
        node = self.nodes[i]
        while node["op"] in VIEWS | {"cast"}:
            node = self.nodes[node["args"][0]]
        nowhere = any(self.nodes[a]["op"] == "const" and number(self.nodes[a], "value") < 0 for a in node.get("args", ()))
        return node["op"] in ("sub", "pad") or node["op"] == "where" and nowhere

    # -- statements

    def node(self, node, indent):
        i, op = node["id"], node["op"]
        if i in self.calls:
            call = self.calls[i]
            if i == max(call.results):
                self.say(i, indent, f"{', '.join(f'v{r}' for r in call.results)} = {call.what}")
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
            outside = op in ("embedding", "index_add") and self.may_leave(node["args"][1])
            self.say(i, indent, f"v{i} = {(guarded if outside else expression)(node, self.operands(node), shapes)}")

    def region(self, number, indent):
        for node in self.by_region[number]:
            if node["id"] in self.needed:
                self.node(node, indent)

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
        return "\n".join([head] + (self.lines if self.groups else self.drop_dead()) + [f"    return [{', '.join(f'v{r}' for r in self.results)}]"]) + "\n"


NUMBERS = itertools.count(1)


def function(graph, scopes, wide=False, groups=None):
    """The function and the source nodes that it takes. `wide`: everything that is a float is a double."""
    out = Source(graph, scopes, groups)
    text = out.text()
    names = {"torch": torch, "F": torch.nn.functional, "device": DEVICE}
    if groups:
        names["marked"] = torch.fx.traceback.annotate
    for name, dtype in DTYPES.items():
        names[f"dtype_{name}"] = torch.float64 if wide and dtype.is_floating_point else dtype
    # A file's name of its own for each: what the compiler counts and keeps by place in a source is no other graph's.
    file = f"<fusebox graph {next(NUMBERS)}>"
    exec(compile(text, file, "exec"), names)
    names["model"].written = (file, text, out.calls)
    return names["model"], [graph["nodes"][i] for i in out.inputs]


def moving(by=shared.MOVED, draw=7, zero=0.0):
    """A mode in which every double that is computed comes out a little larger or smaller, each by its own draw; `largest`
    of them all."""
    from torch.utils._python_dispatch import TorchDispatchMode
    draws = torch.Generator(DEVICE).manual_seed(draw)

    class Moving(TorchDispatchMode):
        largest = 0.0

        def __torch_dispatch__(self, call, types, args=(), kwargs=None):
            out = call(*args, **(kwargs or {}))
            if call.is_view or call._schema.is_mutable or not isinstance(out, torch.Tensor) or out.dtype != torch.float64:
                return out
            finite = out[out.isfinite()]
            self.largest = max(self.largest, finite.abs().max().item() if finite.numel() else 0.0)
            drawn = 2 * torch.rand(out.shape, generator=draws, dtype=out.dtype, device=out.device) - 1
            return out * (1 + by * drawn) + zero * drawn
    return Moving()


# ---- measuring --------------------------------------------------------------------------------------------------------


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


def is_full(error):
    return isinstance(error, torch.OutOfMemoryError)


def release():
    """Other processes measure on this GPU too."""
    if CUDA:
        torch.cuda.empty_cache()


def compiled_graphs():
    """How many graphs the compiler was given so far in this process: where it gives up, it runs eagerly without a word."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


class Case(shared.Case):
    FRAMEWORK, DEVICE, PLANS = "PyTorch", "torch", ("eager", "eager+graph", "compile", "compile+graph", "max-autotune")

    def __init__(self, graph, plan, seeds, files):
        if plan.endswith("+graph") and not CUDA:
            raise Refused("unavailable", f"PyTorch finds no GPU here, and {plan} replays a CUDA graph")
        super().__init__(graph, plan, seeds, files)
        self.groups = self.obeyed = self.decisions = None
        self.tf32 = any(n.get("precision") == "tf32" for n in graph["nodes"])
        self.run = None
        # What is fed and received is copied by every run, in order with its kernels, as fusebox's own plans do it.
        self.feeds, self.saved = {}, {}  # number of an input or a result → memory outside
        self.copy_us = []

    def settings(self):
        """Those of PyTorch that are global, and of this case."""
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        torch.backends.cudnn.allow_tf32 = self.tf32

    def take(self, given):
        """A plan of fusebox's: the groups, each the numbers of its nodes, and what they are called."""
        missing = inductor_groups.unavailable(torch.__version__) if inductor_groups else "inductor_groups.py is not beside the worker"
        if missing:
            raise Refused("unavailable", missing)
        groups, n = given["groups"], len(self.graph["nodes"])
        if not all(isinstance(i, int) and 0 <= i < n for group in groups for i in group):
            raise Refused("input", "a plan's groups are lists of the graph's nodes")
        self.groups, self.names = collections.defaultdict(list), []
        for group in groups:
            real = [i for i in group if self.graph["nodes"][i]["op"] not in VIEWS | SOURCES | {"loop", "result", "carried", "item", "step"}]
            for i in real:
                self.groups[i].append(len(self.names))
            if real:
                named = [self.graph["nodes"][i]["name"] for i in real]
                self.names.append(" ".join(named[:3]) + (f" … {named[-1]}" if len(named) > 3 else ""))

    def build(self):
        """Builds it, and runs it once."""
        self.settings()
        model, self.inputs = function(self.graph, scopes=True, groups=self.groups)
        self.model, self.written = model, model.written
        obey = inductor_groups.Obey(self.names) if self.groups else None
        if self.groups:
            self.model = torch.compile(model, dynamic=False)
        elif self.plan.startswith("compile"):
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
        self.decisions = inductor_plan.Decisions(self) if inductor_plan and not obey and not self.plan.startswith("eager") else None
        with torch.no_grad(), obey or self.decisions or contextlib.nullcontext():
            self.run()
            wait()
            if obey:
                self.obeyed = obey.result()
            if not self.plan.startswith("eager") or obey:
                self.compile_ms = (time.perf_counter() - start) * 1e3
                if compiled_graphs() == compiled:
                    raise Refused("unavailable", f"PyTorch compiled nothing of it: {self.plan} would be eager under another name")

    def settle(self):
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

    def use(self, seed):
        """A CUDA graph reads where it was recorded: its inputs are copied there, all others take turns as they are."""
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

    # -- the answer

    def verify(self):
        """Against the graph op by op in double: another path through PyTorch, which knows no op scopes."""
        got = self.run()
        wait()  # for what is received
        got = [t.clone() for t in got]
        known, beside = {n["id"]: a for n, a in zip(self.inputs, self.arguments)}, []

        def in_double(scopes):
            wide, inputs = function(self.graph, scopes=scopes, wide=True)
            arguments = [known[n["id"]] if n["id"] in known else source(n, self.seed, self.files) for n in inputs]
            return wide, arguments, wide(*(a.double() if a.is_floating_point() else a for a in arguments))

        try:
            wide, arguments, want = in_double(False)
        except RuntimeError as e:
            if not is_full(e):
                raise
            want = None
        if want is None:  # windows of a convolution in double are many times its input: its own op holds none
            release()
            wide, arguments, want = in_double(True)

        def moved(k):
            if not beside:
                with moving() as mode:
                    beside.append(wide(*(a.double() * 1 if a.is_floating_point() else a for a in arguments)))
                beside.append(mode.largest)
            off = (beside[0][k].double() - want[k].double()).abs()
            return (off[off.isfinite()].max().item() if bool(off.isfinite().any()) else 0.0) / shared.MOVED, beside[1]

        def turned(k, differ):
            """Elements of an integer result that a decision between values makes another, where these go by what roundings do."""
            by, least, zero = shared.rounded_of(self.graph)
            turns = torch.zeros_like(differ)
            for draw, sign in shared.TURNS:
                if not bool((differ & ~turns).any()):
                    break
                with moving(sign * least, draw):
                    near = [a.double() * 1 if a.is_floating_point() else a for a in arguments]
                with moving(sign * by, draw, sign * zero):
                    turns |= wide(*near)[k] != want[k]
            return turns
        allowed = allowed_of(self.graph)
        for k, (i, a, b) in enumerate(zip(checked(self.graph), got, want)):
            if a.numel() and not b.is_floating_point():
                a = a.to(b.device)
                differ = a != b
                turns = turned(k, differ)
                self.leave_open(int((turns & differ).sum()))
                a = torch.where(turns, b, a)
            if a.numel():
                self.hold(self.graph["nodes"][i], a, b, allowed, functools.partial(moved, k))
        del got, want, arguments
        beside.clear()
        release()

    def hold(self, node, got, want, allowed, moved):
        got, want = got.to(want.device).double(), want.double()
        diff = (got - want).abs()
        diff = torch.where((got == want) | (got.isnan() & want.isnan()), torch.zeros_like(diff), diff).nan_to_num(math.inf)
        at = int(diff.argmax())
        finite = want[want.isfinite()]
        far = diff.reshape(-1)[at].item(), finite.abs().max().item() if finite.numel() else 0.0
        self.compare(node, list(got.shape), far, (at, got.reshape(-1)[at].item(), want.reshape(-1)[at].item()), allowed,
                     moved)

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

    def flush(self):
        FLUSH.add_(1)

    @staticmethod
    def wait():
        wait()

    def sample(self, n, cold):
        self.settings()
        with torch.no_grad():
            super().sample(n, cold)

    def report(self, brief=False):
        r = super().report(brief)
        if not self.error["ok"]:
            return r
        if self.obeyed:
            r["obeyed"] = self.obeyed
        if self.decisions and not brief:
            r["their_plan"] = self.decisions.report()
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


# ---- PyTorch as a device ----------------------------------------------------------------------------------------------


class Framework(shared.Framework):
    device, title, case = "torch", "PyTorch", Case
    can_compile, obeys = False, True

    def asks(self, take):
        self.take = take

    @functools.cached_property
    def builds_beside(self):
        """On a GPU: a compiler takes half a minute of one core, and the GPU for the moments in which it tries kernels."""
        if not CUDA:
            return False
        try:
            from torch._inductor.runtime.benchmarking import benchmarker
            tries = benchmarker.benchmark_gpu
        except (ImportError, AttributeError):
            return False  # a version that hides them: the device is its own from the start

        def alone(*args, **kwargs):
            held = self.lock.fd >= 0
            self.take()
            try:
                return tries(*args, **kwargs)
            finally:
                if not held:
                    self.lock.leave()

        benchmarker.benchmark_gpu = alone
        return True

    def name(self):
        on = torch.cuda.get_device_name(0) if CUDA else f"the CPU, {torch.get_num_threads()} threads"
        return f"PyTorch {torch.__version__} on {on}"

    def keep_file(self, data):
        return torch.frombuffer(bytearray(data), dtype=torch.float64)

    def doing(self, plan):
        return f"PyTorch: {'running' if plan.startswith('eager') else 'compiling'} {plan}"

    def before(self, front, plan):
        """The first torch.compile loads half of PyTorch, which does not survive being cancelled in the middle."""
        if self.can_compile or plan.startswith("eager"):
            return
        front.shielded = True
        try:
            torch.compile(lambda x: torch.relu(x @ x + 1))(torch.ones(8, 8, device=DEVICE))
        finally:
            front.shielded = False
        # One process compiles hundreds of graphs, each once: no sign that one of them is compiled again and again.
        for limit in ("recompile_limit", "accumulated_recompile_limit", "cache_size_limit", "accumulated_cache_size_limit"):
            if hasattr(torch._dynamo.config, limit):
                setattr(torch._dynamo.config, limit, 1 << 20)
        self.can_compile = True
        front.interrupt()  # by what came meanwhile

    def is_full(self, error):
        return is_full(error)

    def cancelled(self):
        if self.can_compile:
            torch._dynamo.reset()

    def free(self):
        release()


try:
    import inductor_plan
except ImportError:
    inductor_plan = None  # a worker that was copied without it measures all the same
try:
    import inductor_groups
except ImportError:
    inductor_groups = None
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

if __name__ == "__main__":
    Framework.missing, Framework.lock = MISSING, Lock("cuda:0" if CUDA else "host")
    shared.main(Framework())
