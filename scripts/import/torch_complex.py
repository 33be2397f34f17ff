"""Complex numbers of PyTorch in fusebox's ops, for scripts/import/from_torch.py: a tensor of them is two, and has two as a last
dimension only where a program looks at it as real numbers. As much as rotary embeddings and Fourier transforms take.

COMPLEX has the calls that take or give such a tensor, fn(graph, arguments…) as in torch_calls.py.
"""
import functools
import math

from torch_calls import CALLS
from torch_graph import Complex, Unsupported, Value, refuse

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


# ---- transforms


MOST_DENSE, LONGEST = 128, 4096  # of a transform that is one product; of one whose length has no factors


def waves(g, name, rows, columns, length, sign, dtype):
    """exp(sign · 2πi · row · column / length), a constant, computed in double."""
    import torch
    turn = (torch.arange(rows)[:, None] * torch.arange(columns)[None, :] % length).double() * (sign * 2 * math.pi / length)
    kind = torch.float64 if dtype == "f64" else torch.float32
    return Complex(*(g.tensor(f"{name}_{rows}_{columns}_{part}", fn(turn).to(kind)) for part, fn in (("re", torch.cos), ("im", torch.sin))))


def both(x, fn):
    return Complex(fn(x.re), fn(x.im) if x.im is not None else None)


def transformed(g, x, sign):
    """Along the last dimension: a product with all waves, or two shorter transforms with turns between them (Cooley and Tukey)."""
    n, lead = x.shape[-1], x.shape[:-1]
    short = next((k for k in range(int(n**0.5), 1, -1) if n % k == 0), 1) if n > MOST_DENSE else 1
    if short == 1:
        if n > LONGEST:
            raise Unsupported(f"a Fourier transform of length {n}, which has no factors")
        return product(g, x, waves(g, "dft", n, n, n, sign, x.dtype), g.matmul)
    rows = n // short  # x[row · short + column]
    rank = len(lead)
    swapped = list(range(rank)) + [rank + 1, rank]
    y = both(x, lambda v: g.permute(g.view(v, lead + [rows, short]), swapped))  # [column, row]
    y = transformed(g, y, sign)  # [column, low]
    y = product(g, y, waves(g, "turns", short, rows, n, sign, x.dtype))
    y = transformed(g, both(y, lambda v: g.permute(v, swapped)), sign)  # [low, high]
    return both(y, lambda v: g.view(g.permute(v, swapped), lead + [n]))


def along_dims(g, x, dims, sign, scale):
    for d in dims:
        x = both(transformed(g, both(x, lambda v: g.swap(v, d, -1)), sign), lambda v: g.swap(v, d, -1))
    return both(x, lambda v: g.binary("mul", v, scale)) if scale != 1 else x


def scale_of(normalization, sizes):
    """PyTorch's fft_norm_mode: as it is, by the root of the length, by the length."""
    n = math.prod(sizes)
    return {0: 1, 1: n**-0.5, 2: 1 / n}[normalization]


def fft_c2c(g, x, dim, normalization, forward):
    return along_dims(g, x, dim, -1 if forward else 1, scale_of(normalization, [x.shape[d] for d in dim]))


def fft_r2c(g, x, dim, normalization, onesided):
    y = along_dims(g, Complex(x, None), dim[::-1], -1, scale_of(normalization, [x.shape[d] for d in dim]))
    return both(y, lambda v: g.slice(v, dim[-1], 0, x.shape[dim[-1]] // 2 + 1)) if onesided else y


def fft_c2r(g, x, dim, normalization, last_dim_size):
    """The half that is not given is the other's, mirrored and conjugated; of the ends only the real part counts."""
    n, last = last_dim_size, dim[-1]
    x = along_dims(g, x, dim[:-1], 1, 1)
    scale = scale_of(normalization, [x.shape[d] for d in dim[:-1]] + [n])
    half, lines = n // 2 + 1, [0, 0] * (len(x.shape) - 1 - last)
    x = both(x, lambda v: g.pad(g.slice(v, last, 0, half), lines + [0, max(half - v.shape[last], 0)]))
    if n > 2:
        mirrored = both(x, lambda v: g.unary("flip", g.slice(v, last, 1, n - n // 2), axes=[last]))
        x = Complex(g.join("cat", [x.re, mirrored.re], last), g.join("cat", [x.im, g.unary("neg", mirrored.im)], last))
    return along_dims(g, x, [last], 1, scale).re


def stft(g, x, n_fft, hop_length=None, win_length=None, window=None, normalized=False, onesided=None, return_complex=None,
         align_to_window=None):
    """Transforms of windows that are `hop` apart; what lies around the signal was padded before."""
    if return_complex is False:
        raise Unsupported("stft without return_complex")
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    is_line = len(x.shape) == 1
    frames = g.unfold(g.view(x, [1] + x.shape) if is_line else x, 1, n_fft, hop)
    if window is not None or length < n_fft:
        window = g.expand(g.const(1, x.dtype), [length]) if window is None else window
        before = (n_fft - length) // 2
        frames = g.binary("mul", frames, g.pad(window, [before, n_fft - length - before]))
    y = fft_r2c(g, frames, [2], 1 if normalized else 0, onesided is not False)
    y = both(y, lambda v: g.swap(v, 1, 2))
    return both(y, lambda v: g.view(v, v.shape[1:])) if is_line else y


def polar(g, r, angle):
    return Complex(g.binary("mul", r, g.unary("cos", angle)), g.binary("mul", r, g.unary("sin", angle)))


def copied(g, x, *, dtype=None):
    """As complex numbers, which a real tensor becomes here too."""
    if dtype is not None and str(dtype).replace("torch.", "") not in OF:
        raise Unsupported(f"complex numbers as {str(dtype).replace('torch.', '')}")
    kind = OF[str(dtype).replace("torch.", "")] if dtype is not None else x.dtype
    if isinstance(x, Complex):
        return Complex(g.cast(x.re, kind), g.cast(x.im, kind))
    return Complex(g.cast(x, kind), g.expand(g.const(0, kind), x.shape))


COMPLEX = {name: of_each(name) for name in (
    "view", "reshape", "_unsafe_view", "view_as", "permute", "transpose", "t", "expand", "slice", "select", "cat", "stack", "unbind", "flip",
    "flatten", "unflatten", "squeeze", "unsqueeze", "split", "split_with_sizes", "chunk", "repeat", "index", "index_select", "gather", "roll",
    "repeat_interleave", "narrow", "tile", "sum", "mean", "neg", "contiguous", "clone", "alias", "detach", "detach_", "lift_fresh_copy")}
COMPLEX.update({
    "_to_copy": copied,
    "to": copied,
    "constant_pad_nd": lambda g, x, amounts, value=0: both(x, lambda v: g.pad(v, amounts, 0)) if not value else refuse(
        "complex numbers padded with others than 0"),
    "view_as_complex": lambda g, x: Complex(g.select(x, -1, 0), g.select(x, -1, 1)),
    "view_as_real": lambda g, x: g.join("stack", [x.re, x.im], -1),
    "complex": lambda g, re, im: Complex(*(g.expand(v, CALLS["add"](g, re, im).shape) for v in (re, im))) if re.shape != im.shape else
    Complex(re, im),
    "polar": polar,
    "_fft_c2c": fft_c2c,
    "_fft_r2c": fft_r2c,
    "_fft_c2r": fft_c2r,
    "stft": stft,
    "real": lambda g, x: x.re if isinstance(x, Complex) else x,
    "imag": lambda g, x: x.im,
    "abs": lambda g, x: CALLS["hypot"](g, x.re, x.im),
    "angle": lambda g, x: g.binary("atan2", x.im, x.re),
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
