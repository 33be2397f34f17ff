"""Calls of PyTorch that sort, search and put elements at places, for scripts/import/from_torch.py: rows of the table in
torch_calls.py.

A sort is a rank (where each element goes), the positions summed up at these places, and a gather. Equal elements keep their
order, as PyTorch's stable sort has it; of equals, topk takes the first.
"""
import math

import torch
from torch_calls import CALLS, _arange, call, from_end, in_a_line, lowest, places
from torch_graph import FLOATS, Unsupported, Value, broadcast, promoted


# ---- sorts


FEW = 8  # places that are each looked for in all of the line: less than an index_add's threads look at


def ranks(g, x, dim, descending):
    x = g.cast(x, "i32") if x.dtype == "bool" else x
    return g.add("rank", [x], x.shape, "i64", dim=dim, start=int(bool(descending)))


def in_lines(g, x, dim, make):
    """Values and positions that `make` finds in lines along the last dimension: what is made of such a line is sorted once."""
    axes = [d for d in range(len(x.shape)) if d != dim] + [dim]
    lines = g.permute(x, axes)
    index = make(lines, len(axes) - 1)
    back = [axes.index(d) for d in range(len(axes))]
    return [g.permute(v, back) for v in (CALLS["gather"](g, lines, len(axes) - 1, index), g.cast(index, "i64"))]


def along(g, shape, dim):
    """0, 1, 2 … along a dimension of this shape."""
    return g.expand(g.view(_arange(g, end=shape[dim]), [shape[dim]] + [1] * (len(shape) - 1 - dim)), shape)


def first_of(g, x, dim, k, descending):
    """Where the first k of the sorted lines lie along dim."""
    n, kept = x.shape[dim], x.shape[:dim] + [k] + x.shape[dim + 1:]
    if n == 0 or k == 0:
        raise Unsupported("the order of no elements")
    order = ranks(g, x, dim, descending)
    if k < n and k <= FEW:
        rest = [1] * (len(x.shape) - 1 - dim)
        order = g.view(g.where(g.binary("lt", order, k, "bool"), order, -1), x.shape[:dim] + [1] + x.shape[dim:])
        found = g.binary("eq", order, g.view(_arange(g, end=k), [k, 1] + rest), "bool")
        return g.reduce("sum", g.where(found, g.view(_arange(g, end=n), [n] + rest), 0), dim + 1, False)
    all_of = math.prod(kept)
    kind = "i32" if math.prod(x.shape) < 1 << 31 else "i64"  # half as many bytes on the way
    flat = places(g, Value(0, kept, kind), dim, order, kind)
    if k < n:  # what goes further back goes nowhere
        flat = g.where(g.binary("lt", order, k, "bool"), flat, -1, kind)
    return g.view(g.add("index_add", [g.cast(along(g, x.shape, dim), kind), flat], [all_of], kind, start=all_of), kept)


def nth_of(g, x, dim, place, descending):
    """Where what is at this place of the sorted lines lies along dim, which becomes 1."""
    if not x.shape[dim]:
        raise Unsupported("the order of no elements")
    found = g.binary("eq", ranks(g, x, dim, descending), place, "bool")
    return g.reduce("sum", g.where(found, along(g, x.shape, dim), 0), dim, True)


def sorted_lines(g, kind, x, dim, k, descending):
    """Values and positions of the first k of each sorted line, as one call."""
    if not x.shape:
        return [x, g.const(0, "i64")]
    dim = dim % len(x.shape)
    attrs = {"dim": dim, "k": k, "descending": bool(descending)}

    def make():
        return in_lines(g, x, dim, lambda lines, d: first_of(g, lines, d, x.shape[dim] if k is None else k, descending))
    return g.op(kind, [x], {a: v for a, v in attrs.items() if v is not None}, make)


@call("sort")
def _sort(g, x, *, stable=False, dim=-1, descending=False):
    return sorted_lines(g, "sort", x, dim, None, descending)


CALLS["argsort"] = lambda g, x, *, stable=False, dim=-1, descending=False: _sort(g, x, dim=dim, descending=descending)[1]
CALLS["msort"] = lambda g, x: _sort(g, x, dim=0)[0]
CALLS["topk"] = lambda g, x, k, dim=-1, largest=True, sorted=True: sorted_lines(g, "topk", x, dim, k, largest)


@call("kthvalue")
def _kthvalue(g, x, k, dim=-1, keepdim=False):
    if not x.shape:
        return [x, g.const(0, "i64")]
    dim = dim % len(x.shape)
    parts = g.op("kthvalue", [x], {"dim": dim, "k": k},
                 lambda: in_lines(g, x, dim, lambda lines, d: nth_of(g, lines, d, k - 1, False)))
    return parts if keepdim else [g.select(v, dim, 0) for v in parts]


@call("median")
def _median(g, x, *, dim=None, keepdim=False):
    """The lower one of two; NaN where there is any, and its place."""
    if dim is None:
        return _median(g, g.view(x, [math.prod(x.shape)]), dim=0)[0]
    if not x.shape:
        return [x, g.const(0, "i64")]
    value, index = _kthvalue(g, x, (x.shape[dim] + 1) // 2, dim, keepdim)
    if x.dtype not in FLOATS:
        return [value, index]
    odd = g.cast(g.binary("ne", x, x, "bool"), "i32")
    some = g.binary("gt", g.reduce("amax", odd, dim, keepdim), 0, "bool")
    return [g.where(some, math.nan, value, x.dtype), g.where(some, g.reduce("argmax", odd, dim, keepdim), index)]


def running(g, x, dim, op):
    """The extreme so far and its last place, by doubling: what lies 1, 2, 4 … before wins where it is beyond."""
    if not x.shape:
        return [x, g.const(0, "i64")]
    dim, by = dim % len(x.shape), 1
    v, i = (g.cast(x, "i32") if x.dtype == "bool" else x), along(g, x.shape, dim)
    while by < x.shape[dim]:
        amounts = [0] * (2 * (len(x.shape) - dim))
        amounts[-2:] = [by, -by]
        at = g.pad(i, amounts, -1)
        before = g.pad(v, amounts, 0)
        better = g.binary("gt" if op == "cummax" else "lt", before, v, "bool")
        if v.dtype in FLOATS:
            odd, own = g.binary("ne", before, before, "bool"), g.binary("eq", v, v, "bool")
            better = g.binary("logical_or", better, g.binary("logical_and", odd, own))
        better = g.binary("logical_and", better, g.binary("ge", at, 0, "bool"))
        v, i, by = g.where(better, before, v, v.dtype), g.where(better, at, i), by * 2
    return [g.cast(v, x.dtype), i]


CALLS["cummax"] = lambda g, x, dim: running(g, x, dim, "cummax")
CALLS["cummin"] = lambda g, x, dim: running(g, x, dim, "cummin")


@call("logcumsumexp")
def _logcumsumexp(g, x, dim):
    """By doubling: the logarithm of a sum of two exponentials, beside the larger."""
    dim, by = dim % max(len(x.shape), 1), 1
    while x.shape and by < x.shape[dim]:
        amounts = [0] * (2 * (len(x.shape) - dim))
        amounts[-2:] = [by, -by]
        before = g.pad(x, amounts, -math.inf)
        high, low = g.binary("maximum", x, before), g.binary("minimum", x, before)
        less = g.where(g.binary("eq", high, low, "bool"), 0, g.binary("sub", low, high), x.dtype)
        both = g.binary("add", high, g.unary("log1p", g.unary("exp", less)))
        x, by = g.where(CALLS["isinf"](g, high), high, both), by * 2
    return x


# ---- bags


def even_bags(g, rows, bags, mode):
    return g.reduce(("sum", "mean", "amax")[mode], g.view(rows, bags + rows.shape[1:]), 1, False)


@call("embedding_bag")
def _embedding_bag(g, table, index, offsets, scale_by_freq=False, mode=0, sparse=False, weights=None, last=False, padding=-1):
    """Sums or means of rows, of those from each offset to the next. Bags of one size, as an index of two dimensions has them,
    are a dimension; others are summed at the place of their bag, which is how many offsets lie up to an element."""
    padding = None if padding is None or padding < 0 else padding
    n, rows = index.shape[0], g.add("embedding", [table, index], index.shape + table.shape[1:], table.dtype)
    rows = g.binary("mul", rows, g.view(weights, [n, 1])) if weights is not None else rows
    known = isinstance(offsets, list) and offsets + ([] if last else [n])
    sizes = {b - a for a, b in zip(known, known[1:])} if known else set()
    if len(sizes) == 1 and padding is None:
        return [even_bags(g, g.slice(rows, 0, 0, known[-1]), [len(known) - 1, sizes.pop()], mode), None, None, None]
    if mode == 2:
        raise Unsupported("the largest of bags of unlike sizes")
    offsets = g.tensor("offsets", torch.tensor(offsets)) if isinstance(offsets, list) else offsets
    bags = offsets.shape[0] - bool(last)
    bag = g.binary("sub", counted_below(g, g.view(_arange(g, end=n), [n, 1]), offsets, True, False), 1)
    bag = g.where(g.binary("lt", bag, bags, "bool"), bag, -1) if last else bag  # it goes nowhere
    bag = g.where(g.binary("eq", index, padding, "bool"), -1, bag) if padding is not None else bag
    y = g.add("index_add", [rows, bag], [bags] + table.shape[1:], table.dtype, start=bags)
    if mode == 1:
        count = g.add("index_add", [g.expand(g.const(1, table.dtype), [n]), bag], [bags], table.dtype, start=bags)
        y = g.binary("div", y, g.view(g.binary("maximum", count, 1), [bags, 1]))
    return [y, None, None, None]


@call("multilabel_margin_loss")
def _multilabel_margin_loss(g, x, target, reduction=1):
    """Each label of a row, up to the first -1, against all that are none. (What PyTorch takes this call apart into counts what
    stands behind the -1, too.)"""
    if not x.shape:
        x, target = g.view(x, [1]), g.view(target, [1])
    lead, classes = x.shape[:-1], x.shape[-1]
    at = _arange(g, end=classes)
    ended = g.unary("cumsum", g.cast(g.binary("lt", target, 0, "bool"), "i64"), dim=len(lead))
    labels = g.where(g.binary("eq", ended, 0, "bool"), target, -1)
    own = g.binary("eq", g.view(labels, lead + [classes, 1]), at, "bool")  # [label, class]
    none = g.unary("logical_not", CALLS["any"](g, own, dim=len(lead)))
    of_label = CALLS["gather"](g, x, len(lead), g.binary("maximum", labels, 0))
    off = g.binary("add", g.binary("sub", 1, g.view(of_label, lead + [classes, 1])), g.view(x, lead + [1, classes]))
    counts = g.binary("logical_and", g.view(g.binary("ge", labels, 0, "bool"), lead + [classes, 1]), g.view(none, lead + [1, classes]))
    off = g.where(counts, g.binary("maximum", off, 0), 0, x.dtype)
    y = g.binary("mul", g.reduce("sum", off, [-1, -2], False), 1 / classes)
    return y if reduction == 0 or not lead else g.reduce("mean" if reduction == 1 else "sum", y, None, False)


# ---- searches and counts


FEW_BOUNDS = 8  # that are compared one by one


def counted_below(g, values, bounds, right, out_int32):
    """How many of the bounds, sorted along a last dimension, lie before each value (with a last dimension of 1): many are found
    by halves. What is no number lies behind all of them."""
    n, lead = bounds.shape[-1], bounds.shape[:-2]
    kind = promoted(bounds, values)
    bounds, values = g.cast(bounds, kind), g.cast(values, kind)
    above = "gt" if right else "ge"
    if n <= FEW_BOUNDS:
        before = g.unary("logical_not", g.binary(above, bounds, values, "bool"))
        y = g.reduce("sum", g.cast(before, "i64"), -1, False)
        return g.cast(y, "i32") if out_int32 else y
    values = g.view(values, values.shape[:-1])
    flat, first = g.view(bounds, [math.prod(bounds.shape)]), None
    if lead:
        first = g.binary("mul", _arange(g, end=math.prod(lead)), n)
        first = g.view(g.cast(first, "i64"), lead + [1] * (len(values.shape) - len(lead)))
    y, step = g.expand(g.const(0, "i64"), values.shape), 1 << n.bit_length() - 1
    while step:
        at = g.binary("minimum", g.binary("add", y, step - 1), n - 1)
        at = g.binary("add", at, first) if first else at
        before = g.unary("logical_not", g.binary(above, g.add("embedding", [flat, at], values.shape, kind), values, "bool"))
        here = g.binary("le", g.binary("add", y, step), n, "bool") if n + 1 & n else None
        y = g.where(g.binary("logical_and", here, before, "bool") if here else before, g.binary("add", y, step), y)
        step //= 2
    return g.cast(y, "i32") if out_int32 else y


@call("searchsorted")
def _searchsorted(g, bounds, x, *, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        raise Unsupported("searchsorted with a sorter")
    x = x if isinstance(x, Value) else g.const(x, bounds.dtype)
    lead = bounds.shape[:-1]
    bounds = g.view(bounds, lead + [1, bounds.shape[-1]]) if lead else bounds
    return counted_below(g, g.view(x, x.shape + [1]), bounds, right or side == "right", out_int32)


@call("bucketize")
def _bucketize(g, x, bounds, *, out_int32=False, right=False):
    return _searchsorted(g, bounds, x, out_int32=out_int32, right=right)


@call("isin")
def _isin(g, x, among, *, assume_unique=False, invert=False):
    x = x if isinstance(x, Value) else g.value(x, among.dtype)
    if isinstance(among, Value):
        same = g.binary("eq", g.view(x, x.shape + [1]), g.view(among, [math.prod(among.shape)]), "bool")
        same = CALLS["any"](g, same, dim=-1)
    else:
        same = g.binary("eq", x, among, "bool")
    return g.unary("logical_not", same) if invert else same


@call("histc")
def _histc(g, x, bins=100, low=0, high=0):
    """Equal bins between two numbers, the last with its upper end; between the smallest and the largest where both are one."""
    x = g.view(x, [math.prod(x.shape)])
    wide = x if x.dtype in FLOATS else g.cast(x, "f64")
    if low == high:
        low, high = g.reduce("amin", wide, None, False), g.reduce("amax", wide, None, False)
        same = g.binary("eq", low, high, "bool")
        low, high = g.where(same, g.binary("sub", low, 1), low), g.where(same, g.binary("add", high, 1), high)
    span = g.binary("sub", high, low) if isinstance(high, Value) else high - low
    at = g.binary("div", g.binary("mul", g.binary("sub", wide, low), bins), span)
    at = g.binary("minimum", g.cast(g.unary("floor", at), "i64"), bins - 1)
    inside = g.binary("logical_and", g.binary("ge", wide, low, "bool"), g.binary("le", wide, high, "bool"))
    ones = g.expand(g.const(1, x.dtype), x.shape)
    return g.add("index_add", [ones, g.where(inside, at, -1)], [bins], x.dtype, start=bins)


@call("count_nonzero")
def _count_nonzero(g, x, *, dim=None):
    return g.reduce("sum", g.cast(g.cast(x, "bool"), "i64"), dim, False)


# ---- elements put at places

MOST_PLACED = 1 << 15  # along a line whose last ones have to be found: a rank looks at all pairs


def last_ones(g, index):
    """Along the last dimension: is an index the last one of those that are equal to it?"""
    n, dim = index.shape[-1], len(index.shape) - 1
    if n == 1:
        return None
    if n > MOST_PLACED:
        raise Unsupported(f"{n} elements put at places that a tensor names: of {MOST_PLACED} at most the last ones are found")
    order = ranks(g, index, dim, False)
    lines = math.prod(index.shape)
    flat = g.add("index_add", [along(g, index.shape, dim), places(g, index, dim, order)], [lines], "i64", start=lines)
    sorted_ = CALLS["gather"](g, index, dim, g.view(flat, index.shape))
    own, after = g.slice(sorted_, dim, 0, n - 1), g.slice(sorted_, dim, 1, n)
    last = g.pad(g.cast(g.binary("ne", own, after, "bool"), "i32"), [0, 1], 1)
    return g.binary("gt", CALLS["gather"](g, last, dim, order), 0, "bool")


def put(g, x, rows, flat, values, last):
    """x [R, …] flat in its first dimension, with values at flat [m] that are the last ones; others stay."""
    rest = x.shape[1:]
    where = flat if last is None else g.where(last, flat, -1)
    hit = g.add("index_add", [g.expand(g.const(1, "i32"), where.shape), where], [rows], "i32", start=rows)
    hit = g.view(g.binary("gt", hit, 0, "bool"), [rows] + [1] * len(rest))
    if not isinstance(values, Value) or math.prod(values.shape) == 1:
        return g.where(hit, g.view(values, []) if isinstance(values, Value) else values, x, x.dtype)
    kind = "i32" if x.dtype == "bool" else x.dtype
    values = g.expand(g.cast(values, kind), where.shape + rest)
    new = g.add("index_add", [values, where], [rows] + rest, kind, start=rows)
    return g.where(hit, g.cast(new, x.dtype), x, x.dtype)


FEW_PLACED, MOST_LOOKED_AT = 64, 1 << 24  # elements put, each looked for at each place; all in all


def put_few(g, x, dims, flat, values):
    """x with values [m, …] put at flat [m] along its dims, where each place looks at all that are put; the last one stays. What
    lies as x does is stored as it is read."""
    m, other = flat.shape[0], [d for d in range(len(x.shape)) if d not in dims]
    rows, rest = math.prod(x.shape[d] for d in dims), [x.shape[d] for d in other]
    axes = dims + other
    back = [axes.index(d) for d in range(len(axes))]

    def as_x(y, rest):
        return g.permute(g.view(y, [x.shape[d] for d in dims] + rest), back)
    here = g.binary("eq", g.view(flat, [1, m]), g.view(_arange(g, end=rows), [rows, 1]), "bool")
    which = g.reduce("amax", g.where(here, _arange(g, end=m), -1), -1, False)
    kind = "i32" if x.dtype == "bool" else x.dtype
    new = g.add("embedding", [g.cast(values, kind), g.binary("maximum", which, 0)], [rows] + rest, kind)
    hit = as_x(g.binary("ge", which, 0, "bool"), [1] * len(rest))
    return g.where(hit, as_x(g.cast(new, x.dtype), rest), x, x.dtype)


@call("index_put", "_unsafe_index_put")
def _index_put(g, x, indices, values, accumulate=False):
    """Of elements that are put at one place the last stays; PyTorch promises no order."""
    dims = [d for d, i in enumerate(indices) if i is not None]
    masks = [indices[d] for d in dims if indices[d].dtype == "bool"]
    if len(dims) == 1 and masks and not accumulate and math.prod(values.shape) == 1:
        mask = g.view(masks[0], [1] * dims[0] + masks[0].shape + [1] * (len(x.shape) - dims[0] - len(masks[0].shape)))
        return g.where(mask, g.view(values, []), x, x.dtype)
    if masks:
        raise Unsupported("elements changed at places that a mask names")
    flat, shape = None, broadcast(*[indices[d].shape for d in dims])
    for d in dims:
        i = g.expand(from_end(g, g.cast(indices[d], "i64"), x.shape[d]), shape)
        flat = i if flat is None else g.binary("add", g.binary("mul", flat, x.shape[d]), i)
    beside = dims == list(range(dims[0], dims[0] + len(dims)))
    other = [d for d in range(len(x.shape)) if d not in dims]
    before = len([d for d in other if d < dims[0]]) if beside else 0
    axes, rest = dims + other, [x.shape[d] for d in other]
    # values come as rest[:before], the index's own, rest[before:]
    values = g.expand(values, rest[:before] + shape + rest[before:])
    k = len(shape)
    values = g.permute(values, list(range(before, before + k)) + list(range(before)) + list(range(before + k, k + len(rest))))
    rows, m = math.prod(x.shape[d] for d in dims), math.prod(shape)
    flat, values = g.view(flat, [m]), g.view(values, [m] + rest)
    if not accumulate and 0 < m <= FEW_PLACED and rows * m <= MOST_LOOKED_AT:
        return put_few(g, x, dims, flat, values)
    laid = g.view(g.permute(x, axes), [rows] + rest)
    if accumulate:
        laid = g.binary("add", laid, g.add("index_add", [g.cast(values, x.dtype), flat], [rows] + rest, x.dtype, start=rows))
    else:
        laid = put(g, laid, rows, flat, values, last_ones(g, flat))
    return g.permute(g.view(laid, [x.shape[d] for d in axes]), [axes.index(d) for d in range(len(axes))])


@call("scatter")
def _scatter(g, x, dim, index, *, src=None, value=None, reduce=None):
    if reduce is not None:
        return _scatter_reduce(g, x, dim, index, src if src is not None else g.expand(g.value(value, x.dtype), index.shape),
                               {"add": "sum", "multiply": "prod"}.get(reduce, reduce))
    if not x.shape:
        return g.value(value if src is None else src, x.dtype)
    dim = dim % len(x.shape)
    if not math.prod(index.shape):
        return x
    flat = places(g, x, dim, index)
    last = None
    if src is not None:
        for d, n in enumerate(index.shape):
            src = g.slice(src, d, 0, n)
        moved = g.swap(index, dim, len(index.shape) - 1)
        last = last_ones(g, moved)
        last = g.view(g.swap(last, dim, len(index.shape) - 1), [math.prod(index.shape)]) if last is not None else None
        src = g.view(src, [math.prod(index.shape)])
    n = math.prod(x.shape)
    y = put(g, g.view(x, [n]), n, g.view(flat, [math.prod(index.shape)]), value if src is None else src, last)
    return g.view(y, x.shape)


MOST_REDUCED = 1 << 26  # pairs of a row and an element that may be put there


def reduced_at(g, x, dim, index, src, op):
    """Each row of x: what is put there, reduced, and whether there is any. A row looks at all elements of its line."""
    dim, n = dim % len(x.shape), x.shape[dim % len(x.shape)]
    if n * math.prod(index.shape) > MOST_REDUCED:
        raise Unsupported(f"{math.prod(index.shape)} elements reduced by {op} into lines of {n}")
    least = {"prod": 1, "amax": lowest(x.dtype), "amin": -lowest(x.dtype) if x.dtype in FLOATS else -lowest(x.dtype) - 1}[op]
    short = [m for d, size in reversed(list(enumerate(index.shape))) for m in (0, x.shape[d] - size if d != dim else 0)]
    index, src = (g.swap(g.pad(g.cast(v, kind), short, -1), dim, len(x.shape) - 1) for v, kind in ((index, "i64"), (src, x.dtype)))
    m, lead = index.shape[-1], index.shape[:-1]
    here = g.binary("eq", g.view(index, lead + [1, m]), g.view(_arange(g, end=n), [n, 1]), "bool")
    values = g.where(here, g.view(src, lead + [1, m]), least, x.dtype)
    some = g.binary("gt", g.reduce("sum", g.cast(here, "i32"), -1, False), 0, "bool")
    return g.swap(g.reduce(op, values, -1, False), dim, -1), g.swap(some, dim, -1)


@call("scatter_reduce")
@in_a_line
def _scatter_reduce(g, x, dim, index, src, reduce, *, include_self=True):
    for d, n in enumerate(index.shape):
        src = g.slice(src, d, 0, n)
    if reduce not in ("sum", "mean"):
        y, some = reduced_at(g, x, dim, index, src, reduce)
        joined = g.binary({"prod": "mul", "amax": "maximum", "amin": "minimum"}[reduce], x, y)
        return g.where(some, joined if include_self else y, x, x.dtype)
    n, flat = math.prod(x.shape), places(g, x, dim % len(x.shape), index)
    sums = g.view(g.add("index_add", [g.cast(src, x.dtype), flat], [n], x.dtype, start=n), x.shape)
    hits = g.add("index_add", [g.expand(g.const(1, x.dtype), index.shape), flat], [n], x.dtype, start=n)
    hits = g.view(hits, x.shape)
    none = g.binary("eq", hits, 0, "bool")
    if not include_self:
        x = g.where(none, x, 0, x.dtype)
    y = g.binary("add", x, sums)
    if reduce == "mean":
        count = g.binary("add", hits, 1) if include_self else g.where(none, 1, hits, x.dtype)
        y = CALLS["div"](g, y, count, rounding_mode=None if x.dtype in FLOATS else "floor")
    return y


@call("index_reduce")
@in_a_line
def _index_reduce(g, x, dim, index, source, reduce, *, include_self=True):
    """As scatter_reduce, with one index for all lines."""
    dim = dim % len(x.shape)
    index = g.view(index, [-1 if d == dim else 1 for d in range(len(x.shape))])
    return _scatter_reduce(g, x, dim, g.expand(index, source.shape), source, reduce, include_self=include_self)


@call("put")
def _put(g, x, index, source, accumulate=False):
    """At places of what lies flat."""
    n, m = math.prod(x.shape), math.prod(index.shape)
    return g.view(_index_put(g, g.view(x, [n]), [g.view(index, [m])], g.view(source, [m]), accumulate), x.shape)


@call("index_copy")
def _index_copy(g, x, dim, index, source):
    if not x.shape:
        return g.view(source, [])
    indices = [None] * (dim % len(x.shape)) + [g.view(index, [math.prod(index.shape)])]
    return _index_put(g, x, indices, source)


@call("index_fill")
def _index_fill(g, x, dim, index, value):
    value = value if isinstance(value, Value) else g.const(value, x.dtype)
    indices = [None] * (dim % max(len(x.shape), 1)) + [g.view(index, [math.prod(index.shape)])]
    return _index_put(g, x, indices, value) if x.shape else g.cast(value, x.dtype)


@call("masked_scatter")
def _masked_scatter(g, x, mask, source):
    """The source's elements one after another, where the mask is true."""
    mask = g.expand(g.cast(mask, "bool"), x.shape)
    n = math.prod(x.shape)
    count = g.unary("cumsum", g.cast(g.view(mask, [n]), "i64"), dim=0)
    flat = g.view(source, [math.prod(source.shape)])
    taken = g.add("embedding", [flat, g.binary("sub", count, 1)], [n], source.dtype)
    return g.where(mask, g.view(taken, x.shape), x, x.dtype)


@call("take")
def _take(g, x, index):
    n = math.prod(x.shape)
    return g.add("embedding", [g.view(x, [n]), from_end(g, index, n)], index.shape, x.dtype)


@call("take_along_dim")
def _take_along_dim(g, x, index, dim=None):
    if dim is None:
        return _take(g, x, g.view(index, [math.prod(index.shape)]))
    dim = dim % len(x.shape)
    shape = broadcast(x.shape[:dim] + [1] + x.shape[dim + 1:], index.shape[:dim] + [1] + index.shape[dim + 1:])
    x = g.expand(x, shape[:dim] + [x.shape[dim]] + shape[dim + 1:])
    return CALLS["gather"](g, x, dim, from_end(g, g.expand(index, shape[:dim] + [index.shape[dim]] + shape[dim + 1:]), x.shape[dim]))
