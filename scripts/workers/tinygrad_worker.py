#!/usr/bin/env python3
"""tinygrad as a device of fusebox, `tinygrad`: on the device that tinygrad takes by itself (its DEV names another).

    fusebox run SCRIPT split_stack:jit@tinygrad split_stack:max --worker tinygrad

Its plans:

    lazy    the graph is built, scheduled and run every time, as tinygrad does without a word
    jit     the same under TinyJit: scheduled once, its kernels launched again

tinygrad has no loops: the steps of one are written out, up to a limit. An op scope is tinygrad's own method where it has one.
Needs tinygrad and numpy; without them the device is listed with what is missing."""
import math
import os
import sys

import fusebox_worker as shared
from fusebox_worker import FLOATS, SOURCES, VIEWS, Lock, Refused, Walk, number

MISSING = None
os.environ.pop("PYTHON", None)  # to tinygrad it is a device; to whoever starts us maybe an interpreter
try:
    import numpy
    import tinygrad
    from tinygrad import Device, GlobalCounters, Tensor, TinyJit, dtypes

    import fusebox_arrays as arrays
    DTYPES = {"f32": dtypes.float32, "f16": dtypes.float16, "bf16": dtypes.bfloat16, "f64": dtypes.float64,
              "i32": dtypes.int32, "i64": dtypes.int64, "bool": dtypes.bool}
    DEVICE = Device[Device.DEFAULT]
except ImportError as e:
    MISSING = f"tinygrad is not installed for {sys.executable or 'this python3'} ({e})"
except Exception as e:  # it has no error of its own for a device that does not open
    MISSING = f"tinygrad finds no device: {type(e).__name__}: {e}"

BaseCase = shared.Case if MISSING else arrays.ArrayCase
MOST_NODES = 6000  # of a graph with its loops written out: what tinygrad schedules within minutes

DIRECT = {op: op for op in ("neg abs sign exp exp2 log log2 sqrt rsqrt reciprocal sin cos tanh sigmoid erf relu mish floor ceil round "
                            "logical_not bitwise_not minimum maximum pow").split()}
WRITTEN = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "floor_divide": lambda a, b: a // b, "remainder": lambda a, b: a % b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "logical_and": lambda a, b: a & b, "logical_or": lambda a, b: a | b, "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b, "where": lambda c, a, b: c.where(a, b),
    "copy": lambda x: x, "log1p": lambda x: (x + 1).log(), "gelu": lambda x: 0.5 * x * (1 + (x * 0.7071067811865476).erf()),
    "receive": lambda x: x, "matmul": lambda a, b: a @ b,
}
REDUCED = {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "prod": "prod"}


class Ops(shared.Ops):
    """Each op in tinygrad's methods."""

    TITLE = "tinygrad"
    REFUSED = {op: "it shifts by numbers alone, not by tensors" for op in ("bitwise_left_shift", "bitwise_right_shift")}
    REFUSED |= {op: "it has no such function" for op in ("atan2", "copysign", "erfinv", "lgamma", "digamma")}

    def usual(self, node, args):
        op = node["op"]
        if op in DIRECT:
            return getattr(args[0], DIRECT[op])(*args[1:])
        if op in WRITTEN:
            return WRITTEN[op](*args)
        return self.reduced(node, args[0]) if op in REDUCED else None

    def told(self, value, node):
        return value.cast(DTYPES[node["dtype"]])

    @staticmethod
    def reduced(node, x):
        more = {"dtype": DTYPES[node["dtype"]]} if node["op"] in ("sum", "prod") and node["dtype"] not in FLOATS else {}
        axes = tuple(node.get("axes", []))
        return getattr(x, REDUCED[node["op"]])(axis=axes, keepdim=bool(node.get("keepdim")), **more) if axes else x

    def op_cast(self, node, x):
        return x != 0 if node["dtype"] == "bool" else x

    def op_elu(self, node, x):
        return x.elu(number(node, "value"))

    def op_softplus(self, node, x):
        beta, threshold = number(node, "value"), number(node, "high")
        soft = x.softplus(beta)
        return (x * beta > threshold).where(x, soft) if math.isfinite(threshold) else soft

    def op_clamp(self, node, x):
        ends = [number(node, key) for key in ("value", "high")]
        low, high = [(v if node["dtype"] in FLOATS else int(v)) if math.isfinite(v) else None for v in ends]
        return x if low is None and high is None else x.clamp(low, high)

    def op_argmax(self, node, x):
        return x.argmax(axis=node["axes"][0], keepdim=bool(node.get("keepdim")))

    def op_argmin(self, node, x):
        return x.argmin(axis=node["axes"][0], keepdim=bool(node.get("keepdim")))

    def op_cumsum(self, node, x):
        return x.cumsum(axis=node["dim"])

    def op_cumprod(self, node, x):
        return x.cumprod(axis=node["dim"])

    def op_rank(self, node, x):
        """How many go before, counted; its own sort has no place for NaN."""
        dim, n = node["dim"], node["shape"][node["dim"]]
        line, at = x.transpose(dim, -1), Tensor.arange(n)
        mine, other = line.unsqueeze(-1), line.unsqueeze(-2)

        def is_less(a, b):
            return (a < b) | ((b != b) & (a == a)) if dtypes.is_float(x.dtype) else a < b
        before, behind = is_less(other, mine), is_less(mine, other)
        before, behind = (behind, before) if node.get("start") else (before, behind)
        goes = before | (behind.logical_not() & (at.unsqueeze(0) < at.unsqueeze(1)))
        return goes.sum(axis=-1, dtype=dtypes.int64).transpose(dim, -1)

    def op_view(self, node, x):
        return x.reshape(tuple(node["shape"]))

    def op_permute(self, node, x):
        return x.permute(tuple(node["axes"]))

    def op_slice(self, node, x):
        return x[(slice(None),) * node["dim"] + (slice(node["start"], node["stop"], node.get("step", 1)),)]

    def op_expand(self, node, x):
        shape = tuple(node["shape"])
        return x.reshape((1,) * (len(shape) - x.ndim) + tuple(x.shape)).expand(shape)

    def op_flip(self, node, x):
        return x.flip(tuple(node["axes"]))

    def op_unfold(self, node, x):
        return x.unfold(node["dim"], node["stop"], node.get("step", 1))

    def op_pad(self, node, x):
        value = number(node, "value")
        return x.pad(tuple(zip(node["before"], node["after"])), value=value if node["dtype"] in FLOATS else int(value))

    def op_cat(self, node, *xs):
        return xs[0].cat(*xs[1:], dim=node["dim"])

    def op_stack(self, node, *xs):
        return xs[0].stack(*xs[1:], dim=node["dim"])

    def op_embedding(self, node, table, index):
        return table[index]

    def op_index_add(self, node, values, index):
        rest = node["shape"][1:]
        rows = values.reshape([-1] + rest)
        where = index.reshape([-1] + [1] * len(rest)).expand(rows.shape)
        return Tensor.zeros(*node["shape"], dtype=values.dtype).contiguous().scatter_reduce(0, where, rows, "sum")

    # -- what Walk asks of steps that are written out

    def step(self, t):
        return Tensor(t, dtype=dtypes.int64)

    def item(self, x, t):
        return x[t]

    def stack(self, values):
        return values[0].stack(*values[1:], dim=0)

    def call(self, call, args):
        return [call.what(*args)]


def scope_call(graph, scope, args):
    a, op = scope.get("attrs") or {}, scope["op"]
    if op in ("softmax", "log_softmax"):
        return lambda x: getattr(x, op)(a.get("dim", -1))
    if op == "silu":
        return lambda x: x.silu()
    if op == "linear":
        return lambda x, w, b=None: x.linear(w.T, b)
    if op == "layer_norm" and "normalized_shape" in a:
        axes = tuple(range(-len(a["normalized_shape"]), 0))

        def layer_norm(x, w=None, b=None):
            y = x.layernorm(axes, a.get("eps", 1e-5))
            y = y if w is None else y * w
            return y if b is None else y + b
        return layer_norm
    if op == "scaled_dot_product_attention":
        usual = math.isclose(a.get("scale", 0), graph["nodes"][args[0]]["shape"][-1] ** -0.5)
        return (lambda q, k, v, mask=None: q.scaled_dot_product_attention(k, v, mask)) if usual else None
    if op == "conv2d" and a.get("before", 0) == a.get("after", 1):
        return lambda x, w, b=None: x.conv2d(w, b, a["groups"], tuple(a["stride"]), tuple(a["dilation"]), tuple(a["before"]))
    return None


# ---- measuring ----------------------------------------------------------------------------------------------------------


class TinyCase(BaseCase):
    FRAMEWORK, DEVICE, PLANS = "tinygrad", "tinygrad", ("lazy", "jit")

    def scope_call(self, scope, args):
        return scope_call(self.graph, scope, args)

    def place(self, x, dtype):
        return Tensor(numpy.ascontiguousarray(x).reshape(x.shape)).cast(DTYPES[dtype]).contiguous().realize()

    def fetch(self, value):
        return value.cast(dtypes.float32).numpy() if value.dtype == dtypes.bfloat16 else value.numpy()

    def make(self):
        n = self.analysis.executed()
        if n > MOST_NODES:
            raise Refused("unavailable", f"tinygrad has no loops, and with its steps written out this graph has {n} nodes, "
                          f"more than {MOST_NODES}")
        nodes, ids = self.graph["nodes"], [n["id"] for n in self.inputs]
        walk = Walk(self.analysis, Ops())
        literals = {i: float(x) if nodes[i]["dtype"] in FLOATS else int(x) for i, x in self.constants().items() if not x.shape}
        counted = {i: self.place(x, nodes[i]["dtype"]) for i, x in self.constants().items() if x.shape}
        given = [k for k, i in enumerate(self.analysis.results) if nodes[i]["op"] in SOURCES | VIEWS]

        def model(*values):
            scalars = {i: Tensor(v, dtype=DTYPES[nodes[i]["dtype"]]) for i, v in literals.items()}
            out = walk.run({**scalars, **counted, **dict(zip(ids, values))})
            out = [x + 0 if k in given and x.dtype != dtypes.bool else x.contiguous() for k, x in enumerate(out)]
            Tensor.realize(*out)
            return out
        called = TinyJit(model) if self.plan == "jit" else model
        self.call = lambda arguments: called(*arguments)
        for _ in range(2 if self.plan == "jit" else 0):  # it watches the second call
            self.run()

    def wait(self):
        DEVICE.synchronize()

    def profile(self):
        GlobalCounters.reset()
        self.run()
        self.wait()
        self.launches = GlobalCounters.kernel_count

    def flush(self):
        FLUSH[:] += 1


class Framework(shared.Framework):
    device, title, case = "tinygrad", "tinygrad", TinyCase

    def name(self):
        version = getattr(tinygrad, "__version__", None) or VERSION
        return f"tinygrad {version} on {Device.DEFAULT}"

    def is_full(self, error):
        return isinstance(error, MemoryError)


if not MISSING:
    from importlib import metadata
    try:
        VERSION = metadata.version("tinygrad")
    except metadata.PackageNotFoundError:
        VERSION = "of a source tree"
    FLUSH = numpy.zeros(16 << 20, dtype=numpy.int32)

if __name__ == "__main__":
    on_gpu = not MISSING and Device.DEFAULT in ("CUDA", "NV", "AMD", "HIP")
    Framework.missing, Framework.lock = MISSING, Lock("cuda:0" if on_gpu else "host")
    shared.main(Framework())
