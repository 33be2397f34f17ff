#!/usr/bin/env python3
"""JAX as a device of fusebox, `jax`: on the first GPU or TPU that JAX finds, else on the CPU.

    fusebox run SCRIPT split_stack:jit@jax split_stack:max --worker jax

Its plans:

    eager    each op dispatched by itself; a loop is still one lax.scan, which JAX compiles
    jit      the whole graph under jax.jit; its kernels are the instructions of XLA's program after fusion

An op scope is JAX's own call where it has one (jax.nn.softmax, jax.nn.dot_product_attention, lax.conv_general_dilated, …).
Needs JAX; without it the device is listed with what is missing."""
import collections
import re
import sys

import fusebox_worker as shared
from fusebox_worker import Lock, Walk

MISSING = None
try:
    import jax
    import numpy
    from jax import lax
    from jax import numpy as jnp

    import fusebox_arrays as arrays
    jax.config.update("jax_enable_x64", True)
    DEVICE = jax.devices()[0]
except (ImportError, RuntimeError) as e:
    MISSING = f"JAX is not installed for {sys.executable or 'this python3'} ({e})" if isinstance(e, ImportError) else \
        f"JAX finds no device: {e}"

if MISSING:
    Base, BaseCase = object, shared.Case
else:
    Base, BaseCase = arrays.Ops, arrays.ArrayCase
    DTYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "f64": jnp.float64, "i32": jnp.int32,
              "i64": jnp.int64, "bool": jnp.bool_}


class Ops(Base):
    """What JAX has beside NumPy's functions."""

    TITLE = "JAX"

    def op_rsqrt(self, node, x):
        return lax.rsqrt(x)

    def op_sigmoid(self, node, x):
        return jax.nn.sigmoid(x)

    def op_erf(self, node, x):
        return lax.erf(x)

    def op_erfinv(self, node, x):
        return lax.erf_inv(x)

    def op_lgamma(self, node, x):
        return lax.lgamma(x)

    def op_digamma(self, node, x):
        return lax.digamma(x)

    def op_gelu(self, node, x):
        return jax.nn.gelu(x, approximate=False)

    def op_relu(self, node, x):
        return jax.nn.relu(x)

    def op_softplus(self, node, x):
        beta, threshold = shared.number(node, "value"), shared.number(node, "high")
        return jnp.where(x * beta > threshold, x, jax.nn.softplus(x * beta) / beta)

    def op_matmul(self, node, a, b):
        fast = node.get("precision") == "tf32"
        return jnp.matmul(a, b, precision=lax.Precision.DEFAULT if fast else lax.Precision.HIGHEST)

    def op_index_add(self, node, values, index):
        out = jnp.zeros(node["shape"], values.dtype)
        return out.at[index.reshape(-1)].add(values.reshape([-1] + node["shape"][1:]))

    def order(self, x, dim):
        return jnp.argsort(x, axis=dim, stable=True)

    def step(self, t):
        return jnp.asarray(t, dtype=jnp.int64)

    def loop(self, walk, node, values):
        body, names, _, every, _, assigns = walk.loop_parts(node)
        args, turned = node.get("args", []), body.get("backwards", False)
        scanned = [values[a] for a in args[len(names):]]

        def step(state, x):
            carried, made, assigned = walk.body(node, values, x[0], state[0], x[1], state[1])
            return (carried, assigned), made

        start = [values[a] for a in args[:len(names)]], [values[p] for p, _ in assigns]
        items = [jnp.flip(s, 0) if turned else s for s in scanned]
        (carried, assigned), made = lax.scan(step, start, (jnp.arange(body["trips"], dtype=jnp.int64), items))
        values.update({a: v for (_, a), v in zip(assigns, assigned)})
        made = [m[e - 1::e] if e > 1 else m for m, e in zip(made, every)]
        return carried + [jnp.flip(m, 0) if turned else m for m in made]

    def call(self, call, args):
        return [call.what(*args)]


# ---- op scopes that JAX has a call for ----------------------------------------------------------------------------------


def attention(a, args):
    """Its own has heads behind the sequence: [B, T, N, H]."""
    def laid(x):
        return jnp.swapaxes(x, -2, -3)

    def call(q, k, v, mask=None):
        if mask is not None:
            mask = jnp.broadcast_to(mask, q.shape[:-2] + mask.shape[-2:])
        bias = mask if mask is None or mask.dtype != bool else None
        return laid(jax.nn.dot_product_attention(laid(q), laid(k), laid(v), bias=bias, mask=mask if bias is None else None,
                                                 scale=a.get("scale")))
    return call


def convolution(a, args):
    def call(x, w, b=None):
        rank = x.ndim - 2
        y = lax.conv_general_dilated(x, w, a["stride"], list(zip(a["before"], a["after"])), rhs_dilation=a["dilation"],
                                     feature_group_count=a["groups"], precision=lax.Precision.HIGHEST)
        return y if b is None else y + b.reshape((1, -1) + (1,) * rank)
    return call


def max_pool(a, args):
    def call(x):
        batch = (1,) * (x.ndim - len(a["kernel"]))
        pads = [(0, 0)] * len(batch) + [(p, p) for p in a["padding"]]
        return lax.reduce_window(x, -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min, lax.max,
                                 batch + tuple(a["kernel"]), batch + tuple(a["stride"]), pads,
                                 window_dilation=batch + tuple(a["dilation"]))
    return call


def scope_call(scope, args):
    a, op = scope.get("attrs") or {}, scope["op"]
    if op == "softmax":
        return lambda x: jax.nn.softmax(x, a.get("dim", -1))
    if op == "log_softmax":
        return lambda x: jax.nn.log_softmax(x, a.get("dim", -1))
    if op == "silu":
        return jax.nn.silu
    if op == "scaled_dot_product_attention":
        return attention(a, args)
    if op in ("conv1d", "conv2d", "conv3d") and "before" in a:
        return convolution(a, args)
    return max_pool(a, args) if op.startswith("max_pool") and "dilation" in a else None


# ---- measuring ----------------------------------------------------------------------------------------------------------

NO_WORK = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id"}


def computations(text):
    """XLA's program: computation → its instructions as (name, opcode, line), and the name of its entry."""
    found, entry, inside = collections.defaultdict(list), None, None
    for line in text.splitlines():
        if head := re.match(r"(ENTRY )?%?([\w.\-]+) .*\{$", line):
            inside = head[2]
            entry = inside if head[1] else entry
        elif inside and (made := re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (?:\([^=]*\)|\S+) ([\w\-]+)\(", line)):
            found[inside].append((made[1], made[2], line))
    return found, entry


def kernels_of(text):
    """What XLA launches: the instructions of its entry that do work, those of a loop's body as often as it turns."""
    found, entry = computations(text)
    out = []

    def visit(name, times):
        for made, opcode, line in found[name]:
            inner = re.search(r"(?:body|to_apply)=%?([\w.\-]+)", line)
            if opcode == "while" and inner:
                trips = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
                visit(inner[1], times * (int(trips[1]) if trips else 1))
            elif opcode == "call" and inner:
                visit(inner[1], times)
            elif opcode not in NO_WORK:
                library = opcode in ("custom-call", "dot", "convolution")
                out.append({"name": made[:240], "family": "library" if library else "compiled", "nodes": [], "count": times})
    visit(entry, 1)
    return out


class JaxCase(BaseCase):
    FRAMEWORK, DEVICE, PLANS = "JAX", "jax", ("eager", "jit")

    @staticmethod
    def scope_call(scope, args):
        return scope_call(scope, args)

    def place(self, x, dtype):
        return jax.device_put(jnp.asarray(x, dtype=DTYPES[dtype]), DEVICE)

    def fetch(self, value):
        return numpy.asarray(value.astype(jnp.float32) if value.dtype == jnp.bfloat16 else value)

    def make(self):
        walk, ids = Walk(self.analysis, Ops(jnp, DTYPES)), [n["id"] for n in self.inputs]
        dtypes = {n["id"]: DTYPES[n["dtype"]] for n in self.graph["nodes"]}
        constants = {i: jnp.asarray(x, dtype=dtypes[i]) for i, x in self.constants().items()}

        def model(*values):
            return walk.run({**constants, **dict(zip(ids, values))})
        self.compiled = jax.jit(model).lower(*self.arguments).compile() if self.plan == "jit" else None
        called = self.compiled or model
        self.call = lambda arguments: called(*arguments)

    def wait(self):
        jax.block_until_ready(getattr(self, "result", None))

    def profile(self):
        if self.compiled:
            self.kernels = kernels_of(self.compiled.as_text())
            self.launches = sum(k["count"] for k in self.kernels)

    def flush(self):
        global FLUSH
        FLUSH = jax.block_until_ready((jnp.zeros(64 << 20, jnp.int32) if FLUSH is None else FLUSH) + 1)


FLUSH = None


class Framework(shared.Framework):
    device, title, case = "jax", "JAX", JaxCase

    def name(self):
        kind = DEVICE.device_kind if DEVICE.platform != "cpu" else "the CPU"
        return f"JAX {jax.__version__} on {kind}"

    def doing(self, plan):
        return f"JAX: {'running' if plan == 'eager' else 'compiling'} {plan}"

    def is_full(self, error):
        return "RESOURCE_EXHAUSTED" in str(error)


if __name__ == "__main__":
    Framework.missing = MISSING
    Framework.lock = Lock("cuda:0" if not MISSING and DEVICE.platform == "gpu" else "host")
    shared.main(Framework())
