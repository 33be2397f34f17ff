"""Calls of PyTorch in fusebox's ops, for scripts/import/from_torch.py: a row each, fn(graph, arguments…) → value.

Arguments come by the schema of the call: those that a function takes by keyword under the schema's name, the others in the
schema's order. A default is passed like any other value; an argument that a function does not take must be at its default,
or the call is refused. What a call gives is compared with PyTorch's shape and dtype. Layers are in torch_layers.py, sorts
and what is put at places in torch_order.py, pictures in torch_pictures.py, complex numbers in torch_complex.py.
"""
import functools
import math
import string

from torch_graph import FLOATS, OPS, Unsupported, Value, dtype_of, floating, number, promoted, refuse

CALLS = {}


def call(*names):
    def keep(fn):
        for name in names:
            CALLS[name] = fn
        return fn
    return keep


# ---- element by element


def lowest(dtype):
    return -math.inf if dtype in FLOATS else -2**31 if dtype == "i32" else -2**63


def in_floats(g, x):
    return g.cast(x, floating(x.dtype))


def in_f32(call):
    """In 16 bits PyTorch computes these calls in f32, their numbers too, and rounds once."""
    def in_16_bits(v):
        return isinstance(v, Value) and v.dtype in ("f16", "bf16")

    @functools.wraps(call)  # whose words are looked at
    def wide(g, x, *args, **words):
        if not in_16_bits(x):
            return call(g, x, *args, **words)
        y = call(g, *(g.cast(v, "f32") if in_16_bits(v) else v for v in (x, *args)), **words)
        return [g.cast(v, x.dtype) for v in y] if isinstance(y, list) else g.cast(y, x.dtype)
    return wide


def of_floats(op, params):
    """An op of floats that is a call of PyTorch's by itself: its parameters follow the operand, in the schema's order."""
    if not params:
        return lambda g, x: g.unary(op, in_floats(g, x))
    if len(params) == 1:
        return lambda g, x, value=[*params.values()][0]: g.unary(op, in_floats(g, x), value=number(value))
    first, second = params.values()
    return lambda g, x, value=first, high=second: g.unary(op, in_floats(g, x), value=number(value), high=number(high))


for _name, (_kind, _schema, _, _params) in OPS.items():
    if _schema:
        CALLS[_schema] = of_floats(_name, _params)
for _name in ("neg", "abs", "sign", "relu"):
    CALLS[_name] = lambda g, x, _op=_name: x if x.dtype == "bool" and _op in ("sign", "abs") else g.unary(_op, x)
for _name in ("floor", "ceil"):
    CALLS[_name] = lambda g, x, _op=_name: g.unary(_op, x) if x.dtype in FLOATS else x
for _name in ("mul", "minimum", "maximum", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor"):
    CALLS[_name] = lambda g, a, b, _op=_name: g.binary(_op, a, b)
for _name in ("logical_and", "logical_or"):
    CALLS[_name] = lambda g, a, b, _op=_name: g.binary(_op, a, b, at="bool")
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    CALLS[_name] = lambda g, a, b, _op=_name: g.binary(_op, a, b, "bool")
for _name in ("and", "or", "xor"):
    CALLS[f"__{_name}__"] = CALLS[f"bitwise_{_name}"]
for _name in ("contiguous", "clone", "detach", "detach_", "alias", "lift_fresh_copy", "positive", "real", "conj", "conj_physical",
              "resolve_conj", "resolve_neg"):
    CALLS[_name] = lambda g, x: x
CALLS["logical_not"] = lambda g, x: g.unary("logical_not", g.cast(x, "bool"))
CALLS["logical_xor"] = lambda g, a, b: g.binary("ne", g.cast(a, "bool"), g.cast(b, "bool"))
CALLS["bitwise_not"] = lambda g, x: g.unary("logical_not" if x.dtype == "bool" else "bitwise_not", x)
CALLS["square"] = lambda g, x: g.binary("mul", x, x)
CALLS["log10"] = in_f32(lambda g, x: g.binary("mul", g.unary("log", in_floats(g, x)), math.log10(math.e)))


@call("round")
def _round(g, x, *, decimals=0):
    if x.dtype not in FLOATS or not decimals:
        return g.unary("round", x) if x.dtype in FLOATS else x
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    return g.binary(back, g.unary("round", g.binary(there, x, 10.0 ** abs(decimals))), 10.0 ** abs(decimals))


@call("fmax", "fmin")
def _fmax(g, a, b, *, op="maximum"):
    """The operand that is a number, where one is."""
    dtype = promoted(a, b)
    a, b = g.value(a, dtype), g.value(b, dtype)
    y = g.binary(op, a, b)
    if dtype not in FLOATS:
        return y
    return g.where(g.binary("ne", a, a, "bool"), b, g.where(g.binary("ne", b, b, "bool"), a, y, dtype), dtype)


CALLS["fmin"] = lambda g, a, b: _fmax(g, a, b, op="minimum")


@call("expm1")
def _expm1(g, x):
    """tanh(x / 2) (exp(x) + 1), which keeps its digits beside 0."""
    x = in_floats(g, x)
    return g.binary("mul", g.unary("tanh", g.binary("mul", x, 0.5)), g.binary("add", g.unary("exp", x), 1))


@call("cosh")
def _cosh(g, x):
    x = in_floats(g, x)
    return g.binary("mul", g.binary("add", g.unary("exp", x), g.unary("exp", g.unary("neg", x))), 0.5)


@call("hypot")
def _hypot(g, a, b):
    a, b = (g.unary("abs", g.value(v, floating(promoted(a, b)))) for v in (a, b))
    most, least = g.binary("maximum", a, b), g.binary("minimum", a, b)
    share = g.where(g.binary("eq", most, 0, "bool"), 0, g.binary("div", least, most), most.dtype)
    y = g.binary("mul", most, g.unary("sqrt", g.binary("add", g.binary("mul", share, share), 1)))
    return g.where(g.binary("eq", most, math.inf, "bool"), most, y, most.dtype)


CALLS["erfc"] = lambda g, x: g.binary("sub", 1, g.unary("erf", in_floats(g, x)))
CALLS["sinh"] = lambda g, x: g.binary("mul", g.unary("tanh", in_floats(g, x)), _cosh(g, x))


@call("atanh")
def _atanh(g, x):
    x = in_floats(g, x)
    return g.binary("mul", g.unary("log1p", g.binary("div", g.binary("mul", x, 2), g.binary("sub", 1, x))), 0.5)


@call("asinh")
def _asinh(g, x):
    """ln(a + sqrt(a² + 1)), a = |x|, beside 0 and beyond the square root of all numbers, with the sign of x."""
    x = in_floats(g, x)
    a = g.unary("abs", x)
    near = g.unary("clamp", a, value=0, high=1e4)
    square = g.binary("mul", near, near)
    y = g.unary("log1p", g.binary("add", near, g.binary("div", square, g.binary("add", g.unary("sqrt", g.binary("add", square, 1)), 1))))
    far = g.binary("add", g.unary("log", a), math.log(2))
    return g.binary("mul", g.unary("sign", x), g.where(g.binary("gt", a, 1e4, "bool"), far, y, x.dtype))


@call("acosh")
def _acosh(g, x):
    """ln(x + sqrt(x² - 1)), as 1 + what x is above 1."""
    x = in_floats(g, x)
    above = g.binary("sub", x, 1)
    near = g.binary("minimum", above, 1e4)
    y = g.unary("log1p", g.binary("add", near, g.unary("sqrt", g.binary("mul", near, g.binary("add", near, 2)))))
    return g.where(g.binary("gt", above, 1e4, "bool"), g.binary("add", g.unary("log", x), math.log(2)), y, x.dtype)


def of_both(op):
    """An op of two floats, which PyTorch takes whole numbers for, too."""
    def fn(g, a, b):
        dtype = floating(promoted(a, b))
        return g.binary(op, g.value(a, dtype), g.value(b, dtype))
    return fn


CALLS["atan2"], CALLS["copysign"] = of_both("atan2"), of_both("copysign")
CALLS["atan"] = lambda g, x: CALLS["atan2"](g, in_floats(g, x), 1)
CALLS["signbit"] = lambda g, x: g.binary("lt", CALLS["copysign"](g, 1, x) if x.dtype in FLOATS else x, 0, "bool")


def beside_unit(g, x):
    """sqrt(1 - x²), which keeps its digits where x is nearly 1."""
    return g.unary("sqrt", g.binary("mul", g.binary("sub", 1, x), g.binary("add", x, 1)))


@call("asin")
def _asin(g, x):
    x = in_floats(g, x)
    return g.binary("atan2", x, beside_unit(g, x))


@call("acos")
def _acos(g, x):
    x = in_floats(g, x)
    return g.binary("atan2", beside_unit(g, x), x)


@call("angle")
@in_f32
def _angle(g, x):
    """Of real numbers: that of the negative ones is half a turn."""
    x = in_floats(g, x)
    return g.where(g.binary("ne", x, x, "bool"), x, g.where(g.binary("lt", x, 0, "bool"), math.pi, 0, x.dtype), x.dtype)


@call("polygamma", "special_polygamma")
def _polygamma(g, n, x):
    return g.unary("digamma", in_floats(g, x)) if n == 0 else refuse(f"polygamma of order {n}")


@call("mvlgamma", "special_multigammaln")
def _mvlgamma(g, x, p):
    x, y = in_floats(g, x), None
    for k in range(p):
        part = g.unary("lgamma", g.binary("sub", x, 0.5 * k) if k else x)
        y = part if y is None else g.binary("add", y, part)
    return g.binary("add", y, p * (p - 1) / 4 * math.log(math.pi))


CALLS["special_ndtri"] = lambda g, x: g.binary("mul", g.unary("erfinv", g.binary("sub", g.binary("mul", in_floats(g, x), 2), 1)), math.sqrt(2))
CALLS["ldexp"] = lambda g, x, by: g.binary("mul", x, g.unary("exp2", in_floats(g, by)))
CALLS["dist"] = lambda g, a, b, p=2: _norm(g, g.binary("sub", a, b), p)


def shifted(g, x, by, op):
    if not isinstance(by, int) or not 0 <= by < (31 if x.dtype == "i32" else 53):
        raise Unsupported(f"a shift by {by if isinstance(by, int) else 'a tensor'}")
    return g.binary("mul", x, 1 << by) if op == "left" else _div(g, x, 1 << by, rounding_mode="floor")


CALLS["__lshift__"] = CALLS["bitwise_left_shift"] = lambda g, x, by: shifted(g, x, by, "left")
CALLS["__rshift__"] = CALLS["bitwise_right_shift"] = lambda g, x, by: shifted(g, x, by, "right")
CALLS["tan"] = lambda g, x: g.binary("div", CALLS["sin"](g, x), CALLS["cos"](g, x))
CALLS["where"] = lambda g, c, a, b: g.where(c, a, b)
CALLS["masked_fill"] = lambda g, x, mask, value: g.where(mask, value, x, x.dtype)
CALLS["isnan"] = lambda g, x: g.binary("ne", x, x, "bool")
CALLS["isinf"] = lambda g, x: g.binary("eq", g.unary("abs", x), math.inf, "bool")
CALLS["lerp"] = in_f32(lambda g, a, b, w: g.binary("add", a, g.binary("mul", g.binary("sub", b, a), w)))


@call("add", "sub")
def _add(g, a, b, alpha=1, *, op="add"):
    dtype = promoted(a, b)
    if alpha != 1:
        b = g.binary("mul", g.value(b, dtype), alpha, at=dtype)
    return g.binary(op, a, b, at=dtype)


CALLS["sub"] = lambda g, a, b, alpha=1: _add(g, a, b, alpha, op="sub")
CALLS["rsub"] = lambda g, a, b, alpha=1: _add(g, g.value(b, promoted(a, b)), a, alpha, op="sub")


@call("addcmul", "addcdiv")
@in_f32
def _addcmul(g, x, a, b, value=1, *, op="mul"):
    return g.binary("add", x, g.binary("mul", CALLS[op](g, a, b), value) if value != 1 else CALLS[op](g, a, b))


CALLS["addcdiv"] = lambda g, x, a, b, value=1: _addcmul(g, x, a, b, value, op="div")


@call("div", "true_divide")
def _div(g, a, b, *, rounding_mode=None):
    dtype = promoted(a, b)
    if rounding_mode is None:
        return g.binary("div", a, b, at=floating(dtype))
    if dtype not in FLOATS:
        if rounding_mode == "floor":
            return g.binary("floor_divide", a, b)
        a, b = g.value(a, dtype), g.value(b, dtype)
        whole = g.binary("floor_divide", g.unary("abs", a), g.unary("abs", b))
        return g.binary("mul", whole, g.binary("mul", g.unary("sign", a), g.unary("sign", b)))
    exact = g.binary("div", a, b)
    if rounding_mode == "trunc":
        return _trunc(g, exact)
    whole = g.unary("round", g.binary("div", g.binary("sub", a, g.binary("remainder", a, b)), b))
    return g.where(g.binary("eq", b, 0, "bool"), exact, whole) if isinstance(b, Value) else whole


CALLS["floor_divide"] = lambda g, a, b: _div(g, a, b, rounding_mode="floor")


@call("trunc", "fix")
def _trunc(g, x):
    return g.where(g.binary("lt", x, 0, "bool"), g.unary("ceil", x), g.unary("floor", x)) if x.dtype in FLOATS else x


CALLS["frac"] = lambda g, x: g.binary("sub", x, _trunc(g, x))


@call("fmod")
def _fmod(g, a, b):
    dtype = promoted(a, b)
    a, b = g.value(a, dtype), g.value(b, dtype)
    rest = g.binary("remainder", g.unary("abs", a), g.unary("abs", b))
    return g.where(g.binary("lt", a, 0, "bool"), g.unary("neg", rest), rest)


@call("pow")
def _pow(g, a, b):
    dtype = promoted(a, b)
    if dtype in FLOATS:
        return g.binary("pow", a, b)
    if not isinstance(b, int) or b < 0 or dtype == "bool":
        raise Unsupported(f"a power in {dtype} whose exponent is no number")
    out, square = None, g.cast(a, dtype)
    while b:
        if b & 1:
            out = square if out is None else g.binary("mul", out, square)
        b >>= 1
        square = g.binary("mul", square, square) if b else square
    return out or g.expand(g.const(1, dtype), a.shape)


@call("clamp", "clip")
def _clamp(g, x, low=None, high=None):
    bounds = [v for v in (low, high) if v is not None]
    dtype = promoted(x, *bounds)
    if any(isinstance(v, Value) for v in bounds):
        x = g.binary("maximum", x, low, at=dtype) if low is not None else x
        return g.binary("minimum", x, high, at=dtype) if high is not None else x
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    return g.unary("clamp", g.cast(x, dtype), value=number(min(low, high)), high=number(high))


CALLS["clamp_min"] = lambda g, x, low: _clamp(g, x, low)
CALLS["clamp_max"] = lambda g, x, high: _clamp(g, x, None, high)


@call("to", "_to_copy", "type_as")
def _to(g, x, *, dtype=None, other=None):
    if isinstance(other, Value):
        return g.cast(x, other.dtype)
    return x if dtype is None else g.cast(x, dtype_of(dtype))


# ---- reductions


def wide(g, x, dtype):
    """What sums and products add up: in the dtype that is asked for, integers and truth values in int64."""
    return g.cast(x, dtype_of(dtype) if dtype is not None else x.dtype if x.dtype in FLOATS else "i64")


for _name in ("sum", "prod"):
    CALLS[_name] = lambda g, x, *, dim=None, keepdim=False, dtype=None, _op=_name: g.reduce(_op, wide(g, x, dtype), dim, keepdim)
CALLS["mean"] = lambda g, x, *, dim=None, keepdim=False, dtype=None: g.reduce(
    "mean", x if dtype is None else g.cast(x, dtype_of(dtype)), dim, keepdim)
for _name in ("cumsum", "cumprod"):
    CALLS[_name] = lambda g, x, dim, dtype=None, _op=_name: g.unary(_op, wide(g, x, dtype), dim=dim % len(x.shape)) if x.shape else wide(
        g, x, dtype)
CALLS["any"] = lambda g, x, *, dim=None, keepdim=False: truth(g, x, dim, keepdim, "amax")
CALLS["all"] = lambda g, x, *, dim=None, keepdim=False: truth(g, x, dim, keepdim, "amin")


def truth(g, x, dim, keepdim, op):
    return g.cast(g.reduce(op, g.cast(g.cast(x, "bool"), "i32"), dim, keepdim), "bool")


for _name in ("amax", "amin"):
    CALLS[_name] = lambda g, x, dim=None, keepdim=False, _op=_name: truth(g, x, dim, keepdim, _op) if x.dtype == "bool" else g.reduce(
        _op, x, dim, keepdim)


@call("argmax", "argmin")
def _argmax(g, x, dim=None, keepdim=False, *, op="argmax"):
    if dim is not None:
        return g.reduce(op, x, dim, keepdim)
    y = g.reduce(op, g.view(x, [math.prod(x.shape)]), 0, False)
    return g.view(y, [1] * len(x.shape)) if keepdim else y


CALLS["argmin"] = lambda g, x, dim=None, keepdim=False: _argmax(g, x, dim, keepdim, op="argmin")


@call("max", "min")
def _max(g, x, *, other=None, dim=None, keepdim=False, op="max"):
    """Of all elements; of two tensors; or along a dimension, with where it was."""
    if other is not None:
        return g.binary(op + "imum", x, other)
    if dim is None:
        return CALLS["a" + op](g, x)
    return [CALLS["a" + op](g, x, dim, keepdim), g.reduce("arg" + op, g.cast(x, "i32") if x.dtype == "bool" else x, dim, keepdim)]


CALLS["min"] = lambda g, x, *, other=None, dim=None, keepdim=False: _max(g, x, other=other, dim=dim, keepdim=keepdim, op="min")


@call("logsumexp")
def _logsumexp(g, x, dim, keepdim=False):
    x = in_floats(g, x)
    most = g.reduce("amax", x, dim, True)
    most = g.where(CALLS["isinf"](g, most), 0, most, x.dtype)
    y = g.binary("add", g.unary("log", g.reduce("sum", g.unary("exp", g.binary("sub", x, most)), dim, True)), most)
    return y if keepdim else g.view(y, g.reduced_shape(x, dim))


@call("linalg_vector_norm", "norm")
def _norm(g, x, p=2, *, dim=None, keepdim=False, dtype=None):
    p = 2 if p is None else p
    x = g.cast(x, dtype_of(dtype)) if dtype is not None else x
    if p == 0:
        return g.reduce("sum", g.cast(g.cast(x, "bool"), x.dtype), dim, keepdim)
    if math.isinf(p):
        return g.reduce("amax" if p > 0 else "amin", g.unary("abs", x), dim, keepdim)
    if p == 2:
        return g.unary("sqrt", g.reduce("sum", g.binary("mul", x, x), dim, keepdim))
    x = g.unary("abs", x)
    return g.reduce("sum", x, dim, keepdim) if p == 1 else of_powers(g, x, p, dim, keepdim)


@in_f32
def of_powers(g, x, p, dim, keepdim):
    return g.binary("pow", g.reduce("sum", g.binary("pow", x, p), dim, keepdim), 1 / p)


@call("cdist")
def _cdist(g, a, b, p=2, compute_mode=None):
    rows, columns = (g.view(v, v.shape[:-2] + at) for v, at in ((a, [a.shape[-2], 1, a.shape[-1]]), (b, [1] + b.shape[-2:])))
    return _norm(g, g.binary("sub", rows, columns), p, dim=-1)


@call("var", "std")
@in_f32
def _spread(g, x, *, dim=None, unbiased=True, correction=1, keepdim=False, root=False):
    dims = list(range(len(x.shape))) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    less = (1 if correction is None else correction) if unbiased else 0
    n = math.prod(x.shape[d] for d in dims) - less
    if n <= 0:
        raise Unsupported(f"a variance of {n + less} elements with {less} taken off")
    centred = g.binary("sub", x, g.reduce("mean", x, dims, True))
    y = g.binary("mul", g.reduce("sum", g.binary("mul", centred, centred), dims, keepdim), 1 / n)
    return g.unary("sqrt", y) if root else y


CALLS["std"] = lambda g, x, *, dim=None, unbiased=True, correction=1, keepdim=False: _spread(
    g, x, dim=dim, unbiased=unbiased, correction=correction, keepdim=keepdim, root=True)
CALLS["var_mean"] = lambda g, x, *, dim=None, unbiased=True, correction=1, keepdim=False: [
    _spread(g, x, dim=dim, unbiased=unbiased, correction=correction, keepdim=keepdim), g.reduce("mean", x, dim, keepdim)]
CALLS["std_mean"] = lambda g, x, *, dim=None, unbiased=True, correction=1, keepdim=False: [
    CALLS["std"](g, x, dim=dim, unbiased=unbiased, correction=correction, keepdim=keepdim), g.reduce("mean", x, dim, keepdim)]


# ---- views and joins


CALLS["view"] = CALLS["reshape"] = CALLS["_unsafe_view"] = lambda g, x, shape: g.view(x, shape) if isinstance(shape, list) else refuse(
    "a tensor's bytes read as another dtype")
CALLS["view_as"] = CALLS["reshape_as"] = lambda g, x, other: g.view(x, other.shape)
CALLS["permute"] = lambda g, x, axes: g.permute(x, axes)
CALLS["transpose"] = CALLS["swapaxes"] = lambda g, x, a, b: g.swap(x, a, b) if x.shape else x
CALLS["t"] = CALLS["numpy_T"] = lambda g, x: g.permute(x, list(range(len(x.shape)))[::-1])
CALLS["mT"] = CALLS["adjoint"] = lambda g, x: g.swap(x, len(x.shape) - 1, len(x.shape) - 2)
CALLS["expand"] = lambda g, x, shape, implicit=False: g.expand(x, shape)
CALLS["expand_as"] = lambda g, x, other: g.expand(x, other.shape)
CALLS["broadcast_to"] = lambda g, x, shape: g.expand(x, shape)
CALLS["slice"] = lambda g, x, dim=0, start=None, end=None, step=1: g.slice(x, dim, start, end, step)
CALLS["select"] = lambda g, x, dim, index: g.select(x, dim, index)
CALLS["cat"] = CALLS["concat"] = CALLS["concatenate"] = lambda g, parts, dim=0: g.join("cat", parts, dim)
CALLS["stack"] = lambda g, parts, dim=0: g.join("stack", parts, dim)
CALLS["unbind"] = lambda g, x, dim=0: [g.select(x, dim, i) for i in range(x.shape[dim % len(x.shape)])]
CALLS["flip"] = lambda g, x, dims: g.unary("flip", x, axes=sorted(d % len(x.shape) for d in dims)) if dims else x
CALLS["constant_pad_nd"] = lambda g, x, amounts, value=0: g.pad(x, amounts, value)
CALLS["fill"] = lambda g, x, value: g.expand(g.value(value, x.dtype), x.shape)
CALLS["copy"] = lambda g, x, other, non_blocking=False: g.expand(g.cast(other, x.dtype), x.shape)
CALLS["tril"] = lambda g, x, diagonal=0: triangle(g, x, "le", diagonal)
CALLS["triu"] = lambda g, x, diagonal=0: triangle(g, x, "ge", diagonal)
CALLS["dropout"] = CALLS["feature_dropout"] = CALLS["alpha_dropout"] = lambda g, x, p, train: x if not train or p == 0 else refuse(
    "dropout in training: call eval() first")


@call("pad")
def _pad(g, x, amounts, mode="constant", value=None):
    """Edges that are mirrored, repeated or wrapped are joined of slices, a dimension after another."""
    if mode == "constant":
        return g.pad(x, amounts, value)
    for i in range(0, len(amounts), 2):
        d, before, after = len(x.shape) - 1 - i // 2, amounts[i], amounts[i + 1]
        if min(before, after) < 0 and mode == "replicate":  # an edge is repeated before the other is cut off
            whole = x.shape[d] + max(before, 0) + max(after, 0)
            x = _pad(g, x, [0, 0] * (i // 2) + [max(before, 0), max(after, 0)], mode)
            x = g.slice(x, d, max(-before, 0), whole - max(-after, 0))
            continue
        x = g.slice(x, d, max(-before, 0), x.shape[d] - max(-after, 0))
        n, before, after = x.shape[d], max(before, 0), max(after, 0)
        if mode == "reflect":
            left, right = g.slice(x, d, 1, before + 1), g.slice(x, d, n - 1 - after, n - 1)
            left, right = (g.unary("flip", v, axes=[d]) if v.shape[d] else v for v in (left, right))
        elif mode == "replicate":
            left, right = (g.expand(g.slice(x, d, at, at + 1), x.shape[:d] + [n_of] + x.shape[d + 1:])
                           for at, n_of in ((0, before), (n - 1, after)))
        elif mode == "circular":
            left, right = g.slice(x, d, n - before, n), g.slice(x, d, 0, after)
        else:
            raise Unsupported(f"padding of mode {mode}")
        parts = [v for v, size in ((left, before), (x, n), (right, after)) if size]
        x = g.join("cat", parts, d)
    return x


for _name in ("reflection", "replication"):
    for _d in "123":
        CALLS[f"{_name}_pad{_d}d"] = lambda g, x, amounts, _mode={"reflection": "reflect", "replication": "replicate"}[_name]: _pad(
            g, x, amounts, _mode)


def spread(g, x, dim, step):
    """`step` - 1 zeros behind each element along a dimension."""
    before, n, after = x.shape[:dim], x.shape[dim], x.shape[dim + 1:]
    if step == 1:
        return x
    return g.view(g.pad(g.view(x, before + [n, 1] + after), [0, 0] * len(after) + [0, step - 1]), before + [n * step] + after)


def stuffed(g, x, dim, step):
    """`step` - 1 zeros between the elements along a dimension: 1 + (n - 1) * step of them."""
    if step == 1 or not x.shape[dim]:
        return x
    return g.slice(spread(g, x, dim, step), dim, 0, (x.shape[dim] - 1) * step + 1)


@call("slice_scatter")
def _slice_scatter(g, x, part, dim=0, start=None, end=None, step=1):
    """x with a part replaced, joined of what lies before, the part, and what lies behind."""
    dim, n = dim % len(x.shape), x.shape[dim % len(x.shape)]
    start, end, step = slice(start, end, step).indices(n)
    end = max(start, end)
    part = g.cast(g.expand(part, x.shape[:dim] + [-(-(end - start) // step)] + x.shape[dim + 1:]), x.dtype)
    if part.shape[dim] == 0:
        return x
    if step == 1:
        pieces = [g.slice(x, dim, 0, start), part, g.slice(x, dim, end, n)]
        return g.join("cat", [p for p in pieces if p.shape[dim]], dim)
    behind = n - start - (part.shape[dim] - 1) * step - 1
    amounts = [0, 0] * (len(x.shape) - 1 - dim) + [start, behind]
    here = g.view(_arange(g, end=n), [n] + [1] * (len(x.shape) - 1 - dim))
    off = g.binary("sub", here, start)
    inside = g.binary("logical_and", g.binary("eq", g.binary("remainder", off, step), 0, "bool"),
                      g.binary("logical_and", g.binary("ge", here, start, "bool"), g.binary("lt", here, end, "bool")))
    return g.where(inside, g.pad(stuffed(g, part, dim, step), amounts), x)


@call("select_scatter")
def _select_scatter(g, x, part, dim, index):
    dim, index = dim % len(x.shape), index % x.shape[dim]
    part = g.view(g.expand(part, x.shape[:dim] + x.shape[dim + 1:]), x.shape[:dim] + [1] + x.shape[dim + 1:])
    return _slice_scatter(g, x, part, dim, index, index + 1)


@call("narrow")
def _narrow(g, x, dim, start, length):
    start = start + x.shape[dim] if start < 0 else start
    return g.slice(x, dim, start, start + length)


def triangle(g, x, op, diagonal):
    """x where column - row is at most, or at least, `diagonal`; zeros elsewhere."""
    rows, columns = x.shape[-2:]
    off = g.binary("sub", _arange(g, end=columns), g.view(_arange(g, end=rows), [rows, 1]))
    keep = g.binary(op, off, diagonal, "bool")
    return g.binary("logical_and", x, keep) if x.dtype == "bool" else g.where(keep, x, 0, x.dtype)


@call("flatten")
def _flatten(g, x, start=0, end=-1):
    if not x.shape:
        return g.view(x, [1])
    start, end = start % len(x.shape), end % len(x.shape)
    return g.view(x, x.shape[:start] + [math.prod(x.shape[start:end + 1])] + x.shape[end + 1:])


@call("unflatten")
def _unflatten(g, x, dim, sizes):
    dim = dim % len(x.shape)
    known = math.prod(n for n in sizes if n != -1)
    sizes = [x.shape[dim] // known if n == -1 else n for n in sizes]
    return g.view(x, x.shape[:dim] + sizes + x.shape[dim + 1:])


@call("squeeze")
def _squeeze(g, x, *, dim=None):
    dims = range(len(x.shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = {d % max(len(x.shape), 1) for d in dims}
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


@call("repeat")
def _repeat(g, x, times):
    own = [1] * (len(times) - len(x.shape)) + x.shape
    x = g.view(x, [n for size in own for n in (1, size)]) if len(own) * 2 <= 8 else x
    if len(own) * 2 <= 8:
        x = g.expand(x, [n for t, size in zip(times, own) for n in (t, size)])
        return g.view(x, [t * size for t, size in zip(times, own)])
    x = g.view(x, own)
    for d, t in enumerate(times):
        x = g.join("cat", [x] * t, d) if t != 1 else x
    return x


CALLS["tile"] = lambda g, x, times: _repeat(g, x, [1] * (len(x.shape) - len(times)) + times)


@call("repeat_interleave")
def _repeat_interleave(g, x, times, dim=None, output_size=None):
    if not isinstance(times, int):
        raise Unsupported("repeat_interleave by a tensor of counts")
    x = g.view(x, [math.prod(x.shape)]) if dim is None else x
    dim = (dim or 0) % len(x.shape)
    before, n, after = x.shape[:dim], x.shape[dim], x.shape[dim + 1:]
    return g.view(g.expand(g.view(x, before + [n, 1] + after), before + [n, times] + after), before + [n * times] + after)


@call("roll")
def _roll(g, x, shifts, dims=()):
    shifts, whole = [shifts] if isinstance(shifts, int) else shifts, x.shape
    x = x if dims else g.view(x, [math.prod(x.shape)])
    for by, d in zip(shifts, dims or [0]):
        n = x.shape[d]
        by %= max(n, 1)
        x = g.join("cat", [g.slice(x, d, n - by, n), g.slice(x, d, 0, n - by)], d) if by else x
    return g.view(x, whole)


@call("unfold")
def _unfold(g, x, dim, size, step):
    return g.unfold(x, dim, size, step) if x.shape else g.slice(g.view(x, [1]), 0, 0, size)


@call("as_strided")
def _as_strided(g, x, size, stride, storage_offset=None):
    """Of what lies in order (from_torch.py looks): element for element by its place."""
    at = g.const(storage_offset or 0, "i64")
    for d, (n, by) in enumerate(zip(size, stride)):
        if n > 1 and by:
            at = g.binary("add", at, g.view(g.binary("mul", _arange(g, end=n), by), [n] + [1] * (len(size) - 1 - d)))
    return g.add("embedding", [g.view(x, [math.prod(x.shape)]), g.expand(at, size)], size, x.dtype)


@call("diagonal")
def _diagonal(g, x, offset=0, dim1=0, dim2=1):
    rank = len(x.shape)
    dim1, dim2 = dim1 % rank, dim2 % rank
    x = g.permute(x, [d for d in range(rank) if d not in (dim1, dim2)] + [dim1, dim2])
    lead, rows, columns = x.shape[:-2], x.shape[-2], x.shape[-1]
    row, column = max(-offset, 0), max(offset, 0)
    n = max(0, min(rows - row, columns - column))
    x = g.view(x, lead + [rows * columns])
    start = row * columns + column
    return g.slice(x, len(lead), start, start + (n - 1) * (columns + 1) + 1 if n else start, columns + 1)


@call("diagonal_scatter")
def _diagonal_scatter(g, x, part, offset=0, dim1=0, dim2=1):
    """Where column - row is `offset`, the part's element at the row, or at the column where that is less."""
    rank = len(x.shape)
    dim1, dim2 = dim1 % rank, dim2 % rank
    axes = [d for d in range(rank) if d not in (dim1, dim2)] + [dim1, dim2]
    laid = g.permute(x, axes)
    rows, columns = laid.shape[-2:]
    down = offset < 0  # the diagonal begins below: its elements go by columns
    n, behind = part.shape[-1], (columns if down else rows) - part.shape[-1]
    part = g.pad(g.cast(part, x.dtype), [0, behind]) if behind else part
    part = g.view(part, part.shape[:-1] + ([1, columns] if down else [rows, 1]))
    off = g.binary("sub", _arange(g, end=columns), g.view(_arange(g, end=rows), [rows, 1]))
    y = g.where(g.binary("eq", off, offset, "bool"), part, laid, x.dtype) if n else laid
    return g.permute(y, [axes.index(d) for d in range(rank)])


@call("meshgrid")
def _meshgrid(g, parts, indexing="ij"):
    sizes = [math.prod(p.shape) for p in parts]
    order = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        order[:2] = [1, 0]
    shape = [sizes[k] for k in order]
    return [g.expand(g.view(p, [sizes[k] if j == k else 1 for j in order]), shape) for k, p in enumerate(parts)]


# ---- tensors out of nothing


def filled(g, shape, value, dtype, otherwise):
    return g.expand(g.const(value, dtype_of(dtype) if dtype is not None else otherwise), shape)


for _name, _value in (("zeros", 0), ("ones", 1)):
    CALLS[_name] = lambda g, shape, *, dtype=None, _v=_value: filled(g, shape, _v, dtype, floating("bool"))
    CALLS[_name + "_like"] = lambda g, x, *, dtype=None, _v=_value: filled(g, x.shape, _v, dtype, x.dtype)
    CALLS["new_" + _name] = lambda g, x, shape, *, dtype=None, _v=_value: filled(g, shape, _v, dtype, x.dtype)
CALLS["full"] = lambda g, shape, value, *, dtype=None: filled(g, shape, value, dtype, promoted(value))
CALLS["full_like"] = lambda g, x, value, *, dtype=None: filled(g, x.shape, value, dtype, x.dtype)
CALLS["new_full"] = lambda g, x, shape, value, *, dtype=None: filled(g, shape, value, dtype, x.dtype)
CALLS["scalar_tensor"] = lambda g, value, *, dtype=None: filled(g, [], value, dtype, floating("bool"))


@call("arange")
def _arange(g, *, start=0, end, step=1, dtype=None):
    kind = dtype_of(dtype) if dtype is not None else promoted(start, end, step)
    n = max(0, math.ceil((end - start) / step))
    exact = all(isinstance(v, int) for v in (start, step)) or kind in FLOATS
    if not exact:
        raise Unsupported(f"a range in steps of {step} in {kind}")
    x = g.add("iota", [], [n], kind, dim=0)
    x = g.binary("mul", x, step, at=kind) if step != 1 else x
    return g.binary("add", x, start, at=kind) if start else x


# ---- gathers and sums of products


CALLS["matmul"] = CALLS["mm"] = CALLS["bmm"] = CALLS["mv"] = CALLS["dot"] = lambda g, a, b: g.matmul(a, b)
CALLS["embedding"] = lambda g, table, index, padding_idx=-1, scale_grad_by_freq=False, sparse=False: g.add(
    "embedding", [table, index], index.shape + table.shape[1:], table.dtype)
CALLS["inner"] = lambda g, a, b: g.binary("mul", a, b) if not a.shape or not b.shape else g.matmul(
    a, g.swap(b, len(b.shape) - 1, len(b.shape) - 2) if len(b.shape) > 1 else b)
CALLS["outer"] = lambda g, a, b: g.binary("mul", g.view(a, a.shape + [1]), b)


def from_end(g, index, n):
    """An index of which less than zero counts from the end."""
    return g.where(g.binary("lt", index, 0, "bool"), g.binary("add", index, n), index)


@call("index", "_unsafe_index")
def _index(g, x, indices):
    """x[:, i, j] with tensors for some dimensions: one gather of rows by i * n + j. Where these dimensions do not lie side
    by side, theirs come first in the result."""
    dims = [d for d, i in enumerate(indices) if i is not None]
    constant = not any(isinstance(i, Value) for i in indices)
    if any("bool" in str(indices[d].dtype) for d in dims):
        raise Unsupported("an index that is a mask")
    flat = None
    for d in dims:
        i, n = indices[d], x.shape[d]
        if constant:
            i = i.long()
            flat = i % n if flat is None else flat * n + i % n
            continue
        i = from_end(g, i, n)
        flat = i if flat is None else g.binary("add", g.binary("mul", flat, n), i)
    flat = g.tensor("index", flat) if constant else flat
    beside = dims == list(range(dims[0], dims[0] + len(dims)))
    before = [d for d in range(len(x.shape)) if d not in dims and d < dims[0]] if beside else []
    after = [d for d in range(len(x.shape)) if d not in dims and d not in before]
    rest = [x.shape[d] for d in before + after]
    table = g.view(g.permute(x, dims + before + after), [math.prod(x.shape[d] for d in dims)] + rest)
    y = g.add("embedding", [table, flat], flat.shape + rest, x.dtype)
    k = len(flat.shape)
    return g.permute(y, [k + d for d in range(len(before))] + list(range(k)) + [k + d for d in range(len(before), len(rest))])


def in_a_line(fn):
    """A call that goes along a dimension, of a tensor that has none: as one of a single element."""
    @functools.wraps(fn)
    def call(g, x, dim, *rest, **words):
        if x.shape:
            return fn(g, x, dim, *rest, **words)
        rest = [g.view(v, [1]) if isinstance(v, Value) and not v.shape else v for v in rest]
        return g.view(fn(g, g.view(x, [1]), 0, *rest, **words), [])
    return call


@call("index_select")
@in_a_line
def _index_select(g, x, dim, index):
    dim = dim % len(x.shape)
    axes = [dim] + [d for d in range(len(x.shape)) if d != dim]
    index = g.view(index, [math.prod(index.shape)])
    y = g.permute(x, axes)
    y = g.add("embedding", [y, index], index.shape + y.shape[1:], x.dtype)
    return g.permute(y, [axes.index(d) for d in range(len(axes))])


@call("index_add")
@in_a_line
def _index_add(g, x, dim, index, source, alpha=1):
    dim = dim % len(x.shape)
    axes = [dim] + [d for d in range(len(x.shape)) if d != dim]
    source = g.binary("mul", source, alpha) if alpha != 1 else source
    shape = [x.shape[d] for d in axes]
    sums = g.add("index_add", [g.permute(source, axes), index], shape, x.dtype, start=shape[0])
    return g.binary("add", x, g.permute(sums, [axes.index(d) for d in range(len(axes))]))


def places(g, x, dim, index, kind="i64"):
    """Where x[…, index, …] lies in x laid out flat, for an index with as many dimensions as x."""
    strides = [math.prod(x.shape[d + 1:]) for d in range(len(x.shape))]
    flat = g.binary("mul", index, strides[dim], at=kind) if strides[dim] != 1 else g.cast(index, kind)
    for d, n in enumerate(index.shape):
        if d != dim and n > 1:
            along = g.cast(g.view(_arange(g, end=n), [n] + [1] * (len(x.shape) - 1 - d)), kind)
            flat = g.binary("add", flat, g.binary("mul", along, strides[d], at=kind) if strides[d] != 1 else along, at=kind)
    return flat


@call("gather")
def _gather(g, x, dim, index, sparse_grad=False):
    x = x if x.shape else g.view(x, [1])
    flat = places(g, x, dim % len(x.shape), index)
    return g.add("embedding", [g.view(x, [math.prod(x.shape)]), flat], index.shape, x.dtype)


@call("scatter_add")
@in_a_line
def _scatter_add(g, x, dim, index, source):
    for d, n in enumerate(index.shape):
        source = g.slice(source, d, 0, n)
    n = math.prod(x.shape)
    sums = g.add("index_add", [source, places(g, x, dim % len(x.shape), index)], [n], x.dtype, start=n)
    return g.binary("add", x, g.view(sums, x.shape))


@call("one_hot")
def _one_hot(g, x, classes=-1):
    if classes < 0:
        raise Unsupported("one_hot without the number of classes")
    return g.cast(g.binary("eq", g.view(x, x.shape + [1]), _arange(g, end=classes), "bool"), "i64")


@call("einsum")
def _einsum(g, equation, parts, path=None):
    """More than two operands one after another, as products of matrices; of a letter that stands twice in one, the diagonal."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    names, free = left.split(","), [c for c in string.ascii_letters if c not in equation]
    if not arrow:
        out = ("..." if "..." in left else "") + "".join(sorted(c for c in set(left) - set(",.") if left.count(c) == 1))
    more = [len(x.shape) - len(n) + 3 if "..." in n else 0 for n, x in zip(names, parts)]  # dims that "..." stands for
    several = "".join(free[:max(more)])[::-1]
    names = [n.replace("...", several[len(several) - k:]) for n, k in zip(names, more)]
    out = out.replace("...", several)
    names, parts = map(list, zip(*(once(g, n, x) for n, x in zip(names, parts))))
    most = {c: max(x.shape[n.index(c)] for n, x in zip(names, parts) if c in n) for c in set("".join(names))}
    for k, (n, x) in enumerate(zip(names, parts)):  # one element there, more elsewhere: it is the same for all of them
        kept = [d for d, c in enumerate(n) if x.shape[d] == most[c]]
        names[k], parts[k] = "".join(n[d] for d in kept), g.view(x, [x.shape[d] for d in kept])
    while len(parts) > 2:
        still = set(out).union(*names[2:])
        both = "".join(c for c in dict.fromkeys(names[0] + names[1]) if c in still)
        parts[:2], names[:2] = [einsum_of(g, names[:2], parts[:2], both)], [both]
    return einsum_of(g, names, parts, out)


def once(g, letters, x):
    """An operand's diagonals over letters that stand twice, each of which stands last then."""
    for c in dict.fromkeys(c for c in letters if letters.count(c) > 1):
        while letters.count(c) > 1:
            first, second = [d for d, l in enumerate(letters) if l == c][:2]
            x = _diagonal(g, x, 0, first, second)
            letters = "".join(l for d, l in enumerate(letters) if d not in (first, second)) + c
    return letters, x


def einsum_of(g, names, parts, out):
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


for _name in ("view", "permute", "expand", "slice", "select", "squeeze", "unsqueeze", "transpose", "t", "unbind", "split", "split_with_sizes",
              "diagonal", "unfold", "narrow", "alias", "detach", "as_strided"):
    CALLS[_name + "_copy"] = CALLS[_name]
