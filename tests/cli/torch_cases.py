"""Single calls for tests/cli/from_torch.sh. A row is a name, a function and its example inputs; the rows of a group are one
module, which gives what each of them gives. What is in REFUSED must be refused, all of it at once."""
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(1)  # weights are the same each time


class Cases(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.fns = [row[1] for row in rows]
        self.modules_of = nn.ModuleList([fn for fn in self.fns if isinstance(fn, nn.Module)])
        self.counts = [len(row) - 2 for row in rows]

    def forward(self, *inputs):
        out, at = [], 0
        for fn, n in zip(self.fns, self.counts):
            y = fn(*inputs[at:at + n])
            out, at = out + list(y if isinstance(y, (tuple, list)) else [y]), at + n
        return tuple(out)


def x(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def n(*shape, low=-5, high=6, dtype=torch.int64):
    return torch.randint(low, high, shape, dtype=dtype)


def b(*shape):
    return torch.randint(0, 2, shape).bool()


def changed(fn):
    """fn changes a copy of its operand."""
    def run(y, *rest):
        y = y * 1
        fn(y, *rest)
        return y
    return run


def set_to(index, value):
    return changed(lambda y: y.__setitem__(index, value))


def add_to(index, value):
    return changed(lambda y: y.__setitem__(index, y[index] + value))


bf16, f16, f64, i32 = torch.bfloat16, torch.float16, torch.float64, torch.int32
all_ = slice(None)

def put_one_after_another(y):
    y[1] = 0
    y[torch.tensor([0, 2]), 1] = 5.0
    y[:, torch.tensor([3, 4])] = y[:, torch.tensor([0, 5])]
    y[2:, ::2] = -1


IN_PLACE = [
    ("last two columns", set_to((all_, slice(-2, None)), 0), x(4, 9)),
    ("two before the last", add_to((all_, slice(-3, -1)), 5), x(4, 9)),
    ("every second", set_to((all_, slice(1, None, 2)), 7), x(4, 9)),
    ("every third from the second, to the eighth", add_to((all_, slice(2, 8, 3)), 1), x(4, 9)),
    ("rows from behind", set_to(slice(-3, None), 1.5), x(4, 9)),
    ("a row from behind", set_to(-1, 2), x(4, 9)),
    ("nothing", set_to((all_, slice(5, 5)), 0), x(4, 9)),
    ("beyond the end", set_to((all_, slice(6, 100)), 0), x(4, 9)),
    ("a middle dimension", add_to((all_, slice(-2, -1)), 3), x(2, 5, 3)),
    ("another tensor", changed(lambda y, v: y[1:3].copy_(v)), x(4, 3), x(2, 3)),
    ("broadcast into a part", changed(lambda y, v: y[:, 1:].copy_(v)), x(4, 3), x(2)),
    ("by a mask", changed(lambda y: y.__setitem__(y > 0, 0.25)), x(4, 3)),
    ("masked fill", changed(lambda y: y.masked_fill_(y < 0, -1)), x(4, 3)),
    ("integers from floats", set_to((all_, slice(0, 1)), 2), n(3, 3)),
]
PROMOTION = [
    ("int + float", lambda a, v: a + v, n(4), x(4)),
    ("int + number", lambda a: a + 0.5, n(4)),
    ("i32 + i64", lambda a, v: a + v, n(4, dtype=i32), n(4)),
    ("bool + int", lambda a, v: a + v, b(4), n(4)),
    ("bool + bool", lambda a, v: a + v, b(4), b(4)),
    ("bool * float", lambda a, v: a * v, b(4), x(4)),
    ("bool * bool", lambda a, v: a * v, b(4), b(4)),
    ("bool + number", lambda a: (a + 1, a + 1.5, a * 2), b(4)),
    ("bf16 + f16", lambda a, v: a.to(bf16) + v.to(f16), n(4), n(4)),
    ("bf16 + scalar tensor", lambda a, v: a.to(bf16) + v.sum(), n(4), x(3)),
    ("int + scalar tensor of floats", lambda a, v: a + v.sum(), n(4), x(3)),
    ("i32 + scalar tensor of i64", lambda a, v: a + v.sum(), n(4, dtype=i32), n(3)),
    ("int / int", lambda a, v: a / v, n(4), n(4, low=1)),
    ("int / number", lambda a: (a / 2, 3 / (a.abs() + 1)), n(4)),
    ("int // int", lambda a, v: (a // v, torch.div(a, v, rounding_mode="trunc"), a % v, torch.fmod(a, v)), n(9), n(9, low=1)),
    ("float // float", lambda a, v: (a // v, torch.div(a, v, rounding_mode="trunc"), a % v, torch.fmod(a, v)), x(9), x(9)),
    ("float // number", lambda a: (a // 0.3, a % 0.7, torch.remainder(2, a)), x(9)),
    ("mean of int as float", lambda a: a.mean(dtype=torch.float32), n(5)),
    ("mean of int by way of float", lambda a: a.float().mean(0), n(5, 3)),
    ("sum of i32", lambda a: (a.sum(), a.sum(0), a.cumsum(0), a.prod(1), a.cumprod(1)), n(3, 4, dtype=i32)),
    ("sum of bool", lambda a: (a.sum(), a.sum(1, keepdim=True), a.cumsum(0), a.cumprod(0)), b(3, 4)),
    ("sum as another dtype", lambda a: (a.sum(dtype=f64), a.sum(0, dtype=torch.float32)), n(3, 4, dtype=i32)),
    ("compare int and float", lambda a, v: (a > v, a == 2.0, a <= 0.5, v != a), n(6), x(6)),
    ("compare bools", lambda a, v: (a == v, a != v, a ^ v), b(6), b(6)),
    ("logic of numbers", lambda a, v: (torch.logical_and(a, v), torch.logical_not(a), torch.logical_xor(a, v), a.bool()), n(6), x(6)),
    ("where of unlike dtypes", lambda c, a: (torch.where(c, a, 0.5), torch.where(c, 1.5, a), torch.where(c, 1, 0)), b(6), n(6)),
    ("where of a tensor and a number", lambda c, a: torch.where(c, a, -1), b(6), x(6)),
    ("masked fill keeps its dtype", lambda a, c: a.masked_fill(c, 3), n(6), b(6)),
    ("functions of int", lambda a: (a.sqrt(), (-a).exp(), a.sigmoid(), a.tanh(), a.reciprocal()), n(6, low=1)),
    ("rounding of int", lambda a: (a.floor(), a.ceil(), a.round(), a.trunc()), n(6)),
    ("rounding", lambda a: (a.floor(), a.ceil(), a.round(), a.trunc(), a.frac()), x(6) * 3),
    ("sign and abs", lambda a, v: (a.sign(), a.abs(), -a, v.sign()), n(6), b(6)),
    ("powers of int", lambda a: (a**2, a**3, a**0, a**1, a**2.0), n(6)),
    ("powers", lambda a: (a.abs()**2.5, a**2, a**-1, 2**a, torch.pow(a.abs(), a)), x(6)),
    ("clamp of int", lambda a: (a.clamp(-1, 2), a.clamp(min=0.5), a.clamp_max(1), a.clamp(3, -1)), n(6)),
    ("clamp by tensors", lambda a, v: (a.clamp(v, v + 1), a.clamp(max=v)), x(6), x(6)),
    ("cat of unlike dtypes", lambda a, v, c: (torch.cat([a, v]), torch.cat([c, a]), torch.stack([a, c])), n(3), x(3), b(3)),
    ("to float, int, bool", lambda a: (a.to(i32), a.long(), a.bool(), a.double(), (a * 2).to(torch.int64)), x(9) * 2),
    ("subtract with a factor", lambda a, v: (torch.sub(a, v, alpha=2), torch.rsub(a, v, alpha=3), torch.add(v, a, alpha=2)), n(4), x(4)),
    ("bits", lambda a, v: (a & v, a | 3, a ^ v, ~a), n(6), n(6)),
    ("any and all", lambda a, v: (a.any(), a.all(1), v.any(0), v.all(), a.max(), a.amin(1)), b(3, 4), n(3, 4)),
    ("full and like", lambda a: (torch.full((2,), 3) + a[0], torch.ones_like(a) + a, a.new_zeros(3) + 1, torch.full((2,), 1.5) * a[0],
                                 torch.zeros_like(a, dtype=torch.float32) + a, a.new_full((2,), 4) * a[0]), n(3)),
    ("ranges", lambda a: (torch.arange(4) + a, torch.arange(1, 9, 2) * a, torch.arange(4.0) + a, torch.arange(0, 1, 0.25) * a), n(4)),
    ("softmax as another dtype", lambda a: (a.softmax(-1, dtype=torch.float32), a.log_softmax(-1, dtype=torch.float32)),
     x(3, 4, dtype=bf16)),
    ("one hot", lambda a: F.one_hot(a, 7), n(4, low=0)),
    ("mean of a product of bools", lambda a, v: (a & (v > 0)).float().mean(), b(9), x(9)),
]
REDUCTIONS = [
    ("std, biased", lambda a: (a.std(unbiased=False), a.var(unbiased=False), a.std(0, unbiased=False), a.var(-1)), x(4, 5)),
    ("std with a correction", lambda a: (a.std(1, correction=0), a.var((0, 1), correction=2, keepdim=True), a.std()), x(4, 5)),
    ("var and mean", lambda a: torch.var_mean(a, 1, unbiased=False), x(4, 5)),
    ("max", lambda a, v: (*a.max(1), a.max(), *a.min(0, keepdim=True), a.min(), torch.max(a, v), torch.min(a, v)), x(4, 5), x(4, 5)),
    ("argmax", lambda a: (a.argmax(), a.argmin(1), a.argmax(0, keepdim=True)), x(4, 5)),
    ("amax", lambda a: (a.amax(), a.amin((0, 2)), a.amax(-1, keepdim=True)), x(2, 3, 4)),
    ("logsumexp", lambda a: (a.logsumexp(1), a.logsumexp((0, 1)), a.logsumexp(-1, keepdim=True)), x(4, 5)),
    ("norms", lambda a: (a.norm(), a.norm(dim=1), a.norm(p=1, dim=0), a.norm(p=3, dim=1, keepdim=True), a.norm(float("inf"), dim=0),
                         torch.linalg.vector_norm(a, 0, dim=1), torch.linalg.vector_norm(a, -float("inf"), dim=1)), x(4, 5)),
    ("normalized", lambda a: F.normalize(a, dim=1), x(4, 5)),
    ("cumulative", lambda a: (a.cumsum(1), a.cumprod(1), a.cumprod(0)), x(4, 9)),
    ("products of one, of none", lambda a: (a.sum().cumprod(0), a[:, :1].cumprod(-1), a[:0].cumprod(0), a.double().cumprod(1)), x(4, 9)),
    ("products before and behind", lambda a: (torch.cat([torch.ones(4, 1), a[:, :-1]], 1).cumprod(1), a.flip(1).cumprod(1).flip(1),
                                              torch.cumprod(torch.cat([a[:, 1:], torch.ones(4, 1)], 1).flip([1]), -1).flip([1])), x(4, 9)),
    ("products", lambda a: (a.prod(), a.prod(1), a.prod(0, keepdim=True)), x(3, 4)),
    ("softmax", lambda a: (a.softmax(0), a.log_softmax(-1), F.softmin(a, 1)), x(4, 5)),
    ("losses", lambda a, v: (F.mse_loss(a, v), F.l1_loss(a, v, reduction="sum"), F.smooth_l1_loss(a, v), F.huber_loss(a, v, delta=0.5)),
     x(4, 5), x(4, 5)),
    ("cosine similarity", lambda a, v: F.cosine_similarity(a, v), x(4, 5), x(4, 5)),
    ("distances", lambda a, v: (torch.cdist(a, v), torch.cdist(a, v, p=1), F.pairwise_distance(a, v[:4])), x(4, 5), x(6, 5)),
    ("more losses", lambda a, v: (F.kl_div(a.log_softmax(1), v.softmax(1), reduction="batchmean"), F.triplet_margin_loss(a, v, a + v),
                                  F.binary_cross_entropy_with_logits(a, v.sigmoid()), F.hinge_embedding_loss(a, v.sign())), x(3, 4), x(3, 4)),
    ("cross entropy", lambda a, v: F.cross_entropy(a, v), x(4, 5), n(4, low=0, high=5)),
]
SHAPES = [
    ("triangles", lambda a: (a.tril(), a.triu(1), a.tril(-1)), x(4, 5)),
    ("repeats", lambda a: (a.repeat(2, 3), a.repeat(2, 1, 1), a.repeat_interleave(3, 1), a.repeat_interleave(2), a.tile(2)), x(2, 3)),
    ("rolls", lambda a: (a.roll(1, 0), a.roll((1, -2), (0, 1)), a.roll(2)), x(3, 4)),
    ("flips", lambda a: (a.flip(0), a.flip((0, 1)), a.fliplr()), x(3, 4)),
    ("views", lambda a: (a.unfold(1, 3, 2), a.diagonal(), a.narrow(1, -3, 2), a.movedim(0, 1), a.unflatten(1, (2, 3)), a.T), x(4, 6)),
    ("splits", lambda a: (*a.split(4, 1), *a.chunk(3), *a.unbind(0)), x(3, 6)),
    ("squeezes", lambda a: (a.squeeze(), a.squeeze(1), a.unsqueeze(-1), a.flatten(1)), x(3, 1, 4)),
    ("gathers", lambda a, i: (a.gather(1, i), a[i[:, 0] % 3], a.index_select(1, i[0]), a[:, i[0]]), x(3, 6), n(3, 4, low=0, high=6)),
    ("gathers apart", lambda a, i: (a[i, :, i], a[:, i, i], a[i - 2]), x(3, 3, 3), n(4, low=0, high=3)),
    ("sums by index", lambda a, i, v: (a.index_add(0, i, v), a.scatter_add(0, i.view(4, 1).expand(4, 5), v),
                                       a.index_put((i,), v, accumulate=True)),
     x(3, 5), n(4, low=0, high=3), x(4, 5)),
    ("pads", lambda a: (F.pad(a, (1, 2)), F.pad(a, (1, -1, 0, 2), value=3.0), F.pad(a, (-1, -1))), x(3, 5)),
    ("pads by what is there", lambda a: (F.pad(a, (1, 2), mode="reflect"), F.pad(a, (2, 1), mode="replicate"),
                                          F.pad(a, (1, 1), mode="circular")),
     x(2, 3, 5)),
    ("products of three", lambda a, v, w: (torch.einsum("ij,jk,kl->il", a, v, w), torch.einsum("ij,jk", a, v), torch.einsum("ij->j", a)),
     x(2, 3), x(3, 4), x(4, 5)),
    ("products", lambda a, v: (a @ v, torch.outer(v, v), torch.dot(v, v), torch.baddbmm(a, a, a.transpose(1, 2) @ a)), x(2, 4, 4), x(4)),
    ("dots in einsum", lambda a, v: (torch.einsum("...ij,jk->...ik", a, v), torch.einsum("ij...,j->i...", a, v[0, :3]),
                                     torch.einsum("...i,...i", a, a[:1]), torch.einsum("b...d,hd->b...h", a, v.T)), x(2, 3, 4), x(4, 5)),
    ("diagonals in einsum", lambda a, v: (torch.einsum("bii->b", a), torch.einsum("bii->bi", a), torch.einsum("iij,j->i", v, v[0, 0]),
                                          torch.einsum("bij,bjj->bi", a, a)), x(2, 3, 3), x(4, 4, 5)),
    ("sampled", lambda a, v: (F.grid_sample(a, v, align_corners=True), F.grid_sample(a, v, mode="nearest", padding_mode="border",
                                                                                     align_corners=False)), x(2, 3, 6, 5), x(2, 4, 3, 2)),
    ("grids", lambda a, v: torch.meshgrid(a, v, indexing="ij"), x(3), x(4)),
    ("pixels", lambda a: (F.pixel_shuffle(a, 2), F.pixel_unshuffle(a, 2)), x(1, 4, 4, 4)),
]
POOLS = [
    ("edges that do not count", lambda a: F.avg_pool2d(a, 3, 2, 1, count_include_pad=False), x(2, 3, 7, 8)),
    ("another divisor", lambda a: F.avg_pool2d(a, 2, divisor_override=3), x(2, 3, 6, 6)),
    ("means rounded up", lambda a: (F.avg_pool2d(a, 3, 2, 1, ceil_mode=True), F.avg_pool2d(a, 2, 2, ceil_mode=True, count_include_pad=False)),
     x(2, 3, 6, 7)),
    ("means", lambda a: (F.avg_pool2d(a, (2, 3), (1, 2), (1, 0)), F.avg_pool1d(a[0], 3, 1, 1), F.avg_pool3d(a, 2)), x(1, 2, 4, 6, 6)[0]),
    ("maxima rounded up", lambda a: (F.max_pool2d(a, 3, 2, 1, ceil_mode=True), F.max_pool2d(a, 2, ceil_mode=True)), x(2, 3, 6, 7)),
    ("maxima", lambda a: (F.max_pool2d(a, 3, 1, 1, 2), F.max_pool1d(a[0], 3), F.max_pool3d(a, 2, 1)), x(2, 6, 7, 7)),
    ("of one picture", lambda a: (F.adaptive_avg_pool2d(a, 1), F.adaptive_avg_pool2d(a, (2, 3)), F.max_pool2d(a, 2), F.avg_pool2d(a, 2)),
     x(3, 6, 6)),
    ("adaptive", lambda a: (F.adaptive_avg_pool2d(a, (3, 4)), F.adaptive_max_pool2d(a, (3, 2)), F.adaptive_avg_pool1d(a[0], 3),
                          F.adaptive_avg_pool2d(a, (None, 1))),
     x(2, 3, 7, 8)),
    ("adaptive in three dimensions", lambda a: F.adaptive_avg_pool3d(a, (1, 2, 3)), x(1, 2, 3, 4, 5)),
    ("nearest", lambda a: F.interpolate(a, scale_factor=2), x(1, 2, 3, 3)),
]
CONVOLUTIONS = [
    ("groups", nn.Conv2d(4, 6, 3, groups=2), x(2, 4, 6, 6)),
    ("depthwise", nn.Conv2d(4, 4, 3, 2, 1, groups=4, bias=False), x(2, 4, 6, 6)),
    ("as large as before", nn.Conv2d(2, 3, (3, 4), padding="same", dilation=(1, 2)), x(1, 2, 6, 7)),
    ("no padding", nn.Conv1d(2, 3, 3, padding="valid"), x(1, 2, 6)),
    ("one picture", nn.Conv2d(2, 3, 3), x(2, 5, 5)),
    ("one dimension, groups", nn.Conv1d(4, 4, 3, 2, 2, 2, 2), x(2, 4, 9)),
    ("three dimensions", nn.Conv3d(2, 3, (2, 3, 2), (1, 2, 1), (0, 1, 1)), x(1, 2, 4, 5, 4)),
    ("circular", nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), x(1, 2, 6)),
    ("transposed", nn.ConvTranspose2d(3, 2, 3, 2, 1, 1), x(2, 3, 4, 5)),
    ("transposed, groups", nn.ConvTranspose2d(4, 6, (3, 2), (2, 1), groups=2, dilation=2), x(1, 4, 4, 5)),
    ("transposed, one dimension", nn.ConvTranspose1d(3, 2, 4, 3, 2, bias=False), x(2, 3, 5)),
    ("transposed, padded more than the kernel", nn.ConvTranspose1d(2, 2, 2, 2, 2), x(1, 2, 6)),
    ("transposed, three dimensions", nn.ConvTranspose3d(2, 3, 3, 2, 1), x(1, 2, 3, 3, 2)),
]
NORMS = [
    ("groups", nn.GroupNorm(2, 6), x(3, 6, 4, 4)),
    ("instances", nn.InstanceNorm2d(3, affine=True), x(2, 3, 4, 4)),
    ("instances without weights", nn.InstanceNorm1d(3), x(2, 3, 5)),
    ("rms", nn.RMSNorm(5, eps=1e-6), x(3, 5)),
    ("layers", nn.LayerNorm((3, 4), elementwise_affine=False), x(2, 3, 4)),
    ("batches", nn.BatchNorm1d(4).eval(), x(3, 4)),
    ("no weights", nn.BatchNorm2d(3, affine=False).eval(), x(2, 3, 2, 2)),
]
ACTIVATIONS = [(f.__name__, f, x(3, 5) * 3) for f in (
    F.mish, F.softplus, F.hardswish, F.hardsigmoid, F.hardtanh, F.relu6, F.elu, F.selu, F.celu, F.logsigmoid, F.softsign, F.tanhshrink,
    F.softshrink, F.hardshrink, F.leaky_relu, F.gelu, F.silu, F.relu)] + [
    ("softplus, sharp", lambda a: (F.softplus(a, 2, 1), F.softplus(a * 30)), x(3, 5)),
    ("elu of another height", lambda a: (F.elu(a, 0.5), F.celu(a, 2.0), F.hardtanh(a, -2, 0.5), F.threshold(a, 0.1, 7)), x(3, 5)),
    ("gelu by tanh", lambda a: F.gelu(a, approximate="tanh"), x(3, 5)),
    ("rrelu", nn.RReLU().eval(), x(3, 5)),
    ("prelu", nn.PReLU(3, 0.3), x(2, 3, 4)),
    ("glu", lambda a: F.glu(a, 1), x(3, 6)),
    ("hyperbolic", lambda a: (a.sinh(), a.cosh(), a.tanh().mul(0.9).atanh(), (a * 1e-3).expm1(), (a * 20).expm1()), x(3, 5)),
    ("inverse", lambda a: (a.atan(), a.tanh().asin(), a.tanh().acos(), a.asinh(), (a * 1e6).asinh(), (a.abs() + 1).acosh(),
                           (a * 0.3).erfinv(), torch.special.ndtri(a.sigmoid())), x(3, 5)),
    ("angles and sides", lambda a, v: (torch.atan2(a, v), torch.copysign(a, v), torch.copysign(v, a * 0), a.signbit(), a.angle(),
                                       torch.fmax(a, v), torch.fmin(a / 0, (v - v) / (v - v)), torch.ldexp(a, v.round())), x(3, 5), x(5)),
    ("gamma", lambda a: ((a.abs() + 0.1).lgamma(), (a.abs() + 0.1).digamma(), (a.abs() + 3).mvlgamma(3), a.lgamma()), x(3, 5)),
    ("rounded", lambda a: (a.round(decimals=2), (a * 100).round(decimals=-1)), x(3, 5)),
    ("shifts", lambda a, w: (a << 3, a >> 1, w << 2, w >> 2), n(3, 5), n(3, 5, dtype=torch.int32)),
    ("others", lambda a: (a.abs().log1p(), a.expm1(), a.abs().log10(), a.tan(), a.square(), torch.lerp(a, a * 2, 0.3)), x(3, 5)),
    ("products and quotients added", lambda a, v: (torch.addcmul(a, v, v, value=2), torch.addcdiv(a, v, v.abs() + 1, value=0.5)),
     x(3), x(3)),
] + [(f"{f.__name__} in {dtype}", f, x(3, 5, dtype=dtype) * 3) for dtype in (bf16, f16) for f in (
    F.hardswish, F.hardsigmoid, F.elu, F.selu, F.celu, F.leaky_relu, F.gelu, F.mish, F.softplus)] + [
    (f"numbers of no 16 bits, {dtype}", lambda a: (F.gelu(a, approximate="tanh"), F.celu(a, 0.7), F.leaky_relu(a, 0.3)),
     x(3, 5, dtype=dtype)) for dtype in (bf16, f16)]


class Contexts(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, a):
        with torch.no_grad():
            y = self.l(a)
        with torch.autocast("cpu", enabled=False):
            y = y + self.l(a)
        with torch.autocast("cpu", dtype=bf16):
            z = self.l(a)
        return y, z, z + y


def gqa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


LAYERS = [
    ("contexts", Contexts(), x(3, 4)),
    ("lstm that projects", nn.LSTM(4, 6, 2, proj_size=3, bidirectional=True), x(3, 2, 4)),
    ("rnn", nn.RNN(4, 3), x(3, 2, 4)),
    ("rnn with relu", nn.RNN(4, 3, 2, nonlinearity="relu", bias=False, batch_first=True), x(2, 3, 4)),
    ("lstm without a batch", nn.LSTM(4, 3), x(3, 4)),
    ("grouped queries", gqa, x(2, 4, 3, 5), x(2, 2, 3, 5), x(2, 2, 3, 5)),
    ("a mask with an empty row", lambda q, m: F.scaled_dot_product_attention(q, q, q, m & (torch.arange(3).view(3, 1) > 0)),
     x(2, 3, 5), b(3, 3)),
    ("a causal mask", lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.3), x(2, 3, 5)),
    ("bilinear", nn.Bilinear(3, 4, 2), x(5, 3), x(5, 4)),
    ("embedding with a gap", nn.Embedding(7, 3, padding_idx=0), n(4, low=0)),
]


def odd(fn):
    """fn of equal elements, infinities and what is no number."""
    def run(a):
        y = (a * 2).round()
        y = torch.where(y == 1, math.nan, y)
        return fn(torch.where(y.abs() > 3, y * math.inf, y))
    return run


SORTS = [
    ("sorted", lambda a: (*a.sort(), *a.sort(0, descending=True), *torch.sort(a, stable=True, dim=1), a.msort()), x(5, 6)),
    ("equals and what is no number", odd(lambda a: (*a.sort(stable=True), *torch.sort(a, stable=True, descending=True, dim=0),
                                                    a.median(), *a.median(1), *a.cummax(1), *a.cummin(0))), x(9, 20)),
    ("whole numbers", lambda i: (*i.sort(stable=True), torch.argsort(i, dim=0, stable=True)), n(4, 7)),
    ("truth values", lambda m: torch.sort(m, stable=True), b(3, 6)),
    ("narrow floats", lambda a: (*a.sort(), a.topk(2).values), x(3, 5, dtype=bf16)),
    ("the first of them", lambda a: (*a.topk(3), *a.topk(2, 0, largest=False), *a.topk(6), a.kthvalue(2, keepdim=True).values), x(4, 6)),
    ("in the middle", lambda a: (a.median(), *a.median(1), *a.kthvalue(2, 0)), x(3, 6)),
    ("of one", lambda a: (*a.sort(0), *a.topk(1, 0), *a.sum().sort(0)), x(1, 4)),
    ("more dimensions", lambda a: (*a.sort(1), *a.topk(2, -2)), x(2, 5, 3)),
    ("so far", lambda a: (*a.cummax(1), *a.cummin(0), a.logcumsumexp(1)), x(4, 7)),
    ("so far, equals", lambda i: (*i.cummax(1), *i.cummin(1)), n(3, 9)),
    ("searches", lambda a, w: (torch.searchsorted(w.sort().values, a), torch.bucketize(a, w.sort().values, right=True),
                               torch.searchsorted(a.sort(1).values, a, side="right", out_int32=True)), x(3, 5), x(4)),
    ("counts", lambda a, i: (torch.histc(a, 5, -1, 1), torch.histc(a, 4), a.relu().count_nonzero(1), torch.isin(i, i[0, :2])),
     x(6, 7), n(3, 4)),
    ("experts", lambda a, w: torch.einsum("tk,tkh->th", a.softmax(1).topk(2).values, w[a.topk(2).indices]), x(5, 4), x(4, 3)),
]
PLACES = [
    ("put", lambda a, v: (a.index_put((torch.tensor([2, 0]),), v), a.index_put((torch.tensor([0, 2]), torch.tensor([1, -1])), v[:, 0])),
     x(3, 4), x(2, 4)),
    ("put apart", changed(lambda y, v: y.__setitem__((torch.tensor([1, 0]), slice(None), torch.tensor([2, 3])), v)), x(2, 3, 4), x(2, 3)),
    ("put behind", changed(lambda y, v: y.__setitem__((slice(None), torch.tensor([2, 0])), v)), x(3, 4), x(2)),
    ("summed", lambda a, v, i: a.index_put((i,), v, accumulate=True), x(3, 4), x(5, 4), n(5, low=0, high=3)),
    ("one after another", changed(put_one_after_another), x(4, 6)),
    ("scattered", lambda a, v: (a.scatter(1, a.argsort(1), v), a.scatter(0, a.argsort(0)[:2], 7.0), a.scatter_add(1, v.argsort(1), v)),
     x(4, 5), x(4, 5)),
    ("reduced", lambda a, v, i: (a.scatter_reduce(1, i, v, "sum"), a.scatter_reduce(1, i, v, "mean", include_self=False),
                                 a.scatter_reduce(1, i, v, "amax"), a.scatter_reduce(1, i[:2], v, "prod", include_self=False),
                                 a.index_reduce(1, i[0], v, "amin")), x(3, 4), x(3, 6), n(3, 6, low=0, high=4)),
    ("copied and filled", lambda a, v: (a.index_copy(1, torch.tensor([3, 1]), v), a.index_fill(0, torch.tensor([1]), 2.0)), x(3, 4), x(3, 2)),
    ("behind a mask", lambda a, m, v: a.masked_scatter(m, v), x(3, 4), b(3, 4), x(12)),
    ("taken", lambda a: (a.take(torch.tensor([[0, -1], [5, 2]])), a.take_along_dim(a.argsort(1), 1)), x(3, 4)),
]
PICTURES = [(f"{mode} {size}", lambda a, mode=mode, size=size: F.interpolate(a, size, mode=mode), x(1, 2, 4, 6))
            for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area") for size in ((7, 9), (3, 4), (8, 12))] + [
    ("by a scale", lambda a: (F.interpolate(a, scale_factor=1.7, mode="bilinear"), F.interpolate(a, scale_factor=(2, 0.6)),
                              F.interpolate(a, scale_factor=1.3, mode="bicubic", recompute_scale_factor=True)), x(1, 2, 5, 6)),
    ("corners on corners", lambda a: (F.interpolate(a, (7, 4), mode="bilinear", align_corners=True), F.interpolate(
        a, (1, 9), mode="bicubic", align_corners=True)), x(1, 2, 4, 6)),
    ("one dimension, three", lambda a, v: (F.interpolate(a, 7, mode="linear"), F.interpolate(v, (3, 5, 4), mode="trilinear"),
                                           F.interpolate(a, 5), F.interpolate(v, (2, 2, 7))), x(1, 2, 4), x(1, 2, 2, 3, 5)),
    ("columns", lambda a: (F.unfold(a, (2, 3), 1, 1, 2), F.fold(F.unfold(a, 3, padding=1, stride=2), (5, 6), 3, padding=1, stride=2),
                           F.fold(F.unfold(a, 2, dilation=2), (5, 6), 2, dilation=2)), x(2, 3, 5, 6)),
    ("put back where windows overlap", lambda a: F.max_unpool2d(*F.max_pool2d(a, 3, 2, return_indices=True), 3, 2), x(1, 2, 7, 7)),
    ("maxima of windows that cover", lambda a: (*F.adaptive_max_pool2d(a, (3, 2), return_indices=True), *F.adaptive_max_pool1d(
        a[0], 4, return_indices=True)), x(1, 2, 5, 7)),
    ("edges repeated and cut off", lambda a: F.pad(a, (-4, 5), mode="replicate"), x(2, 3, 4)),
    ("maxima and where they are", lambda a: (*F.max_pool2d(a, 3, 2, 1, return_indices=True),
                                             *F.max_pool2d(a, 2, 1, 0, 2, ceil_mode=True, return_indices=True),
                                             *F.max_pool1d(a[0], 3, return_indices=True)), x(2, 3, 6, 7)),
    ("put back", lambda a: F.max_unpool2d(*F.max_pool2d(a, 2, return_indices=True), 2), x(2, 3, 4, 6)),
]


GRIDS = [(f"{mode}, {padding}, {'corners' if corners else 'middles'}",
          lambda a, g, v, h, mode=mode, padding=padding, corners=corners: [F.grid_sample(a, g, mode, padding, corners)] + (
              [F.grid_sample(v, h, mode, padding, corners)] if mode != "bicubic" else []),
          x(2, 3, 4, 5), x(2, 3, 6, 2) * 1.7, x(2, 3, 4, 5, 3), x(2, 3, 2, 2, 3) * 1.7)
         for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection") for corners in (True, False)] + [
    ("turned", lambda t, a: F.grid_sample(a, F.affine_grid(t, a.shape, align_corners=False), align_corners=False), x(2, 2, 3), x(2, 3, 4, 5)),
]


class Turned(nn.Module):
    """Rotary embeddings as a product of complex numbers."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(6), torch.arange(4) / 10.0)
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, q, at):
        y = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        return torch.view_as_real(y * self.turns[at][None, :, None]).flatten(3).type_as(q)


class Masked(nn.Module):
    """Submodules by the names of inputs; a mask made in the call, one of padding."""

    def __init__(self):
        super().__init__()
        self.a = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
        self.mask = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True, norm_first=True)

    def forward(self, a, mask):
        causal = self.a.generate_square_subsequent_mask(a.shape[1])
        return self.mask(self.a(a, a, tgt_mask=causal), a, causal, memory_key_padding_mask=mask, tgt_is_causal=True)


class Bags(nn.Module):
    def __init__(self, **words):
        super().__init__()
        self.bag = nn.EmbeddingBag(7, 3, **words)

    def forward(self, i, sizes, w=None):
        at = sizes.cumsum(0) - sizes
        return self.bag(i, F.pad(at, (0, 1), value=len(i)) if self.bag.include_last_offset else at, w)


def of_complex(a, b):
    z, w = torch.view_as_complex(a), torch.complex(b[..., 0], b[..., 1])
    parts = (z.conj() * w / 2 - 1.5, (z / w)[1:].sum(0), torch.cat([z, w]).t(), z @ w.t(), 2j * z + a[..., 0], z.exp())
    return (z.real, z.imag, (z + w).abs(), *map(torch.view_as_real, parts))


def first_rows_see_nothing(q, k):
    mask = torch.where(torch.arange(3)[:, None] > 0, 0.0, -torch.inf).to(q.dtype).expand(3, 5) + k[0, :, 0] * 0
    return F.scaled_dot_product_attention(q, k, k, mask)


ODD = [
    ("bags from here to there", Bags(), n(7, low=0, high=7), torch.tensor([1, 0, 2, 1])),
    ("the last ends", Bags(mode="sum", include_last_offset=True), n(7, low=0, high=7), torch.tensor([2, 0, 2]), x(7)),
    ("bags with padding", Bags(mode="mean", padding_idx=2), n(6, low=1, high=4), torch.tensor([1, 2, 1])),
    ("bags alike, with padding", nn.EmbeddingBag(7, 3, padding_idx=0), n(4, 3, low=0, high=2)),
    ("queries that see nothing", first_rows_see_nothing, x(2, 3, 8), x(2, 5, 8)),
    ("a transformer", Masked(), x(2, 5, 8), torch.arange(5) > torch.tensor([[3], [2]])),
    ("made smaller", lambda a: [F.interpolate(a, size, mode=mode, antialias=True) for mode in ("bilinear", "bicubic") for size in ((3, 4), (3, 12))],
     x(1, 2, 7, 9)),
    ("turned", Turned(), x(2, 3, 4, 8), torch.tensor([1, 4, 5])),
    ("complex", of_complex, x(3, 4, 2), x(3, 4, 2)),
    ("a norm of old", nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 3))), x(2, 4)),
    ("labels", lambda a, i: (F.multilabel_margin_loss(a, i), F.multilabel_margin_loss(a, i, reduction="none"), F.multilabel_margin_loss(a[0], i[0])),
     x(2, 3), torch.tensor([[0, 2, -1], [1, -1, 0]])),
    ("diagonals", lambda a, v: (torch.diagonal_scatter(a, v), torch.diagonal_scatter(a, v[:3], -1), a.diagonal_scatter(v[:1], 3, 1, 0)),
     x(4, 5), x(4)),
    ("sums of products", lambda a, v: (torch.addmv(v[0], a, v[1], beta=2, alpha=3), torch.addbmm(a, a[None], a[None]),
                                       torch.addmm(v[0] / 0, a, a, beta=0)), x(3, 3), x(2, 3)),
    ("far away", lambda a, v: (torch.hypot(a, v), torch.hypot(a * 0, v * 0), torch.erfc(a)), x(7), x(7)),
]


class Cond(nn.Module):
    def forward(self, a):
        return torch.cond(a.sum() > 0, lambda v: v + 1, lambda v: v - 1, (a,))


class Twice(nn.Module):
    """Refused in two places that hang together: both are told."""
    def __init__(self):
        super().__init__()
        self.inner = Bessel()

    def forward(self, a):
        y = torch.linalg.inv(a.view(2, 2)).reshape(4)
        return self.inner(y) + a.to(torch.int8)


class Bessel(nn.Module):
    def forward(self, a):
        return torch.special.bessel_j0(a)


REFUSED = [
    ("int8", lambda a: a.to(torch.int8) + 1, x(4)),
    ("uint8", lambda a: a * 2, n(4, low=0, dtype=torch.uint8)),
    ("cond", Cond(), x(4)),
    ("mask", lambda a: a[a > 0], x(4)),
    ("places", lambda a, m, v: a.index_put((m,), v), x(4), torch.tensor([True, False, True, True]), x(3)),
    ("drawn", lambda a: a + torch.randn(4), x(4)),
    ("strides", lambda a: a.t().as_strided((2, 2), (1, 1)), x(3, 4)),
    ("where", lambda a: torch.where(a > 0)[0] + 1, x(4)),
    ("taken out", lambda a: a * a.sum().item(), x(4)),
    ("the largest of bags", Bags(mode="max"), n(7, low=0, high=7), torch.tensor([2, 1])),
    ("an angle", lambda a: torch.view_as_complex(a).sin().real, x(4, 2)),
    ("two in a chain", Twice(), x(4)),
]
def short(a):
    """A spectrogram as speech models take it: padded, windowed, the power of each frequency."""
    return torch.stft(a, 16, 6, 12, torch.hann_window(12), return_complex=True).abs().square()


TRANSFORMS = [
    ("there and back", lambda a: (torch.fft.fft(a).real, torch.fft.fft(a).imag, torch.fft.rfft(a).abs(), torch.fft.irfft(torch.fft.rfft(a), 9),
                                  torch.fft.irfft(torch.fft.rfft(a, norm="ortho") * 2, 7, norm="ortho")), x(3, 9)),
    ("of two dimensions", lambda a: (torch.fft.fft2(a).abs(), torch.fft.irfft2(torch.fft.rfft2(a)[..., :3], a.shape[-2:]),
                                     torch.view_as_real(torch.fft.ifftn(torch.view_as_complex(a.view(2, 6, 4, 2))))), x(2, 6, 8)),
    ("of many factors, and of none", lambda a: (torch.fft.rfft(a).abs(), torch.fft.ifft(torch.fft.fft(a[:, :211])).real), x(2, 360)),
    ("of short pieces", short, x(2, 60)),
]
GROUPS = {"in_place": IN_PLACE, "promotion": PROMOTION, "reductions": REDUCTIONS, "shapes": SHAPES, "pools": POOLS,
          "convolutions": CONVOLUTIONS, "norms": NORMS, "activations": ACTIVATIONS, "layers": LAYERS, "sorts": SORTS, "places": PLACES,
          "pictures": PICTURES, "grids": GRIDS, "odd": ODD, "transforms": TRANSFORMS,
          "refused": REFUSED}


def group(name):
    def make():
        rows = GROUPS[name]
        return Cases(rows), tuple(v for row in rows for v in row[2:])
    return make


for _name in GROUPS:
    globals()[_name] = group(_name)
