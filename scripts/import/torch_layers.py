"""Layers of PyTorch in fusebox's ops, for scripts/import/from_torch.py: rows of the table in torch_calls.py.

Those that fusebox knows as one op (linear, addmm, layer_norm, softmax, silu, attention) keep a scope of that kind.
"""
import functools
import math

from torch_calls import CALLS, _arange, _chunk, _clamp, call, in_f32, lowest, spread, stuffed
from torch_graph import FLOATS, Unsupported, broadcast, dtype_of, number, refuse


@call("linear")
def _linear(g, x, w, b=None):
    def make():
        y = g.matmul(x, g.swap(w, 0, 1))
        return g.binary("add", y, b) if b is not None else y
    return g.op("linear", [x, w, b], {}, make)


@call("bilinear")
def _bilinear(g, a, b, w, bias=None):
    out, rows, columns = w.shape
    y = g.matmul(a, g.view(g.permute(w, [1, 0, 2]), [rows, out * columns]))
    y = g.view(y, a.shape[:-1] + [out, columns])
    y = g.reduce("sum", g.binary("mul", y, g.view(b, b.shape[:-1] + [1, columns])), -1, False)
    return g.binary("add", y, bias) if bias is not None else y


@call("_grouped_mm", "grouped_mm_fallback")
def _grouped_mm(g, x, w, offs=None, bias=None, out_dtype=None):
    """Rows [S, K] that lie expert by expert, `offs` says where each ends, times its own matrix of [E, K, N]: one product with
    all matrices over each other, of rows that are zero but for their expert's part. What lies behind the last is zero."""
    if bias is not None or len(x.shape) + len(w.shape) != (6 if offs is None else 5) or len(w.shape) != 3:
        raise Unsupported(f"a grouped product of {len(x.shape)} and {len(w.shape)} dimensions")
    if offs is None:
        y = g.matmul(x, w)
    else:
        rows, inner, experts = x.shape[0], x.shape[1], w.shape[0]
        at = g.view(_arange(g, end=rows), [rows, 1])
        begun = g.join("cat", [g.expand(g.const(0, offs.dtype), [1]), g.slice(offs, 0, 0, experts - 1)], 0)
        own = g.binary("logical_and", g.binary("ge", at, begun, "bool"), g.binary("lt", at, offs, "bool"))
        wide = g.where(g.view(own, [rows, experts, 1]), g.view(x, [rows, 1, inner]), 0, x.dtype)
        y = g.matmul(g.view(wide, [rows, experts * inner]), g.view(w, [experts * inner, w.shape[2]]))
    return g.cast(y, dtype_of(out_dtype)) if out_dtype is not None else y


@in_f32
def weighted(g, product, b, beta, alpha):
    product = g.binary("mul", product, alpha) if alpha != 1 else product
    if not beta:
        return g.expand(product, broadcast(b.shape, product.shape))  # b may be nan
    return g.binary("add", g.binary("mul", g.cast(b, product.dtype), beta) if beta != 1 else b, product)


@call("addmm", "baddbmm")
def _addmm(g, b, x, w, beta=1, alpha=1):
    if beta != 1 or alpha != 1:
        return weighted(g, g.matmul(x, w), b, beta, alpha)
    if len(x.shape) != 2:
        return g.binary("add", b, g.matmul(x, w))
    return g.op("addmm", [b, x, w], {}, lambda: g.binary("add", g.matmul(x, w), b))


@call("addmv", "addbmm")
def _addmv(g, b, x, w, beta=1, alpha=1):
    y = g.matmul(x, w)
    y = g.reduce("sum", y, 0, False) if len(y.shape) == 3 else y
    return weighted(g, y, b, beta, alpha) if beta != 1 or alpha != 1 else g.binary("add", b, y)


@call("layer_norm")
def _layer_norm(g, x, size, w=None, b=None, eps=1e-5, cudnn_enable=True):
    def make():
        axes = list(range(len(x.shape) - len(size), len(x.shape)))
        centred = g.binary("sub", x, g.reduce("mean", x, axes, True))
        variance = g.reduce("mean", g.binary("mul", centred, centred), axes, True)
        y = g.binary("mul", centred, g.unary("rsqrt", g.binary("add", variance, eps) if eps else variance))
        y = g.binary("mul", y, w) if w is not None else y
        return g.binary("add", y, b) if b is not None else y
    return g.op("layer_norm", [x, w, b], {"normalized_shape": list(size), "eps": eps}, make)


@call("native_layer_norm")
def _native_layer_norm(g, x, size, w, b, eps):
    """With the mean and what it is multiplied by, which gradients are made of."""
    axes = list(range(len(x.shape) - len(size), len(x.shape)))
    def make():
        mean = g.reduce("mean", x, axes, True)
        centred = g.binary("sub", x, mean)
        scale = g.unary("rsqrt", g.binary("add", g.reduce("mean", g.binary("mul", centred, centred), axes, True), eps))
        y = g.binary("mul", centred, scale)
        y = g.binary("mul", y, w) if w is not None else y
        return [g.binary("add", y, b) if b is not None else y, mean, scale]
    return g.op("layer_norm", [x, w, b], {"normalized_shape": list(size), "eps": eps}, make)


@call("native_group_norm")
def _native_group_norm(g, x, w, b, n, channels, inner, groups, eps):
    parts = g.view(x, [n, groups, channels // groups * inner])
    mean = g.reduce("mean", parts, -1, False)
    centred = g.binary("sub", parts, g.view(mean, [n, groups, 1]))
    scale = g.unary("rsqrt", g.binary("add", g.reduce("mean", g.binary("mul", centred, centred), -1, False), eps))
    return [_group_norm(g, x, groups, w, b, eps), mean, scale]


def norm_of_batch(g, x, w, b, momentum, eps, mean=None, var=None):
    """By the statistics of the batch: the result, mean and scale, and the running statistics as they are after."""
    axes = [d for d in range(len(x.shape)) if d != 1]
    n = math.prod(x.shape[d] for d in axes)
    def along(v):
        return g.view(v, [v.shape[0]] + [1] * (len(x.shape) - 2))
    def make():
        own = g.reduce("mean", x, axes, False)
        centred = g.binary("sub", x, along(own))
        spread = g.reduce("mean", g.binary("mul", centred, centred), axes, False)
        scale = g.unary("rsqrt", g.binary("add", spread, eps))
        y = g.binary("mul", centred, along(scale))
        y = g.binary("mul", y, along(w)) if w is not None else y
        return [g.cast(g.binary("add", y, along(b)) if b is not None else y, x.dtype), own, scale, spread]
    y, own, scale, spread = g.op("batch_norm", [x, w, b], {"eps": eps, "training": True}, make)
    def moved(old, new):
        if old is None:
            return None
        return g.cast(g.binary("add", g.binary("mul", old, 1 - momentum), g.binary("mul", new, momentum)), old.dtype)
    return [y, own, scale, moved(mean, own), moved(var, g.binary("mul", spread, n / max(n - 1, 1)) if var is not None else None)]


CALLS["_native_batch_norm_legit_functional"] = lambda g, x, w, b, mean, var, training, momentum, eps: norm_of_batch(
    g, x, w, b, momentum, eps, mean, var) if training else [_batch_norm(g, x, w, b, mean, var, False, momentum, eps), None, None, mean, var]


@call("batch_norm")
def _batch_norm(g, x, w, b, mean, var, training, momentum, eps, cudnn_enabled=False):
    if mean is None:
        return norm_of_batch(g, x, w, b, momentum, eps)[0]
    if training:
        raise Unsupported("batch_norm that keeps statistics of the batch: call eval() first, or import with --train")
    def along(v):
        return g.view(v, [v.shape[0]] + [1] * (len(x.shape) - 2))
    def make():
        scale = g.unary("rsqrt", g.binary("add", var, eps))
        y = g.binary("mul", g.binary("sub", x, along(mean)), along(g.binary("mul", scale, w) if w is not None else scale))
        return g.cast(g.binary("add", y, along(b)) if b is not None else y, x.dtype)
    return g.op("batch_norm", [x, mean, var, w, b], {"eps": eps}, make)


CALLS["_native_batch_norm_legit_no_training"] = lambda g, x, w, b, mean, var, momentum, eps: [
    _batch_norm(g, x, w, b, mean, var, False, momentum, eps), None, None]


@call("group_norm")
def _group_norm(g, x, groups, w=None, b=None, eps=1e-5, cudnn_enabled=True):
    n, channels, rest = x.shape[0], x.shape[1], x.shape[2:]
    def make():
        parts = g.view(x, [n, groups, channels // groups * math.prod(rest)])
        centred = g.binary("sub", parts, g.reduce("mean", parts, -1, True))
        variance = g.reduce("mean", g.binary("mul", centred, centred), -1, True)
        y = g.view(g.binary("mul", centred, g.unary("rsqrt", g.binary("add", variance, eps))), x.shape)
        for op, v in (("mul", w), ("add", b)):
            y = g.binary(op, y, g.view(v, [channels] + [1] * len(rest))) if v is not None else y
        return y
    return g.op("group_norm", [x, w, b], {"groups": groups, "eps": eps}, make)


@call("instance_norm")
def _instance_norm(g, x, w, b, mean, var, use_input_stats, momentum, eps, cudnn_enabled=True):
    if not use_input_stats:
        return _batch_norm(g, x, w, b, mean, var, False, momentum, eps)
    return _group_norm(g, x, x.shape[1], w, b, eps)


def exponentials(g, x, dim):
    shifted = g.binary("sub", x, g.reduce("amax", x, dim, True))
    e = g.unary("exp", shifted)
    return shifted, e, g.reduce("sum", e, dim, True)


@call("softmax")
def _softmax(g, x, dim, *, dtype=None):
    x = g.cast(x, dtype_of(dtype)) if dtype is not None else x
    if not x.shape:
        return g.add("div", [x, x], [], x.dtype)
    def make():
        _, e, total = exponentials(g, x, dim)
        return g.binary("div", e, total)
    return g.op("softmax", [x], {"dim": dim}, make)


@call("log_softmax")
def _log_softmax(g, x, dim, *, dtype=None):
    x = g.cast(x, dtype_of(dtype)) if dtype is not None else x
    def make():
        shifted, _, total = exponentials(g, x, dim)
        return g.binary("sub", shifted, g.unary("log", total))
    return g.op("log_softmax", [x], {"dim": dim}, make)


CALLS["_softmax"] = lambda g, x, dim, half_to_float: _softmax(g, x, dim)
CALLS["_log_softmax"] = lambda g, x, dim, half_to_float: _log_softmax(g, x, dim)
CALLS["softmin"] = lambda g, x, dim, *, dtype=None: _softmax(g, g.unary("neg", x), dim, dtype=dtype)


# ---- activations


def chosen(g, x, above, bound, below):
    return g.where(g.binary("gt", x, bound, "bool"), above, below, x.dtype)


CALLS["silu"] = lambda g, x: g.op("silu", [x], {}, lambda: g.binary("mul", x, g.unary("sigmoid", x)))
CALLS["leaky_relu"] = in_f32(lambda g, x, slope=0.01: chosen(g, x, x, 0, g.binary("mul", x, slope)))
CALLS["rrelu"] = lambda g, x, low=1 / 8, high=1 / 3, training=False: CALLS["leaky_relu"](g, x, (low + high) / 2) if not training else refuse(
    "rrelu in training: call eval() first")
CALLS["threshold"] = lambda g, x, bound, value: chosen(g, x, x, bound, value)
CALLS["relu6"] = lambda g, x: _clamp(g, x, 0, 6)
CALLS["hardtanh"] = lambda g, x, low=-1, high=1: _clamp(g, x, low, high)
CALLS["hardsigmoid"] = in_f32(lambda g, x: g.binary("mul", _clamp(g, g.binary("add", x, 3), 0, 6), 1 / 6))
CALLS["hardswish"] = in_f32(lambda g, x: g.binary("mul", x, CALLS["hardsigmoid"](g, x)))
CALLS["log_sigmoid"] = lambda g, x: g.unary("neg", CALLS["softplus"](g, g.unary("neg", x)))
CALLS["softsign"] = lambda g, x: g.binary("div", x, g.binary("add", g.unary("abs", x), 1))
CALLS["tanhshrink"] = lambda g, x: g.binary("sub", x, g.unary("tanh", x))
CALLS["softshrink"] = lambda g, x, by=0.5: g.binary("sub", x, _clamp(g, x, -by, by))
CALLS["hardshrink"] = lambda g, x, by=0.5: chosen(g, g.unary("abs", x), x, by, 0)
CALLS["glu"] = lambda g, x, dim=-1: (lambda a, b: g.binary("mul", a, g.unary("sigmoid", b)))(*_chunk(g, x, 2, dim))


@call("elu")
def _elu(g, x, alpha=1, scale=1, input_scale=1):
    return g.unary("elu", x, value=number(alpha)) if scale == input_scale == 1 else _scaled_elu(g, x, alpha, scale, input_scale)


@in_f32
def _scaled_elu(g, x, alpha, scale, input_scale):
    if input_scale == 1:
        return g.binary("mul", g.unary("elu", x, value=number(alpha)), scale)
    below = g.binary("sub", g.unary("exp", g.binary("mul", x, input_scale)), 1)
    y = chosen(g, x, x, 0, g.binary("mul", below, alpha) if alpha != 1 else below)
    return g.binary("mul", y, scale) if scale != 1 else y


CALLS["selu"] = lambda g, x: _elu(g, x, 1.6732632423543772, 1.0507009873554805)
CALLS["celu"] = lambda g, x, alpha=1: _elu(g, x, alpha, 1, 1 / alpha)


@call("prelu", "_prelu_kernel")
def _prelu(g, x, w):
    w = g.view(w, [w.shape[0]] + [1] * max(len(x.shape) - 2, 0)) if len(w.shape) == 1 and w.shape[0] > 1 else w
    return chosen(g, x, x, 0, g.binary("mul", x, w))


@call("gelu")
def _gelu(g, x, *, approximate="none"):
    return g.unary("gelu", x) if approximate == "none" else _gelu_tanh(g, x)


@in_f32
def _gelu_tanh(g, x):
    cube = g.binary("mul", g.binary("mul", g.binary("mul", x, x), x), 0.044715)
    inner = g.binary("mul", g.binary("add", x, cube), math.sqrt(2 / math.pi))
    return g.binary("mul", g.binary("mul", x, 0.5), g.binary("add", g.unary("tanh", inner), 1))


@call("rms_norm")
def _rms_norm(g, x, size, w=None, eps=None):
    eps = (2.0**-52 if x.dtype == "f64" else 2.0**-23) if eps is None else eps
    def make():
        square = g.reduce("mean", g.binary("mul", x, x), list(range(len(x.shape) - len(size), len(x.shape))), True)
        y = g.binary("mul", x, g.unary("rsqrt", g.binary("add", square, eps)))
        return g.binary("mul", y, w) if w is not None else y
    return g.op("rms_norm", [x, w], {"normalized_shape": list(size), "eps": eps}, make)


def may_hide_all(g, mask):
    """May a row of this mask, which is added, be -inf all along? Of inputs the example tells, of weights they themselves."""
    todo, seen, shown = [(mask.id, True)], set(), ("view", "expand", "cast")
    while todo:
        at, as_it_is = todo.pop()
        node = g.nodes[at]
        if at in g.infinite and (not as_it_is or g.infinite[at]) or node["op"] == "const" and node["value"] == "-inf":
            return True
        seen.add(at)
        todo += [(a, as_it_is and node["op"] in shown) for a in node["args"] if a not in seen]
    return False


@call("scaled_dot_product_attention")
def _attention(g, q, k, v, mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if dropout_p:
        raise Unsupported("attention with dropout: call eval() first")
    scale = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (CALLS["repeat_interleave"](g, x, q.shape[-3] // x.shape[-3], len(x.shape) - 3) for x in (k, v))
    if is_causal:
        rows = g.view(_arange(g, end=q.shape[-2]), [q.shape[-2], 1])
        mask = g.binary("ge", rows, _arange(g, end=k.shape[-2]), "bool")
    added = mask is not None and mask.dtype != "bool"
    hides = mask is not None and not is_causal and (not added or may_hide_all(g, mask))
    seen = g.binary("ne", mask, -math.inf, "bool") if added and hides else mask
    # A query that may see nothing gets zeros, as in PyTorch: asked of the mask alone, once for all layers that share it, so that
    # what is between the products stays a softmax.
    some = g.binary("gt", g.reduce("amax", g.cast(seen, "i32"), -1, True), 0, "bool") if hides else None
    def make():
        scores = g.binary("mul", g.matmul(q, g.swap(k, len(k.shape) - 1, len(k.shape) - 2)), scale)
        scores = g.binary("add", scores, mask) if added else scores
        if mask is not None and (hides or not added):
            scores = g.where(seen, scores, -1e30)
        e = g.unary("exp", g.binary("sub", scores, g.reduce("amax", scores, -1, True)))
        y = g.matmul(g.binary("div", e, g.reduce("sum", e, -1, True)), v)
        return g.where(some, y, 0, y.dtype) if hides else y
    return g.op("scaled_dot_product_attention", [q, k, v, mask], {"scale": scale}, make)


# ---- convolutions and pools over any number of dimensions


def each(v, n):
    """A number for each of n dimensions, from one or several."""
    v = list(v) if isinstance(v, (list, tuple)) else [v]
    return v * n if len(v) == 1 else v


def windows_of(g, x, kernel, stride, padding, dilation, fill=0, after=None):
    """The windows over the last dimensions of x, which count them; their elements are as many dimensions more. `padding` is
    before, and behind too unless `after` says otherwise."""
    k, first = len(kernel), len(x.shape) - len(kernel)
    x = g.pad(x, [n for d in reversed(range(k)) for n in (padding[d], (after or padding)[d])], fill)
    for d in range(k):
        span = dilation[d] * (kernel[d] - 1) + 1
        if span > x.shape[first + d]:
            raise Unsupported(f"a kernel of {kernel} over {x.shape[first:first + k]}")
        x = g.unfold(x, first + d, span, stride[d])
        x = g.slice(x, -1, 0, span, dilation[d]) if dilation[d] > 1 else x
    return x


def convolved(g, x, w, b, stride, before, after, dilation, groups):
    """x [N, C, …] with w [out, C / groups, …]: all windows as columns, and one product for each group."""
    out, inner, kernel = w.shape[0], w.shape[1], w.shape[2:]
    k, n = len(kernel), x.shape[0]
    windows = windows_of(g, x, kernel, stride, before, dilation, 0, after)
    space, long = windows.shape[2:2 + k], inner * math.prod(kernel)
    columns = g.permute(windows, [0, 1] + list(range(2 + k, 2 + 2 * k)) + list(range(2, 2 + k)))
    if groups == 1:
        y = g.matmul(g.view(w, [out, long]), g.view(columns, [n, long, math.prod(space)]))
    else:
        y = g.matmul(g.view(w, [groups, out // groups, long]), g.view(columns, [n, groups, long, math.prod(space)]))
        y = g.view(y, [n, out, math.prod(space)])
    y = g.binary("add", y, g.view(b, [out, 1])) if b is not None else y
    return g.view(y, [n, out] + space)


def batched(g, x, dims, fn):
    """fn(x) for an x that may lack its first dimension."""
    if len(x.shape) == dims:
        return fn(x)
    y = fn(g.view(x, [1] + x.shape))
    return g.view(y, y.shape[1:])


@call("conv1d", "conv2d", "conv3d")
def _conv(g, x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
    k = len(w.shape) - 2
    stride, dilation = each(stride, k), each(dilation, k)
    if padding == "same":
        total = [d * (n - 1) for d, n in zip(dilation, w.shape[2:])]
        before, after = [n // 2 for n in total], [n - n // 2 for n in total]
    else:
        before = after = [0] * k if padding == "valid" else each(padding, k)
    attrs = {"stride": stride, "before": before, "after": after, "dilation": dilation, "groups": groups}
    def whole(x):
        return g.op(f"conv{k}d", [x, w, b], attrs, lambda: convolved(g, x, w, b, stride, before, after, dilation, groups))
    return batched(g, x, k + 2, whole)


def phase_of(n, stride, dilation):
    """Of n elements of a kernel, which lie `dilation` apart in a result whose x lies `stride` apart: what both have in common,
    so that only every so many elements of the result are any of x, then stride and dilation among these, and how far x has
    to be set apart: where phases would multiply more zeros than x then has."""
    common = math.gcd(stride, dilation) if n > 1 else stride  # one element has no neighbour
    stride, dilation = stride // common, dilation // common if n > 1 else 1
    if stride > 1 and dilation * (n - 1) // stride + 1 > n:
        return common, 1, dilation, stride
    return common, stride, dilation, 1


def by_phases(g, x, w, b, size, stride, padding, dilation, groups):
    """With a stride every stride-th element of the result is made of the same elements of the kernel, and of neighbours in x:
    `stride` convolutions of x as it is, a dimension, which are one product with the kernel's elements dealt to them. Their
    results lie between each other, and what padding takes away is cut off. Where dilation and stride have no divisor in
    common, the kernel is dealt with zeros between its elements; where they have one, there is nothing between its multiples
    but zeros and b; and so it is between the elements of a kernel that is shorter than the stride."""
    k, n, inner, out = len(stride), x.shape[0], w.shape[0] // groups, w.shape[1] * groups
    rows, depth, taps, before, after, short = out, inner, [], [], [], []
    common, stride, dilation, apart = (list(v) for v in zip(*(phase_of(*v) for v in zip(w.shape[2:], stride, dilation))))
    whole = [-(-(p + m) // c) for p, m, c in zip(padding, size, common)]
    for d, s in enumerate(stride):
        x = stuffed(g, x, 2 + d, apart[d])
        short.append(s > 1 and dilation[d] * (w.shape[2 + d] - 1) < s)
        if s > 1 and not short[d]:
            w, dilation[d] = stuffed(g, w, 2 + d, dilation[d]), 1
    kernel = w.shape[2:]
    phases = [kernel[d] if short[d] else s for d, s in enumerate(stride)]
    turned = g.swap(g.view(w, [groups, inner, out // groups] + kernel), 1, 2)
    for d, s in enumerate(phases):
        m, rest = -(-kernel[d] // s), math.prod(kernel[d + 1:])
        turned = g.pad(g.view(turned, [rows, depth, kernel[d], rest]), [0, 0, 0, m * s - kernel[d]])
        turned = g.unary("flip", g.view(turned, [rows, depth, m, s, rest]), axes=[2])
        turned = g.permute(turned, [0, 3, 1, 2, 4])
        rows, depth = rows * s, depth * m
        taps.append(m)
        before.append(dilation[d] * (m - 1))
        over = whole[d] - (x.shape[2 + d] + before[d]) * stride[d]
        after.append(before[d] + max(-(-over // stride[d]), 0))
    y = convolved(g, x, g.view(turned, [rows, inner] + taps), None, [1] * k, before, after, dilation, groups)
    places = y.shape[2:]
    everywhere = phases == stride and all(c == 1 for c in common)
    if b is not None and everywhere:
        y = g.binary("add", g.view(y, [n, out, rows // out * math.prod(places)]), g.view(b, [out, 1]))
    for d in range(k):
        if phases[d] < stride[d]:
            rest = math.prod(phases[d + 1:] + places)
            y = stuffed(g, g.view(y, [n * out * math.prod(stride[:d]), phases[d], rest]), 1, dilation[d])
            y = g.pad(y, [0, 0, 0, stride[d] - y.shape[1]])
    y = g.view(y, [n, out] + stride + places)
    y = g.permute(y, [0, 1] + [a for d in range(k) for a in (2 + k + d, 2 + d)])
    y = g.view(y, [n, out] + [q * s for q, s in zip(places, stride)])
    for d in range(k):
        y = g.slice(spread(g, g.slice(y, 2 + d, 0, whole[d]), 2 + d, common[d]), 2 + d, padding[d], padding[d] + size[d])
    return y if b is None or everywhere else g.binary("add", y, g.view(b, [out] + [1] * k))


@call("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(g, x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """A convolution of x with zeros between its elements, by the kernel from behind."""
    k, kernel = len(w.shape) - 2, w.shape[2:]
    stride, padding, more, dilation = (each(v, k) for v in (stride, padding, output_padding, dilation))
    channels, out = w.shape[0], w.shape[1]
    before = [dilation[d] * (kernel[d] - 1) - padding[d] for d in range(k)]
    after = [n + m for n, m in zip(before, more)]
    attrs = {"stride": stride, "padding": padding, "output_padding": more, "dilation": dilation, "groups": groups}
    phases = any(s > 1 for s in stride) and min(before) >= 0
    def make(x):
        size = [(n - 1) * s + l - p + m + 1 for n, s, l, p, m in zip(x.shape[2:], stride, before, padding, more)]
        if phases and min(size) > 0 and math.prod(x.shape) > 0:
            return by_phases(g, x, w, b, size, stride, padding, dilation, groups)
        turned = g.swap(g.view(w, [groups, channels // groups, out] + kernel), 1, 2)
        turned = g.unary("flip", g.view(turned, [groups * out, channels // groups] + kernel), axes=list(range(2, 2 + k)))
        for d in range(k):
            x = stuffed(g, x, 2 + d, stride[d])
        return convolved(g, x, turned, b, [1] * k, before, after, dilation, groups)
    return batched(g, x, k + 2, lambda x: g.op(f"conv_transpose{k}d", [x, w, b], attrs, lambda: make(x)))


@call("convolution")
def _convolution(g, x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    if transposed:
        return _conv_transpose(g, x, w, b, stride, padding, output_padding, groups, dilation)
    return _conv(g, x, w, b, stride, padding, dilation, groups)


def weight_gradient(g, dy, x, kernel, stride, padding, dilation, groups):
    """Of a convolution's weight: windows of x times what comes back, summed over all places and pictures."""
    k, n, out, channels = len(kernel), x.shape[0], dy.shape[1], x.shape[1]
    windows = windows_of(g, x, kernel, stride, padding, dilation)
    for d in range(k):  # a stride may leave elements over, which no window has
        windows = g.slice(windows, 2 + d, 0, dy.shape[2 + d])
    places = list(range(2, 2 + k))
    columns = g.permute(windows, [1] + list(range(2 + k, 2 + 2 * k)) + [0] + places)
    long, points = channels // groups * math.prod(kernel), n * math.prod(dy.shape[2:])
    columns = g.swap(g.view(columns, [groups, long, points]), 1, 2)
    rows = g.view(g.permute(dy, [1, 0] + places), [groups, out // groups, points])
    return g.view(g.matmul(rows, columns), [out, channels // groups] + list(kernel))


@call("convolution_backward")
def _convolution_backward(g, dy, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, wanted):
    k, kernel = len(w.shape) - 2, w.shape[2:]
    stride, padding, dilation = each(stride, k), each(padding, k), each(dilation, k)
    dx = dw = db = None
    if wanted[0] and transposed:
        dx = _conv(g, dy, w, None, stride, padding, dilation, groups)
    elif wanted[0]:
        spans = [(dy.shape[2 + d] - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel[d] - 1) + 1 for d in range(k)]
        more = [n - m for n, m in zip(x.shape[2:], spans)]
        dx = _conv_transpose(g, dy, w, None, stride, padding, more, groups, dilation)
    if wanted[1]:
        dw = weight_gradient(g, *((x, dy) if transposed else (dy, x)), kernel, stride, padding, dilation, groups)
    if wanted[2]:
        db = g.reduce("sum", dy, [d for d in range(len(dy.shape)) if d != 1], False)
    return [dx, dw, db]


def pool_sizes(x, kernel, stride, padding, dilation, ceil_mode):
    """How many windows there are along each dimension, and how far the last reaches beyond x."""
    sizes, beyond = [], []
    for n, k, s, p, d in zip(x.shape[len(x.shape) - len(kernel):], kernel, stride, padding, dilation):
        free = n + 2 * p - d * (k - 1) - 1
        count = (-(-free // s) if ceil_mode else free // s) + 1
        if ceil_mode and (count - 1) * s >= n + p:  # a window begins within x or before it
            count -= 1
        sizes.append(count)
        beyond.append((count - 1) * s + d * (k - 1) + 1 - n - p)
    return sizes, beyond


def _max_pool(g, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False, *, k):
    kernel, padding, dilation = each(kernel, k), each(padding, k), each(dilation, k)
    stride = each(stride, k) if stride else kernel
    _, beyond = pool_sizes(x, kernel, stride, padding, dilation, ceil_mode)
    windows = windows_of(g, x, kernel, stride, padding, dilation, lowest(x.dtype), beyond)
    return g.reduce("amax", windows, list(range(len(x.shape), len(x.shape) + k)), False)


def _avg_pool(g, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, *, k):
    kernel, padding = each(kernel, k), each(padding, k)
    stride = each(stride, k) if stride else kernel
    sizes, beyond = pool_sizes(x, kernel, stride, padding, [1] * k, ceil_mode)
    windows = windows_of(g, x, kernel, stride, padding, [1] * k, 0, beyond)
    places = list(range(len(x.shape), len(x.shape) + k))
    if divisor_override:
        return g.binary("mul", g.reduce("sum", windows, places, False), 1 / divisor_override)
    counts = None
    for d, n in enumerate(x.shape[len(x.shape) - k:]):
        p = padding[d] if count_include_pad else 0
        here = [(max(i * stride[d] - padding[d], -p), min(i * stride[d] - padding[d] + kernel[d], n + p)) for i in range(sizes[d])]
        if all(stop - start == kernel[d] for start, stop in here):
            continue
        at = g.binary("sub", g.binary("mul", _arange(g, end=sizes[d]), stride[d]), padding[d])
        along = g.binary("sub", _clamp(g, g.binary("add", at, kernel[d]), None, n + p), _clamp(g, at, -p))
        share = g.binary("div", kernel[d], g.cast(along, x.dtype))
        share = g.view(share, [sizes[d]] + [1] * (k - 1 - d))
        counts = share if counts is None else g.binary("mul", counts, share)
    y = g.reduce("mean", windows, places, False)
    return g.binary("mul", y, counts) if counts is not None else y


def sizes_of(x, size, k):
    return [n if m is None else m for m, n in zip(each(size, k), x.shape[len(x.shape) - k:])]


def cover(g, whole, size, dtype):
    """Windows that cover a picture, each as long as the longest, as [out, long] for each of its dimensions: where their elements
    lie in it, which of them are inside, and the share of one in a mean."""
    k, flat, inside, share, long = len(whole), g.const(0, "i64"), None, None, []
    for d, (n, out) in enumerate(zip(whole, size)):
        starts, ends = [i * n // out for i in range(out)], [-(-(i + 1) * n // out) for i in range(out)]
        long.append(max(e - s for s, e in zip(starts, ends)))
        def along(v, place, d=d):  # as dimension `place` of this window's two, among those of all windows
            return g.view(v, [v.shape[0] if j == 2 * d + place else 1 for j in range(2 * k)])
        step = _arange(g, end=out)
        start = g.binary("floor_divide", g.binary("mul", step, n), out)
        end = g.binary("floor_divide", g.binary("add", g.binary("mul", step, n), n + out - 1), out)
        at = g.binary("add", along(start, 0), along(_arange(g, end=long[d]), 1))
        here = g.binary("lt", at, along(end, 0), "bool")
        inside = here if inside is None else g.binary("logical_and", inside, here)
        flat = g.binary("add", g.binary("mul", flat, n), g.binary("minimum", at, n - 1))
        of_one = g.binary("div", 1, g.cast(along(g.binary("sub", end, start), 0), dtype)) if dtype in FLOATS else None
        share = of_one if share is None else g.binary("mul", share, of_one)
    return g.expand(flat, [m for pair in zip(size, long) for m in pair]), inside, share


def covered(g, x, flat, inside, otherwise):
    """The elements of those windows, of each picture in a last dimension."""
    lead, whole = x.shape[:len(x.shape) - len(flat.shape) // 2], x.shape[len(x.shape) - len(flat.shape) // 2:]
    table = g.permute(g.view(x, [math.prod(lead), math.prod(whole)]), [1, 0])
    got = g.add("embedding", [table, flat], flat.shape + [math.prod(lead)], x.dtype)
    return g.where(g.view(inside, inside.shape + [1]), got, otherwise, x.dtype)


def adaptive(g, x, size, k, op):
    """Means or maxima over windows that cover x: all alike where the sizes divide, else gathered."""
    first, size = len(x.shape) - k, sizes_of(x, size, k)
    lead, whole = x.shape[:first], x.shape[first:]
    if size == whole:
        return x
    if all(n % out == 0 for n, out in zip(whole, size)):
        parts = g.view(x, lead + [m for n, out in zip(whole, size) for m in (out, n // out)])
        return g.reduce(op, parts, [first + 2 * d + 1 for d in range(k)], False)
    flat, inside, share = cover(g, whole, size, x.dtype)
    got = covered(g, x, flat, inside, 0 if op == "mean" else lowest(x.dtype))
    y = g.reduce("sum" if op == "mean" else op, got, [2 * d + 1 for d in range(k)], False)
    if op == "mean":
        y = g.binary("mul", y, g.view(share, share.shape[::2] + [1]))  # without the dimensions inside of a window
    return g.view(g.permute(y, [k] + list(range(k))), lead + size)


def adaptive_places(g, x, size, k):
    """Where in its picture, laid out flat, each of those windows has its first maximum."""
    size = sizes_of(x, size, k)
    lead = x.shape[:len(x.shape) - k]
    flat, inside, _ = cover(g, x.shape[len(lead):], size, x.dtype)
    got, outs, longs = covered(g, x, flat, inside, lowest(x.dtype)), list(range(0, 2 * k, 2)), list(range(1, 2 * k, 2))
    windows, of_each = math.prod(size), math.prod(flat.shape[d] for d in longs)
    best = g.reduce("argmax", g.view(g.permute(got, [2 * k] + outs + longs), [math.prod(lead), windows, of_each]), -1, False)
    best = g.binary("add", best, g.binary("mul", _arange(g, end=windows), of_each))
    return g.view(g.add("embedding", [g.view(g.permute(flat, outs + longs), [windows * of_each]), best], best.shape, "i64"), lead + size)


for _k in (1, 2, 3):
    CALLS[f"max_pool{_k}d"] = lambda g, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False, _k=_k: _max_pool(
        g, x, kernel, stride, padding, dilation, ceil_mode, k=_k)
    CALLS[f"avg_pool{_k}d"] = lambda g, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, \
        _k=_k: _avg_pool(g, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override, k=_k)
    CALLS[f"adaptive_avg_pool{_k}d"] = CALLS[f"_adaptive_avg_pool{_k}d"] = lambda g, x, size, _k=_k: adaptive(g, x, size, _k, "mean")
    CALLS[f"adaptive_max_pool{_k}d"] = lambda g, x, size, _k=_k: [
        adaptive(g, x, size, _k, "amax"), adaptive_places(g, x, size, _k)]


# ---- recurrent layers


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
    w_ih, w_hh, b_ih, b_hh, w_hr = w

    def step(xw, states):
        h, c = states
        i, f, z, o = _chunk(g, g.binary("add", xw, _linear(g, h, w_hh, b_hh)), 4, 1)
        c = g.binary("add", g.binary("mul", g.unary("sigmoid", f), c),
                     g.binary("mul", g.unary("sigmoid", i), g.unary("tanh", z)))
        h = g.binary("mul", g.unary("sigmoid", o), g.unary("tanh", c))
        return [h if w_hr is None else _linear(g, h, w_hr), c]
    y, (h, c) = over_time(g, _linear(g, x, w_ih, b_ih), [h, c], reverse, step)
    return y, h, c


def gru_layer(g, x, h, w, reverse):
    """x [T, N, I] → [T, N, H] and the last h."""
    w_ih, w_hh, b_ih, b_hh, _ = w

    def step(xw, states):
        h, = states
        xr, xz, xn = _chunk(g, xw, 3, 1)
        hr, hz, hn = _chunk(g, _linear(g, h, w_hh, b_hh), 3, 1)
        r, z = g.unary("sigmoid", g.binary("add", xr, hr)), g.unary("sigmoid", g.binary("add", xz, hz))
        n = g.unary("tanh", g.binary("add", xn, g.binary("mul", r, hn)))
        return [g.binary("add", n, g.binary("mul", z, g.binary("sub", h, n)))]
    y, (h,) = over_time(g, _linear(g, x, w_ih, b_ih), [h], reverse, step)
    return y, h


def rnn_layer(g, x, h, w, reverse, op):
    w_ih, w_hh, b_ih, b_hh, _ = w

    def step(xw, states):
        return [g.unary(op, g.binary("add", xw, _linear(g, states[0], w_hh, b_hh)))]
    y, (h,) = over_time(g, _linear(g, x, w_ih, b_ih), [h], reverse, step)
    return y, h


def stacked(g, x, params, has_biases, layers, bidirectional, batch_first, layer_of):
    """Layers of a recurrent network over each other: layer_of(x, number, weights, reverse) → y. The last y. A layer's weights
    are those of x, of h, two biases, and the one that projects h, which only some LSTMs have."""
    directions = 2 if bidirectional else 1
    each, plain = len(params) // (layers * directions), 4 if has_biases else 2
    x = g.swap(x, 0, 1) if batch_first else x
    for layer in range(layers):
        numbers, out = [layer * directions + d for d in range(directions)], []
        for d, k in enumerate(numbers):
            w = params[each * k:each * (k + 1)]
            w = w[:plain] + [None] * (4 - plain) + (w[plain:] or [None])
            out.append(layer_of(x, k, w, d == 1))
        x = g.join("cat", out, 2) if bidirectional else out[0]
    return g.swap(x, 0, 1) if batch_first else x


def one_state(name, layer):
    """A recurrent network with one state: layer(g, x, h, weights, reverse) → y, h."""
    def fn(g, x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first):
        if train and dropout:
            raise Unsupported(f"{name} with dropout in training: call eval() first")
        hs = []
        def layer_of(x, k, w, reverse):
            y, h = layer(g, x, g.select(hx, 0, k), w, reverse)
            hs.append(h)
            return y
        y = stacked(g, x, params, has_biases, layers, bidirectional, batch_first, layer_of)
        return [y, g.join("stack", hs, 0)]
    return fn


CALLS["gru"] = one_state("a GRU", gru_layer)
CALLS["rnn_tanh"] = one_state("an RNN", lambda g, x, h, w, reverse: rnn_layer(g, x, h, w, reverse, "tanh"))
CALLS["rnn_relu"] = one_state("an RNN", lambda g, x, h, w, reverse: rnn_layer(g, x, h, w, reverse, "relu"))


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
