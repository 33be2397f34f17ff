"""The twenty models of boundaries.py: a few layers of each, as wide as people have them, so that rules of size count."""
import importlib

import torch
import torch.nn.functional as F
from torch import nn

MODELS = {}


def model(name, needs=None):
    def keep(fn):
        if needs is None or importlib.util.find_spec(needs):
            MODELS[name] = fn
        return fn
    return keep


@model("mlp")
def mlp():
    return nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 10),
                         nn.Softmax(-1)), (torch.randn(256, 512),)


class Dlrm(nn.Module):
    """Dense features through a small net, sparse ones looked up, all pairs multiplied."""

    def __init__(self, tables=8, wide=32):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, wide) for _ in range(tables))
        self.below = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, wide), nn.ReLU())
        self.above = nn.Sequential(nn.Linear(36 + wide, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, dense, sparse):
        x = self.below(dense)
        rows = torch.stack([x] + [t(sparse[:, i]) for i, t in enumerate(self.tables)], 1)
        pairs = torch.bmm(rows, rows.transpose(1, 2))
        at = torch.tril_indices(9, 9, -1)
        return torch.sigmoid(self.above(torch.cat([x, pairs[:, at[0], at[1]]], 1)))


@model("dlrm")
def dlrm():
    return Dlrm(), (torch.randn(512, 13), torch.randint(0, 1000, (512, 8)))


class Gated(nn.Module):
    """As KernelBench writes them: a product, then a chain of small calls and a sum."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(1024, 2048)
        self.norm = nn.GroupNorm(16, 2048)
        self.weight = nn.Parameter(torch.randn(2048))

    def forward(self, x):
        y = self.norm(self.fc(x))
        y = y * torch.sigmoid(y) * self.weight
        y = y * torch.sigmoid(y)
        return y, torch.logsumexp(F.hardtanh(y), 1, keepdim=True)


@model("gemm chain")
def chain():
    return Gated(), (torch.randn(128, 1024),)


class ConvChain(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3)
        self.bias = nn.Parameter(torch.randn(32, 1, 1))

    def forward(self, x):
        y = F.mish(self.conv(x) - 0.5)
        y = torch.tanh(y) * 2 + self.bias
        y = F.max_pool2d(F.hardswish(y), 2)
        return y.mean((2, 3))


@model("conv chain")
def conv_chain():
    return ConvChain(), (torch.randn(16, 16, 64, 64),)


class Recurrent(nn.Module):
    """Steps as people write them out: torch.compile leaves nn.LSTM itself to cuDNN."""

    def __init__(self, gates, step):
        super().__init__()
        self.of_x, self.of_h, self.head, self.step = nn.Linear(128, gates * 256), nn.Linear(256, gates * 256), nn.Linear(256, 10), step

    def forward(self, x):
        h = c = torch.zeros(x.shape[0], 256)
        for t in range(x.shape[1]):
            h, c = self.step(self.of_x(x[:, t]), self.of_h(h), h, c)
        return self.head(h)


def lstm_step(x, y, h, c):
    i, f, g, o = (x + y).chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_step(x, y, h, c):
    (xr, xz, xn), (yr, yz, yn) = x.chunk(3, 1), y.chunk(3, 1)
    r, z = torch.sigmoid(xr + yr), torch.sigmoid(xz + yz)
    n = torch.tanh(xn + r * yn)
    return (1 - z) * n + z * h, c


model("lstm")(lambda: (Recurrent(4, lstm_step), (torch.randn(32, 4, 128),)))
model("gru")(lambda: (Recurrent(3, gru_step), (torch.randn(32, 4, 128),)))


@model("transformer encoder")
def encoder():
    return nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, norm_first=True), (torch.randn(8, 128, 256),)


# ---- torchvision and timm

for _name, _size in (("resnet18", 64), ("mobilenet_v2", 64), ("convnext_tiny", 64), ("densenet121", 64), ("vit_b_32", 224),
                     ("efficientnet_b0", 64), ("googlenet", 64), ("squeezenet1_1", 64), ("shufflenet_v2_x1_0", 64), ("regnet_y_400mf", 64)):
    def _vision(name=_name, size=_size):
        from torchvision import models
        words = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
        return getattr(models, name)(weights=None, **words), (torch.randn(8, 3, size, size),)
    model(_name, "torchvision")(_vision)


@model("swin", "timm")
def swin():
    import timm
    return timm.create_model("swin_tiny_patch4_window7_224", pretrained=False, num_classes=10, depths=(2, 2), num_heads=(3, 6)), (
        torch.randn(4, 3, 224, 224),)


# ---- transformers

SIZES = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 1000}


def words(*shape):
    return torch.randint(1, 1000, shape or (4, 64))


for _name, _config, _model, _more in (
        ("bert", "BertConfig", "BertForSequenceClassification", {}),
        ("gpt2", "GPT2Config", "GPT2LMHeadModel", {"n_embd": 256, "n_layer": 2, "n_head": 8}),
        ("llama", "LlamaConfig", "LlamaForCausalLM", {"num_key_value_heads": 2}),
        ("mistral", "MistralConfig", "MistralForCausalLM", {"num_key_value_heads": 2, "sliding_window": 32}),
        ("qwen3", "Qwen3Config", "Qwen3ForCausalLM", {"num_key_value_heads": 2, "head_dim": 32}),
        ("gemma", "GemmaConfig", "GemmaForCausalLM", {"num_key_value_heads": 1, "head_dim": 32})):
    def _language(config=_config, net=_model, more=_more):
        import transformers
        c = getattr(transformers, config)(**{**SIZES, **more})
        return getattr(transformers, net)(c), (words(),), {} if "Bert" in net else {"use_cache": False}
    model(_name, "transformers")(_language)


@model("t5", "transformers")
def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    net = T5ForConditionalGeneration(T5Config(vocab_size=1000, d_model=256, d_kv=32, d_ff=1024, num_layers=2, num_heads=8))
    return net, (), {"input_ids": words(), "decoder_input_ids": words(4, 32), "use_cache": False}


@model("whisper", "transformers")
def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    net = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=1000, d_model=256, encoder_layers=2, decoder_layers=2, encoder_attention_heads=8, decoder_attention_heads=8,
        encoder_ffn_dim=1024, decoder_ffn_dim=1024, num_mel_bins=80, max_source_positions=100, max_target_positions=64,
        pad_token_id=1, bos_token_id=2, eos_token_id=3, decoder_start_token_id=4, suppress_tokens=None, begin_suppress_tokens=None))
    return net, (), {"input_features": torch.randn(2, 80, 200), "decoder_input_ids": words(2, 32), "use_cache": False}
