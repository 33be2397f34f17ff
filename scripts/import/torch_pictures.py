"""Calls of PyTorch over pictures: made larger or smaller, their windows as columns, maxima with their places; for
scripts/import/from_torch.py: rows of the table in torch_calls.py.

Where an element of the result lies in the picture is a fraction, which is computed in whole numbers: no rounding decides.
"""
import fractions
import itertools
import math

import torch
from torch_calls import CALLS, _arange, _clamp, call, lowest, places, stuffed
from torch_graph import NAMES, Unsupported, Value
from torch_layers import _max_pool, each, pool_sizes, windows_of
from torch_order import last_ones, put

# ---- made larger or smaller


def position(g, n, out, scale, half, ends):
    """Where the results along a dimension lie in its n elements: whole numbers [out] and what they are to be divided by.
    `scale`: results for each element, as the call names it, or None; `ends`: first and last lie on first and last;
    `half`: it is middles that lie beside each other."""
    if ends:
        return (g.binary("mul", _arange(g, end=out), n - 1), out - 1) if out > 1 else (g.binary("mul", _arange(g, end=out), 0), 1)
    by = fractions.Fraction(out, n) if not scale else fractions.Fraction(scale).limit_denominator(1 << 16)
    at = _arange(g, end=out)
    if not half:
        return g.binary("mul", at, by.denominator), by.numerator
    at = g.binary("mul", g.binary("add", g.binary("mul", at, 2), 1), by.denominator)  # (i + 1/2) / by, in halves of 1 / by
    return at, 2 * by.numerator


def taken(g, x, dim, index):
    """x at these places along dim, those beyond its ends at the ends."""
    return CALLS["index_select"](g, x, dim, _clamp(g, index, 0, x.shape[dim] - 1))


def sizes_of(x, output_size, scale_factors, scales):
    """The result's sizes, and the scale that counts for each dimension or None."""
    k = len(x.shape) - 2
    scales = list(scale_factors) if scale_factors is not None else [s for s in scales if s is not None]
    scales = scales if len(scales) == k else [None] * k
    if output_size is None:
        output_size = [math.floor(n * s) for n, s in zip(x.shape[2:], scales)]
    return list(output_size), scales


def nearest(exact):
    def fn(g, x, *, output_size=None, scale_factors=None, scales=None, scales_d=None, scales_h=None, scales_w=None):
        sizes, scales = sizes_of(x, output_size, scale_factors, (scales, scales_d, scales_h, scales_w))
        for d, (out, scale) in enumerate(zip(sizes, scales), 2):
            n = x.shape[d]
            if out == n and (not scale or scale == 1):
                continue
            if out % n == 0 and (not scale or scale == out // n):
                x = CALLS["repeat_interleave"](g, x, out // n, d)
                continue
            at, by = position(g, n, out, scale, exact, False)
            x = taken(g, x, d, g.binary("floor_divide", at, by))
        return x
    return fn


def linear(g, x, align_corners, *, output_size=None, scale_factors=None, scales=None, scales_d=None, scales_h=None, scales_w=None):
    """Between the two elements beside each place, one dimension after another."""
    sizes, scales = sizes_of(x, output_size, scale_factors, (scales, scales_d, scales_h, scales_w))
    for d, (out, scale) in enumerate(zip(sizes, scales), 2):
        n = x.shape[d]
        if out == n and (align_corners or not scale or scale == 1):
            continue
        at, by = position(g, n, out, scale, True, align_corners)
        at = at if align_corners else _clamp(g, g.binary("sub", at, by // 2), 0)
        first = g.binary("floor_divide", at, by)
        share = g.binary("div", g.cast(g.binary("remainder", at, by), x.dtype), by)
        share = g.view(share, [out] + [1] * (len(x.shape) - 1 - d))
        low, high = taken(g, x, d, first), taken(g, x, d, g.binary("add", first, 1))
        x = g.binary("add", low, g.binary("mul", g.binary("sub", high, low), share))
    return x


def cubic_shares(g, t):
    """Of the four elements around a place that lies t behind the second of them (Keys, a = -3/4)."""
    def near(v):
        return g.binary("add", g.binary("mul", g.binary("mul", g.binary("sub", g.binary("mul", v, 1.25), 2.25), v), v), 1)

    def far(v):  # ((a v - 5 a) v + 8 a) v - 4 a
        v1 = g.binary("add", g.binary("mul", g.binary("add", g.binary("mul", v, -0.75), 3.75), v), -6)
        return g.binary("add", g.binary("mul", v1, v), 3)
    rest = g.binary("sub", 1, t)
    return far(g.binary("add", t, 1)), near(t), near(rest), far(g.binary("add", rest, 1))


@call("upsample_bicubic2d")
def _bicubic(g, x, align_corners, *, output_size=None, scale_factors=None, scales_h=None, scales_w=None):
    sizes, scales = sizes_of(x, output_size, scale_factors, (scales_h, scales_w))
    for d, (out, scale) in enumerate(zip(sizes, scales), 2):
        at, by = position(g, x.shape[d], out, scale, True, align_corners)
        at = at if align_corners else g.binary("sub", at, by // 2)
        first = g.binary("floor_divide", at, by)
        t = g.binary("div", g.cast(g.binary("remainder", at, by), x.dtype), by)
        t, y = g.view(t, [out] + [1] * (len(x.shape) - 1 - d)), None
        for k, share in enumerate(cubic_shares(g, t), -1):
            part = g.binary("mul", taken(g, x, d, g.binary("add", first, k) if k else first), share)
            y = part if y is None else g.binary("add", y, part)
        x = y
    return x


def antialiased(op):
    """Each dimension is a product with PyTorch's own shares: what it makes of the rows of a unit matrix."""
    def fn(g, x, align_corners, *, output_size=None, scale_factors=None, scales_h=None, scales_w=None):
        sizes, scales = sizes_of(x, output_size, scale_factors, (scales_h, scales_w))
        for d, (out, scale) in enumerate(zip(sizes, scales), 2):
            n = x.shape[d]
            if out == n and (not scale or scale == 1):
                continue
            unit = torch.eye(n, dtype=torch.float64).view(1, 1, n, n)
            shares = getattr(torch.ops.aten, op).default(unit, [out, n], align_corners, scale, None)[0, 0]
            shares = g.tensor("shares", shares.to(getattr(torch, NAMES[x.dtype])))
            x = g.matmul(shares, x) if d == 2 else g.matmul(x, g.swap(shares, 0, 1))
        return x
    return fn


for _name in ("bilinear", "bicubic"):
    CALLS[f"_upsample_{_name}2d_aa"] = antialiased(f"_upsample_{_name}2d_aa")
for _k in (1, 2, 3):
    CALLS[f"upsample_nearest{_k}d"] = nearest(False)
    CALLS[f"_upsample_nearest_exact{_k}d"] = nearest(True)
for _name in ("linear1d", "bilinear2d", "trilinear3d"):
    CALLS["upsample_" + _name] = linear


# ---- read at places that a grid names


def in_picture(g, at, n, align, padding):
    """Where coordinates lie that go from -1 to 1 over n elements; beyond the ends as `padding` says: 1 at them, 2 mirrored."""
    at = g.binary("mul", g.binary("add", at, 1), (n - 1) / 2 if align else n / 2)
    at = at if align else g.binary("sub", at, 0.5)
    return folded(g, at, n, align, padding)


def folded(g, at, n, align, padding):
    if padding == 2:
        low, span = (0, n - 1) if align else (-0.5, n)
        if span == 0:
            return g.binary("mul", at, 0)
        at = g.unary("abs", g.binary("sub", at, low) if low else at)
        turns = g.unary("floor", g.binary("div", at, span))
        rest = g.binary("sub", at, g.binary("mul", turns, span))
        back = g.binary("ne", g.binary("remainder", turns, 2), 0, "bool")
        at = g.where(back, g.binary("sub", span, rest), rest, at.dtype)
        at = g.binary("add", at, low) if low else at
    return _clamp(g, at, 0, n - 1) if padding else at


def read_at(g, x, places_of):
    """x [N, C, sizes…] at whole coordinates, a tensor [N, …] for each dimension; zeros beyond its ends: [N, C, …]."""
    n, channels, sizes = x.shape[0], x.shape[1], x.shape[2:]
    shape = places_of[0].shape
    flat, inside = g.view(_arange(g, end=n), [n] + [1] * (len(shape) - 1)), None
    for at, size in zip(places_of, sizes):
        here = g.binary("logical_and", g.binary("ge", at, 0, "bool"), g.binary("le", at, size - 1, "bool"))
        inside = here if inside is None else g.binary("logical_and", inside, here)
        flat = g.binary("add", g.binary("mul", flat, size), g.cast(_clamp(g, at, 0, size - 1), "i64"))
    table = g.permute(x, [0] + list(range(2, len(x.shape))) + [1])
    table = g.view(table, [n * math.prod(sizes), channels])
    got = g.add("embedding", [table, flat], shape + [channels], x.dtype)
    got = g.where(g.view(inside, shape + [1]), got, 0, x.dtype)
    return g.permute(got, [0, len(shape)] + list(range(1, len(shape))))


def summed(g, parts):
    y = parts[0]
    for part in parts[1:]:
        y = g.binary("add", y, part)
    return y


@call("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid_sampler(g, x, grid, mode, padding, align):
    """Between the two elements on each side (mode 0), the nearest (1), or four a dimension (2)."""
    sizes, k = x.shape[2:], len(x.shape) - 2
    at = [g.select(grid, -1, k - 1 - d) for d in range(k)]  # a grid's last dimension has the last coordinate first
    at = [in_picture(g, v, n, align, padding if mode != 2 else 0) for v, n in zip(at, sizes)]
    if mode == 1:
        return read_at(g, x, [g.unary("round", v) for v in at])
    low = [g.unary("floor", v) for v in at]
    shares = []  # of each dimension: offset → its part in the result
    for v, first in zip(at, low):
        t = g.binary("sub", v, first)
        shares.append(dict(zip(range(-1, 3), cubic_shares(g, t))) if mode == 2 else {0: g.binary("sub", 1, t), 1: t})
    parts = []
    for corner in itertools.product(*shares):
        places_of = [g.binary("add", first, by) if by else first for first, by in zip(low, corner)]
        if mode == 2:
            places_of = [folded(g, v, n, align, padding) for v, n in zip(places_of, sizes)]
        share = shares[0][corner[0]]
        for d in range(1, k):
            share = g.binary("mul", share, shares[d][corner[d]])
        parts.append(g.binary("mul", read_at(g, x, places_of), g.view(share, share.shape[:1] + [1] + share.shape[1:])))
    return summed(g, parts)


# ---- windows


@call("im2col")
def _im2col(g, x, kernel, dilation, padding, stride):
    lead = x.shape[:-2]
    kernel, dilation, padding, stride = (each(v, 2) for v in (kernel, dilation, padding, stride))
    windows = windows_of(g, x, kernel, stride, padding, dilation)
    k = len(lead)
    windows = g.permute(windows, list(range(k)) + [k + 2, k + 3, k, k + 1])
    return g.view(windows, lead[:-1] + [lead[-1] * math.prod(kernel), math.prod(windows.shape[-2:])])


@call("col2im")
def _col2im(g, x, size, kernel, dilation, padding, stride):
    """Each place of the kernel lays its elements, `stride` apart, where they belong: a sum of as many pictures."""
    kernel, dilation, padding, stride = (each(v, 2) for v in (kernel, dilation, padding, stride))
    counts = [(size[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in range(2)]
    lead = x.shape[:-2]
    channels = x.shape[-2] // math.prod(kernel)
    whole = [size[d] + 2 * padding[d] for d in range(2)]
    x = g.view(x, [math.prod(lead) * channels] + kernel + counts)
    total = None
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            y, amounts = g.select(g.select(x, 1, row), 1, column), []
            for d, place in ((1, column), (0, row)):
                y = stuffed(g, y, 1 + d, stride[d])
                first = place * dilation[d]
                amounts += [first - padding[d], whole[d] - first - y.shape[1 + d] - padding[d]]
            y = g.pad(y, amounts)
            total = y if total is None else g.binary("add", total, y)
    return g.view(total, lead + [channels] + list(size))


def places_of_maxima(g, x, kernel, stride, padding, dilation, ceil_mode, k):
    """Where in its picture, laid out flat, each window has its first maximum."""
    kernel, padding, dilation = each(kernel, k), each(padding, k), each(dilation, k)
    stride = each(stride, k) if stride else kernel
    counts, beyond = pool_sizes(x, kernel, stride, padding, dilation, ceil_mode)
    windows = windows_of(g, x, kernel, stride, padding, dilation, lowest(x.dtype), beyond)
    first, lead = len(x.shape) - k, x.shape[:len(x.shape) - k]
    index = g.reduce("argmax", g.view(windows, lead + counts + [math.prod(kernel)]), -1, False)
    flat, strides = None, [math.prod(kernel[d + 1:]) for d in range(k)]
    for d in range(k):
        inside = g.binary("remainder", g.binary("floor_divide", index, strides[d]), kernel[d])
        begin = g.view(g.binary("sub", g.binary("mul", _arange(g, end=counts[d]), stride[d]), padding[d]), [counts[d]] + [1] * (k - 1 - d))
        at = g.binary("add", g.binary("mul", inside, dilation[d]), begin)
        flat = at if flat is None else g.binary("add", g.binary("mul", flat, x.shape[first + d]), at)
    return flat


def with_places(k):
    def fn(g, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
        return [_max_pool(g, x, kernel, stride, padding, dilation, ceil_mode, k=k),
                places_of_maxima(g, x, kernel, stride, padding, dilation, ceil_mode, k)]
    return fn


for _k in (1, 2, 3):
    CALLS[f"max_pool{_k}d_with_indices"] = with_places(_k)


MOST_PAIRS = 1 << 24  # that are looked at for the last of equal places


@call("max_unpool2d", "max_unpool3d")
def _max_unpool(g, x, indices, size, stride=None, padding=None):
    """Zeros, with x at the places of its picture that were kept. Where windows overlap, one place was kept by several: the last
    of them stays; in large pictures their mean does, which is the same of what a pool has kept (PyTorch promises no order)."""
    k = len(size)
    lead, inner, n = x.shape[:len(x.shape) - k], math.prod(x.shape[len(x.shape) - k:]), math.prod(size)
    lines, count = math.prod(lead), math.prod(x.shape)
    indices, zeros = g.view(indices, [lines, inner]), g.expand(g.const(0, x.dtype), [lines * n])
    flat, values = g.view(places(g, Value(0, [lines, n], "i64"), 1, indices), [count]), g.view(x, [count])
    if lines * inner * inner <= MOST_PAIRS:
        last = last_ones(g, indices)
        y = put(g, zeros, lines * n, flat, values, g.view(last, [count]) if last is not None else None)
        return g.view(y, lead + list(size))
    def summed(v):
        return g.add("index_add", [v, flat], [lines * n], x.dtype, start=lines * n)
    hits = summed(g.expand(g.const(1, x.dtype), [count]))
    return g.view(g.binary("div", summed(values), g.binary("maximum", hits, 1)), lead + list(size))


# ---- gradients of pools


@call("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def _max_pool_backward(g, dy, x, kernel, stride, padding, dilation, ceil_mode, indices):
    """To each place what its windows give it: a sum by the places of the maxima."""
    k = len(x.shape) - len(lead_of(x, dy))
    lead, inner, n = x.shape[:len(x.shape) - k], math.prod(dy.shape[len(x.shape) - k:]), math.prod(x.shape)
    plane = Value(0, lead + [n // max(math.prod(lead), 1)], "i64")
    flat = places(g, plane, len(lead), g.view(indices, lead + [inner]))
    sums = g.add("index_add", [g.view(dy, [math.prod(dy.shape)]), g.view(flat, [math.prod(dy.shape)])], [n], dy.dtype, start=n)
    return g.view(sums, x.shape)


def lead_of(x, dy):
    """The dimensions of pictures and channels: one or two, as pools have them for batches and without."""
    return x.shape[:-3] if len(x.shape) > 4 else x.shape[:-2]


def window_sum(g, dy, size, kernel, stride, padding, share=None):
    """What windows give back to the elements that they cover, over the last two or three dimensions."""
    k = len(size)
    lead = dy.shape[:len(dy.shape) - k]
    dy = g.binary("mul", dy, share) if share is not None else dy
    x = g.view(dy, [math.prod(lead), 1] + dy.shape[len(lead):])
    ones = g.expand(g.const(1, dy.dtype), [1, 1] + list(kernel))
    spans = [(n - 1) * s - 2 * p + f for n, s, p, f in zip(dy.shape[len(lead):], stride, padding, kernel)]
    y = CALLS[f"conv_transpose{k}d"](g, x, ones, None, stride, padding, [max(n - m, 0) for n, m in zip(size, spans)])
    for d, n in enumerate(size, 2):
        y = g.slice(y, d, 0, n)
    return g.view(y, lead + list(size))


@call("avg_pool2d_backward", "avg_pool3d_backward")
def _avg_pool_backward(g, dy, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    k = len(x.shape) - len(lead_of(x, dy))
    kernel, padding = each(kernel, k), each(padding, k)
    stride = each(stride, k) if stride else kernel
    if ceil_mode or (any(padding) and not count_include_pad):
        raise Unsupported("the gradient of means over windows of unlike sizes")
    return window_sum(g, dy, x.shape[-k:], kernel, stride, padding, 1 / (divisor_override or math.prod(kernel)))


@call("_adaptive_avg_pool2d_backward")
def _adaptive_avg_pool_backward(g, dy, x):
    for d in (-2, -1):
        n, out = x.shape[d], dy.shape[d]
        if n % out:
            raise Unsupported(f"the gradient of means over {out} windows of {n} elements, which are unlike")
        dy = CALLS["repeat_interleave"](g, g.binary("mul", dy, out / n), n // out, len(dy.shape) + d)
    return dy


@call("embedding_dense_backward")
def _embedding_backward(g, dy, index, rows, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        raise Unsupported("gradients that are divided by how often a row is named")
    if padding_idx >= 0:
        index = g.where(g.binary("eq", index, padding_idx, "bool"), -1, index)
    return g.add("index_add", [dy, index], [rows] + dy.shape[len(index.shape):], dy.dtype, start=rows)
