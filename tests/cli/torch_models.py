"""What tests/cli/from_torch.sh imports: a function for each module, which gives it with example inputs. Weights are the same
each time."""
import torch
import torch.nn.functional as F
from torch import nn


def seeded(fn):
    def make():
        torch.manual_seed(1)
        return fn()
    make.__name__ = fn.__name__
    return make


@seeded
def mlp():
    return nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 4), nn.Sigmoid()), (torch.randn(8, 13),)


class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return y, h, c


@seeded
def lstm():
    return Rnn(), (torch.randn(3, 4, 6),)


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 5)

    def forward(self, x):
        return self.rnn(x)[0]


@seeded
def gru():
    return Gru(), (torch.randn(4, 3, 6),)


@seeded
def encoder():
    return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=False), (torch.randn(2, 5, 16),)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        for bn in (self.bn1, self.bn2, self.down[1]):
            bn.running_mean.normal_()
            bn.running_var.uniform_(0.5, 2)
            nn.init.normal_(bn.weight)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.down(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2))
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 10)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.layers(self.stem(x))), 1))


@seeded
def resnet():
    return ResNet(), (torch.randn(2, 3, 16, 16),)


class LoRA(nn.Module):
    def __init__(self, inputs, outputs, rank, alpha=4):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.A = nn.Parameter(torch.randn(inputs, rank) * 0.1)
        self.B = nn.Parameter(torch.randn(rank, outputs) * 0.1)
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + (x @ self.A @ self.B) * self.scaling


@seeded
def lora():
    return nn.Sequential(LoRA(16, 8, 2), nn.ReLU(), LoRA(8, 4, 2)), (torch.randn(5, 16),)


class Conv1(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, 4, 5, 1, 2), nn.SiLU(), nn.Conv1d(4, 8, 19, 5, 9), nn.Tanh())

    def forward(self, x):
        return self.stem(x).permute(2, 0, 1)


@seeded
def conv1():
    return Conv1(), (torch.randn(2, 1, 40),)


class DLRM(nn.Module):
    """Dense MLP, embeddings with a modulus hash, pairwise dots, top MLP."""
    def __init__(self):
        super().__init__()
        self.dense = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.tables = nn.ModuleList([nn.Embedding(50, 16) for _ in range(4)])
        self.top = nn.Sequential(nn.Linear(16 + 10, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense, sparse):
        x = self.dense(dense)
        e = [t(sparse[:, i] % t.num_embeddings) for i, t in enumerate(self.tables)]
        z = torch.stack([x] + e, dim=1)
        dots = torch.bmm(z, z.transpose(1, 2))
        i, j = torch.tril_indices(5, 5, offset=-1)
        return torch.sigmoid(self.top(torch.cat([x, dots[:, i, j]], dim=1)))


@seeded
def dlrm():
    return DLRM(), (torch.randn(6, 13), torch.randint(0, 10000, (6, 4)))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(20, 4, mode="sum")
        self.l = nn.Linear(16, 3)

    def forward(self, x, idx):
        e = self.emb(idx)
        return self.l(torch.einsum("bi,bj->bij", x, e).reshape(x.shape[0], -1))


@seeded
def outer():
    return Outer(), (torch.randn(6, 4), torch.randint(0, 20, (6, 3)))


class Long(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True)
        self.gru = nn.GRU(10, 4, bias=False)

    def forward(self, x):
        return self.gru(self.lstm(x)[0])


@seeded
def long():
    return Long(), (torch.randn(40, 3, 6),)


class Gpt(nn.Module):
    def __init__(self, T=7, C=12):
        super().__init__()
        self.tok, self.pos = nn.Embedding(30, C), nn.Embedding(T, C)
        self.ln, self.qkv, self.out = nn.LayerNorm(C), nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.register_buffer("mask", torch.tril(torch.ones(T, T)).bool())

    def forward(self, idx):
        B, T = idx.shape
        x = self.tok(idx) + self.pos(torch.arange(T))
        q, k, v = self.qkv(self.ln(x)).split(12, dim=2)
        q, k, v = (t.view(B, T, 3, 4).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * 0.5
        att = att.masked_fill(~self.mask[:T, :T], float("-inf")).softmax(-1)
        causal = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)
        y = ((q @ k.transpose(-2, -1)) + causal).softmax(-1) @ v
        y = (att @ v + y).transpose(1, 2).contiguous().view(B, T, 12)
        x = x + self.out(y)
        return torch.einsum("btc,vc->btv", x, self.tok.weight)


@seeded
def gpt():
    return Gpt(), (torch.randint(0, 30, (2, 7)),)


class Odds(nn.Module):
    def __init__(self):
        super().__init__()
        self.rms = nn.RMSNorm(6)
        self.hs, self.g6, self.gt = nn.Hardswish(), nn.ReLU6(), nn.GELU("tanh")

    def forward(self, x, i):
        y = self.rms(x)
        z = self.hs(y) + self.g6(x * 3) - self.gt(x)
        z[:, 0] = 1.0
        z.mul_(2).add_(1)
        w = (x > 0) & ~(y > 1) | (z < 0)
        return z.std(-1), z.var(0, keepdim=True), x[i], x[:, torch.tensor([0, -1])], w.float().triu(1), (i // 2) * 2, x.tril()


@seeded
def odds():
    return Odds(), (torch.randn(5, 6), torch.randint(0, 5, (3, 2)))


class Cache(nn.Module):
    """Keeps a buffer, a count and, as no more than an attribute, a state."""
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("calls", torch.tensor(0))
        self.hidden = torch.randn(4)

    def forward(self, x):
        self.seen.add_(x)
        self.calls += 1
        self.hidden = torch.tanh(self.hidden + x)
        return self.seen * 2, self.hidden, self.calls + 0


@seeded
def cache():
    return Cache(), (torch.randn(4),)


class Keeper(nn.Module):
    """Changes an input."""
    def forward(self, x):
        x.mul_(2)
        return x + 1


def keeper():
    return Keeper(), (torch.randn(4),)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x, *, bias, scale=None):
        return self.l(x) * scale + bias


@seeded
def words():
    return Words(), (torch.randn(3, 4),), {"scale": torch.randn(3, 1), "bias": torch.randn(4)}


class Experts(nn.Module):
    """A mixture as Mixtral has it: two experts for each token, chosen by topk, rows sorted by expert."""
    def __init__(self, size=12, experts=4):
        super().__init__()
        self.gate, self.experts = nn.Linear(size, experts, bias=False), experts
        self.up, self.down = nn.Parameter(torch.randn(experts, size, 16) * 0.3), nn.Parameter(torch.randn(experts, 16, size) * 0.3)

    def forward(self, x):
        share, chosen = self.gate(x).softmax(-1).topk(2)
        order = chosen.view(-1).argsort(stable=True)
        rows, expert = x[order // 2], chosen.view(-1)[order]
        ends = torch.histc(expert.float(), self.experts, 0, self.experts - 1).cumsum(0)
        y = torch.zeros_like(rows)
        for e in range(self.experts):
            at = torch.arange(len(rows))
            own = (at < ends[e]) & (at >= (ends[e - 1] if e else 0))
            y = torch.where(own[:, None], F.silu(rows @ self.up[e]) @ self.down[e], y)
        return torch.zeros_like(x).index_add(0, order // 2, y * (share / share.sum(-1, keepdim=True)).view(-1)[order][:, None])


@seeded
def experts():
    return Experts(), (torch.randn(6, 12),)


class Calls(nn.Module):
    """Calls that are several of fusebox's operations, and one kernel each for PyTorch."""

    def forward(self, x, mask, index):
        q = x.view(2, 3, 7, 9)
        return (F.hardswish(x), x.logsumexp(1), F.gelu(x, approximate="tanh"), F.adaptive_avg_pool2d(q, (3, 4)),
                F.adaptive_max_pool2d(q, 5), F.scaled_dot_product_attention(q, q, q, mask), x[index], F.pad(x, (2, 3), mode="reflect"),
                F.interpolate(q, scale_factor=2, mode="bilinear"), x.var(1), F.glu(x[:, :62]), F.softshrink(x), x.tril(), F.selu(x),
                F.batch_norm(q, q[0, :, 0, 0], q[0, :, 0, 1].abs()), q.log_softmax(1), F.adaptive_avg_pool2d(q, 1))


@seeded
def calls():
    return Calls(), (torch.randn(6, 63), torch.rand(2, 1, 7, 7) > 0.7, torch.randint(-6, 6, (4,)))


class Padded(nn.Module):
    """Two layers of attention over sequences of unlike lengths, as encoders get them: a mask of bools, of keys alone."""

    def forward(self, q, seen):
        for _ in range(2):
            q = F.scaled_dot_product_attention(q, q, q, seen)
        return q


def padded():
    return Padded(), (torch.randn(2, 4, 64, 32), torch.arange(64) < torch.tensor([40, 0]).view(2, 1, 1, 1))


class Masked(nn.Module):
    """Keeps a mask of -inf, as attention does."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.full((5, 5), -torch.inf).triu(1))
        self.register_buffer("never", torch.full((5,), -torch.inf))

    def forward(self, x):
        return (x + self.mask).softmax(-1), torch.maximum(x, self.never)


def masked():
    return Masked(), (torch.randn(5, 5),)


class Loss(nn.Module):
    def __init__(self, net, loss=F.cross_entropy):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, y):
        return self.loss(self.net(x), y)


class Chances(nn.Module):
    """What is left after each step, of weights some of which are nothing."""

    def __init__(self):
        super().__init__()
        self.kept = nn.Parameter(torch.rand(4, 7) + 0.5)
        self.kept.data[1, 0] = self.kept.data[2, 3] = self.kept.data[3, 2] = self.kept.data[3, 5] = 0

    def forward(self, x):
        return (self.kept.cumprod(1) * x).sum() + (self.kept.flip(0).cumprod(0) * x).tanh().mean()


@seeded
def train_chances():
    return Chances(), (torch.randn(4, 7),)


@seeded
def train_norms():
    return Loss(nn.Sequential(nn.Embedding(20, 6), nn.LayerNorm(6), nn.GELU(), nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True),
                              nn.Flatten(), nn.Linear(30, 4))), (torch.randint(0, 20, (3, 5)), torch.randint(0, 4, (3,)))


@seeded
def train_pictures():
    return Loss(nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                              nn.Conv2d(4, 4, 3, 1, 1, groups=2), nn.GroupNorm(2, 4), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten(),
                              nn.Linear(4, 4))), (torch.randn(5, 3, 9, 9), torch.randint(0, 4, (5,)))


@seeded
def train_transposed():
    return Loss(nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), nn.ELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()), F.mse_loss), (
        torch.randn(2, 3, 5, 5), torch.randn(2, 4))
