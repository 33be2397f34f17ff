"""Workers whose framework takes NumPy's arrays: inputs, the answer in double, and a case that needs little more.

`Ops` writes each op of engine/graph/ops.def in NumPy's terms; it computes the reference of a check, in double and without
op scopes, and is what a framework with NumPy's functions (JAX) starts from. A bf16 array is one of float32 here, whose
values are those of bf16."""
import functools
import math
import time

import fusebox_worker as shared
import numpy
from fusebox_worker import (ALLOWED, FLOATS, MOVED, TURNS, VIEWS, Analysis, Case, Refused, Walk, allowed_of, number,
                            rounded_of, source)

DTYPES = {"f32": numpy.float32, "f16": numpy.float16, "bf16": numpy.float32, "f64": numpy.float64, "i32": numpy.int32,
          "i64": numpy.int64, "bool": numpy.bool_}


class Arrays:
    """NumPy's arrays for the generator of the inputs."""

    double = staticmethod(lambda x: x.astype(numpy.float64))
    scalar = staticmethod(lambda value: numpy.asarray(value, dtype=numpy.float64))
    empty = staticmethod(lambda n, dtype: numpy.empty(n, dtype=DTYPES[dtype]))
    spread = staticmethod(lambda x, shape: numpy.ascontiguousarray(numpy.broadcast_to(x, shape)).reshape(shape))
    from_bytes = staticmethod(lambda data: numpy.frombuffer(data, dtype=numpy.float64))

    @staticmethod
    def count(start, n):
        return numpy.arange(start, start + n, dtype=numpy.int64)

    @staticmethod
    def rounded(x, dtype):
        """To a dtype, rounded once; bf16 by way of a float that is rounded to odd."""
        if dtype == "bool":
            return x != 0
        with numpy.errstate(over="ignore"):
            if dtype != "bf16" or x.dtype != numpy.float64:
                return x.astype(DTYPES[dtype])
            near = x.astype(numpy.float32)
            back = near.astype(numpy.float64)
            below = numpy.where(abs(back) > abs(x), numpy.nextafter(near, numpy.float32(0)), near).astype(numpy.float32)
        odd = below.view(numpy.uint32) | 1
        bits = numpy.where(back == x, near.view(numpy.uint32), odd)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & numpy.uint32(0xFFFF0000)
        return bits.astype(numpy.uint32).view(numpy.float32)


# ---- ops ----------------------------------------------------------------------------------------------------------------

UNARY = {
    "neg": lambda m, x, n: -x, "abs": lambda m, x, n: m.abs(x), "sign": lambda m, x, n: m.sign(x),
    "exp": lambda m, x, n: m.exp(x), "exp2": lambda m, x, n: m.exp2(x), "log": lambda m, x, n: m.log(x),
    "log2": lambda m, x, n: m.log2(x), "log1p": lambda m, x, n: m.log1p(x), "sqrt": lambda m, x, n: m.sqrt(x),
    "rsqrt": lambda m, x, n: 1 / m.sqrt(x), "reciprocal": lambda m, x, n: 1 / x, "sin": lambda m, x, n: m.sin(x),
    "cos": lambda m, x, n: m.cos(x), "tanh": lambda m, x, n: m.tanh(x), "sigmoid": lambda m, x, n: 1 / (1 + m.exp(-x)),
    "relu": lambda m, x, n: m.maximum(x, 0), "floor": lambda m, x, n: m.floor(x), "ceil": lambda m, x, n: m.ceil(x),
    "round": lambda m, x, n: m.round(x), "logical_not": lambda m, x, n: m.logical_not(x),
    "bitwise_not": lambda m, x, n: ~x, "copy": lambda m, x, n: x,
    "elu": lambda m, x, n: m.where(x > 0, x, number(n, "value") * m.expm1(m.minimum(x, 0))),
    "softplus": lambda m, x, n: softplus(m, x, number(n, "value"), number(n, "high")),
    "mish": lambda m, x, n: x * m.tanh(softplus(m, x, 1.0, math.inf)),
    "clamp": lambda m, x, n: clamped(m, x, number(n, "value"), number(n, "high")),
}
BINARY = {
    "add": lambda m, a, b: a + b, "sub": lambda m, a, b: a - b, "mul": lambda m, a, b: a * b, "div": lambda m, a, b: a / b,
    "floor_divide": lambda m, a, b: a // b, "pow": lambda m, a, b: m.power(a, b), "minimum": lambda m, a, b: m.minimum(a, b),
    "maximum": lambda m, a, b: m.maximum(a, b), "remainder": lambda m, a, b: m.remainder(a, b),
    "eq": lambda m, a, b: a == b, "ne": lambda m, a, b: a != b, "lt": lambda m, a, b: a < b, "le": lambda m, a, b: a <= b,
    "gt": lambda m, a, b: a > b, "ge": lambda m, a, b: a >= b, "logical_and": lambda m, a, b: m.logical_and(a, b),
    "logical_or": lambda m, a, b: m.logical_or(a, b), "bitwise_and": lambda m, a, b: a & b, "bitwise_or": lambda m, a, b: a | b,
    "bitwise_xor": lambda m, a, b: a ^ b, "bitwise_left_shift": lambda m, a, b: a << b,
    "bitwise_right_shift": lambda m, a, b: a >> b, "atan2": lambda m, a, b: m.arctan2(a, b), "copysign": lambda m, a, b: m.copysign(a, b),
}


def softplus(m, x, beta, threshold):
    y = x * beta
    return m.where(y > threshold, x, (m.maximum(y, 0) + m.log1p(m.exp(-m.abs(y)))) / beta)


def clamped(m, x, low, high):
    if math.isfinite(low):
        x = m.maximum(x, int(low) if is_whole(x) else low)
    return m.minimum(x, int(high) if is_whole(x) else high) if math.isfinite(high) else x


def is_whole(x):
    return "int" in str(x.dtype)


class Ops(shared.Ops):
    """The ops in the functions of `m`, a module with NumPy's names; `dtypes` are what it calls ours."""

    TITLE = "NumPy"

    def __init__(self, m, dtypes):
        self.m, self.dtypes = m, dtypes

    def usual(self, node, args):
        op = node["op"]
        if op in UNARY:
            return UNARY[op](self.m, args[0], node)
        return BINARY[op](self.m, *args) if op in BINARY else None

    def told(self, value, node):
        return value.astype(self.dtypes[node["dtype"]])

    def op_gelu(self, node, x):
        return 0.5 * x * (1 + self.op_erf(node, x * 0.7071067811865476))

    def op_erf(self, node, x):
        return numpy.asarray(numpy.frompyfunc(math.erf, 1, 1)(x), dtype=numpy.float64)

    def op_cast(self, node, x):
        return x != 0 if node["dtype"] == "bool" else x

    def op_where(self, node, c, a, b):
        return self.m.where(c, a, b)

    def reduced(self, name, node, x, **more):
        axes = tuple(node.get("axes", []))
        return getattr(self.m, name)(x, axis=axes, keepdims=bool(node.get("keepdim")), **more) if axes else x

    def op_sum(self, node, x):
        return self.reduced("sum", node, x, dtype=self.dtypes[node["dtype"]])

    def op_prod(self, node, x):
        return self.reduced("prod", node, x, dtype=self.dtypes[node["dtype"]])

    def op_mean(self, node, x):
        return self.reduced("mean", node, x)

    def op_amax(self, node, x):
        return self.reduced("max", node, x)

    def op_amin(self, node, x):
        return self.reduced("min", node, x)

    def op_argmax(self, node, x):
        return self.m.argmax(x, axis=node["axes"][0], keepdims=bool(node.get("keepdim")))

    def op_argmin(self, node, x):
        return self.m.argmin(x, axis=node["axes"][0], keepdims=bool(node.get("keepdim")))

    def op_cumsum(self, node, x):
        return self.m.cumsum(x, axis=node["dim"], dtype=self.dtypes[node["dtype"]])

    def op_cumprod(self, node, x):
        return self.m.cumprod(x, axis=node["dim"], dtype=self.dtypes[node["dtype"]])

    def op_rank(self, node, x):
        """Sorted, and the order sorted again: equals in their order, NaN the largest."""
        dim, sort = node["dim"], self.order
        if not node.get("start"):
            return sort(sort(x, dim), dim)
        behind = sort(self.m.flip(x, dim), dim)  # of the line from behind, so that from behind again equals are in their order
        return sort(x.shape[dim] - 1 - self.m.flip(behind, dim), dim)

    def order(self, x, dim):
        return self.m.argsort(x, axis=dim, kind="stable")

    def op_matmul(self, node, a, b):
        return self.m.matmul(a, b)

    def op_view(self, node, x):
        return self.m.reshape(x, tuple(node["shape"]))

    def op_permute(self, node, x):
        return self.m.transpose(x, tuple(node["axes"]))

    def op_slice(self, node, x):
        return x[(slice(None),) * node["dim"] + (slice(node["start"], node["stop"], node.get("step", 1)),)]

    def op_expand(self, node, x):
        return self.m.broadcast_to(x, tuple(node["shape"]))

    def op_flip(self, node, x):
        return self.m.flip(x, tuple(node["axes"]))

    def op_unfold(self, node, x):
        dim, size, step = node["dim"], node["stop"], node.get("step", 1)
        at = numpy.arange(node["shape"][dim])[:, None] * step + numpy.arange(size)[None, :]
        return self.m.moveaxis(self.m.take(x, at, axis=dim), dim + 1, -1)

    def op_pad(self, node, x):
        return self.m.pad(x, list(zip(node["before"], node["after"])), constant_values=self.filler(node))

    @staticmethod
    def filler(node):
        value = number(node, "value")
        return value if node["dtype"] in FLOATS else int(value)

    def op_cat(self, node, *xs):
        return self.m.concatenate(xs, axis=node["dim"])

    def op_stack(self, node, *xs):
        return self.m.stack(xs, axis=node["dim"])

    def op_embedding(self, node, table, index):
        inside = (index >= 0) & (index < table.shape[0])
        rows = table[self.m.where(inside, index, 0)]
        return self.m.where(inside.reshape(inside.shape + (1,) * (rows.ndim - inside.ndim)), rows, 0)

    def op_index_add(self, node, values, index):
        out = numpy.zeros(node["shape"], dtype=values.dtype)
        numpy.add.at(out, index.reshape(-1), values.reshape([-1] + node["shape"][1:]))
        return out

    def step(self, t):
        return numpy.asarray(t, dtype=numpy.int64)

    def item(self, x, t):
        return x[t]

    def stack(self, values):
        return self.m.stack(values)


# ---- the answer in double -----------------------------------------------------------------------------------------------

WIDE = {name: numpy.float64 if name in FLOATS else dtype for name, dtype in DTYPES.items()}


def reference(graph, seed, files):
    """The values that leave the graph, op by op in double. What was computed last is kept beside the graph."""
    kept = graph.setdefault("fusebox_reference", {})
    if seed not in kept:
        analysis = Analysis(graph)
        values = {n["id"]: source(Arrays, n, seed, files).astype(WIDE[n["dtype"]]) for n in analysis.sources()}
        with numpy.errstate(all="ignore"):
            answer = Walk(analysis, Ops(numpy, WIDE)).run(values)
        kept.clear()
        kept[seed] = answer
    return kept[seed]


class MovingOps(Ops):
    """Every double that is computed comes out a little larger or smaller, each by its own draw; `largest` of them all."""

    def __init__(self, by=MOVED, draw=7, zero=0.0):
        super().__init__(numpy, WIDE)
        self.by, self.draws, self.zero, self.largest = by, numpy.random.default_rng(draw), zero, 0.0

    def moved(self, value, by=None):
        value = numpy.asarray(value)
        if value.dtype == numpy.float64:
            self.largest = max(self.largest, float(abs(value[numpy.isfinite(value)]).max(initial=0)))
            draws = self.draws.uniform(-1, 1, value.shape)
            value = value * (1 + (by or self.by) * draws) + self.zero * draws
        return value

    def node(self, node, args):
        out = super().node(node, args)
        return out if node["op"] in VIEWS else self.moved(out)


def moved(graph, seed, files, k):
    """How far result k goes where all that it is made of goes by so many times itself, and the largest value on the way."""
    analysis, ops = Analysis(graph), MovingOps()
    values = {n["id"]: ops.moved(source(Arrays, n, seed, files).astype(WIDE[n["dtype"]])) for n in analysis.sources()}
    with numpy.errstate(all="ignore"):
        off = abs(Walk(analysis, ops).run(values)[k] - reference(graph, seed, files)[k])
    return float(off[numpy.isfinite(off)].max(initial=0)) / MOVED, ops.largest


def turned(graph, seed, files, k, differ):
    """Elements of an integer result that a decision between values makes another, where these go by what roundings do."""
    analysis, want, (by, least, zero) = Analysis(graph), reference(graph, seed, files)[k], rounded_of(graph)
    turns = numpy.zeros(want.shape, bool)
    for draw, sign in TURNS:
        if not (differ & ~turns).any():
            break
        ops = MovingOps(sign * by, draw, sign * zero)
        values = {n["id"]: ops.moved(source(Arrays, n, seed, files).astype(WIDE[n["dtype"]]), sign * least) for n in analysis.sources()}
        with numpy.errstate(all="ignore"):
            turns |= numpy.asarray(Walk(analysis, ops).run(values)[k]) != want
    return turns


def apart(got, want):
    """(the largest difference, the largest value), (where, what it is, what it should be)."""
    got, want = got.astype(numpy.float64).reshape(-1), want.astype(numpy.float64).reshape(-1)
    with numpy.errstate(all="ignore"):
        off = abs(got - want)
        off = numpy.where((got == want) | (numpy.isnan(got) & numpy.isnan(want)), 0, off)
    off = numpy.where(numpy.isnan(off), math.inf, off)
    at = int(off.argmax())
    finite = want[numpy.isfinite(want)]
    return (float(off[at]), float(abs(finite).max()) if finite.size else 0.0), (at, float(got[at]), float(want[at]))


class ArrayCase(Case):
    """A case that is a function of arrays. A worker adds `make` (self.call from self.analysis), `place` (an array there),
    `fetch` (a NumPy array of what a run left), `wait` and the scopes it has in `scope_call`."""

    scope_call = None
    KEPT_SEEDS = 3

    def build(self):
        self.analysis = Analysis(self.graph, self.scope_call)
        self.inputs = [n for n in self.analysis.sources() if n["op"] not in ("const", "iota")]
        nodes = self.graph["nodes"]
        self.received = [k for k, i in enumerate(self.analysis.results) if nodes[i]["op"] == "receive"]
        self.fed = [i for i, n in enumerate(self.inputs) if n["op"] == "feed"]
        self.load(self.seeds[0])
        start = time.perf_counter()
        self.make()
        self.run()
        self.wait()
        if not self.plan.startswith("eager"):
            self.compile_ms = (time.perf_counter() - start) * 1e3

    def constants(self):
        """Of the graph itself: literals and counted indices, as NumPy has them."""
        return {n["id"]: source(Arrays, n, 0, {}) for n in self.analysis.sources() if n["op"] in ("const", "iota")}

    def use(self, seed):
        if seed not in self.images:
            host = [source(Arrays, n, seed, self.files) for n in self.inputs]
            while len(self.images) >= self.KEPT_SEEDS:
                self.images.pop(next(iter(self.images)))
            self.images[seed] = host, [self.place(x, n["dtype"]) for x, n in zip(host, self.inputs)]
        self.host, self.arguments = self.images[seed]

    def run(self):
        """What is fed is copied there by every run, and what is received back."""
        for i in self.fed:
            self.arguments[i] = self.place(self.host[i], self.inputs[i]["dtype"])
        self.result = self.call(self.arguments)
        for k in self.received:
            self.fetch(self.result[k])

    def verify(self):
        self.run()
        self.wait()
        allowed, nodes = allowed_of(self.graph), self.graph["nodes"]
        answers = reference(self.graph, self.seed, self.files)
        for k, (i, got, want) in enumerate(zip(self.analysis.results, self.result, answers)):
            got = self.fetch(got)
            if list(got.shape) != nodes[i]["shape"]:
                raise Refused("system", f"{nodes[i]['name']}: {self.FRAMEWORK} made {list(got.shape)} of it, not {nodes[i]['shape']}")
            if got.size and nodes[i]["dtype"] not in ALLOWED:
                differ = got != want
                turns = turned(self.graph, self.seed, self.files, k, differ)
                self.leave_open(int((turns & differ).sum()))
                got = numpy.where(turns, want, got)
            if got.size:
                self.compare(nodes[i], list(got.shape), *apart(got, want), allowed,
                             functools.partial(moved, self.graph, self.seed, self.files, k))

    def report(self, brief=False):
        r = super().report(brief)
        if self.error["ok"] and (self.fed or self.received):
            out = sum(math.prod(n["shape"]) * SIZES[n["dtype"]] for n in
                      (self.graph["nodes"][self.analysis.results[k]] for k in self.received))
            r.update(copies="in order", bytes={"copied": {"in": sum(self.host[i].size * SIZES[self.inputs[i]["dtype"]]
                                                                    for i in self.fed), "out": out}})
        return r


SIZES = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8, "i32": 4, "i64": 8, "bool": 1}
