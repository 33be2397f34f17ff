"""Complex numbers of PyTorch in fusebox's ops, for scripts/import/from_torch.py: a tensor of them is two, and has two as a last
dimension only where a program looks at it as real numbers. As much as rotary embeddings take; transforms are none of it.

COMPLEX has the calls that take or give such a tensor, fn(graph, arguments…) as in torch_calls.py.
"""
import functools

from torch_calls import CALLS
from torch_graph import Complex, Unsupported, Value

OF = {"complex64": "f32", "complex128": "f64"}  # what its parts are


def of_tensor(g, name, tensor):
    """A weight or constant: two of them where it is complex."""
    if not tensor.is_complex():
        return g.tensor(name, tensor)
    if str(tensor.dtype).replace("torch.", "") not in OF:
        return g.tensor(name, tensor)  # which refuses it
    return Complex(g.tensor(name + "_re", tensor.real.resolve_conj()), g.tensor(name + "_im", tensor.imag.resolve_neg()))


def is_of(got, value):
    """Is it what PyTorch gives here, in shape and dtype?"""
    return isinstance(got, Complex) and OF.get(str(value.dtype).replace("torch.", "")) == got.dtype and list(value.shape) == got.shape


def any_in(x):
    return any(map(any_in, x)) if isinstance(x, (list, tuple)) else isinstance(x, Complex)


def whole(g, x):
    """A complex tensor of what may be a real tensor or a number."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, complex):
        return Complex(g.const(x.real, "f32"), g.const(x.imag, "f32"))
    x = x if isinstance(x, Value) else g.const(float(x), "f32")
    return Complex(x, None)


def joined(g, op, a, b):
    """Of sums: part by part. A number or a real tensor has no other part."""
    a, b = whole(g, a), whole(g, b)
    re = g.binary(op, a.re, b.re)
    im = g.binary(op, *(g.const(0, v.dtype) if v.im is None else v.im for v in (a, b)))
    return Complex(re, g.expand(im, re.shape))


def product(g, a, b, times=None):
    """Of products, of matrices too: (a + bi)(c + di)."""
    times, a, b = times or (lambda x, y: g.binary("mul", x, y)), whole(g, a), whole(g, b)
    if b.im is None:
        return Complex(times(a.re, b.re), times(a.im, b.re))
    if a.im is None:
        return Complex(times(a.re, b.re), times(a.re, b.im))
    return Complex(g.binary("sub", times(a.re, b.re), times(a.im, b.im)), g.binary("add", times(a.re, b.im), times(a.im, b.re)))


def divided(g, a, b):
    b = whole(g, b)
    if b.im is None:
        return Complex(g.binary("div", a.re, b.re), g.binary("div", a.im, b.re))
    square = g.binary("add", g.binary("mul", b.re, b.re), g.binary("mul", b.im, b.im))
    y = product(g, a, Complex(b.re, g.unary("neg", b.im)))
    return Complex(g.binary("div", y.re, square), g.binary("div", y.im, square))


def of_each(name):
    """A call that moves elements, or adds them up: the same for either part."""
    @functools.wraps(CALLS[name])  # whose words are looked at
    def fn(g, x, *more, **words):
        if isinstance(x, list) and not all(isinstance(v, Complex) for v in x):
            raise Unsupported(f"aten.{name} of complex and real tensors")

        def part(of):
            def pick(v):
                return [pick(one) for one in v] if isinstance(v, list) else getattr(v, of) if isinstance(v, Complex) else v
            return CALLS[name](g, pick(x), *pick(list(more)), **words)
        re, im = part("re"), part("im")
        return [Complex(a, b) for a, b in zip(re, im)] if isinstance(re, list) else Complex(re, im)
    return fn


def polar(g, r, angle):
    return Complex(g.binary("mul", r, g.unary("cos", angle)), g.binary("mul", r, g.unary("sin", angle)))


COMPLEX = {name: of_each(name) for name in (
    "view", "reshape", "_unsafe_view", "view_as", "permute", "transpose", "t", "expand", "slice", "select", "cat", "stack", "unbind", "flip",
    "flatten", "unflatten", "squeeze", "unsqueeze", "split", "split_with_sizes", "chunk", "repeat", "index", "index_select", "gather", "roll",
    "repeat_interleave", "narrow", "tile", "sum", "mean", "neg", "contiguous", "clone", "alias", "detach", "detach_", "lift_fresh_copy")}
COMPLEX.update({
    "view_as_complex": lambda g, x: Complex(g.select(x, -1, 0), g.select(x, -1, 1)),
    "view_as_real": lambda g, x: g.join("stack", [x.re, x.im], -1),
    "complex": lambda g, re, im: Complex(*(g.expand(v, CALLS["add"](g, re, im).shape) for v in (re, im))) if re.shape != im.shape else
    Complex(re, im),
    "polar": polar,
    "real": lambda g, x: x.re if isinstance(x, Complex) else x,
    "imag": lambda g, x: x.im,
    "abs": lambda g, x: CALLS["hypot"](g, x.re, x.im),
    "exp": lambda g, x: polar(g, g.unary("exp", x.re), x.im),
    "add": lambda g, a, b: joined(g, "add", a, b),
    "sub": lambda g, a, b: joined(g, "sub", a, b),
    "mul": lambda g, a, b: product(g, a, b),
    "div": divided,
    "matmul": lambda g, a, b: product(g, a, b, g.matmul),
})
for _name in ("_conj", "conj", "_conj_physical", "conj_physical"):
    COMPLEX[_name] = lambda g, x: Complex(x.re, g.unary("neg", x.im))
COMPLEX["_neg_view"] = COMPLEX["neg"]
for _name in ("resolve_conj", "resolve_neg"):
    COMPLEX[_name] = lambda g, x: x
for _name in ("bmm", "mm"):
    COMPLEX[_name] = COMPLEX["matmul"]
