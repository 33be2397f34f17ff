"""Kinds of models for `make check-import`: small ones with weights that are drawn, from the libraries that people take models from.
A library that is not installed has no row.
"""
import importlib

import torch
from torch import nn

KINDS = {}


def kind(name, needs=None):
    def keep(fn):
        if needs is None or importlib.util.find_spec(needs):
            KINDS[name] = fn
        return fn
    return keep


def made(name):
    """A module, its inputs, and those by keyword."""
    torch.manual_seed(1)
    out = KINDS[name]()
    net, inputs, words = (*out, {})[:3]
    with torch.no_grad():
        for module in net.modules():  # statistics as training leaves them
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 2)
    return net, inputs, words


# ---- torchvision: each family of its classification nets, the smallest of it

PICTURES = {"alexnet": 64, "vgg11": 32, "vgg11_bn": 32, "resnet18": 32, "resnet50": 32, "resnext50_32x4d": 32, "wide_resnet50_2": 32,
            "densenet121": 32, "squeezenet1_0": 64, "squeezenet1_1": 64, "mobilenet_v2": 32, "mobilenet_v3_small": 32,
            "mobilenet_v3_large": 32, "efficientnet_b0": 32, "efficientnet_v2_s": 32, "shufflenet_v2_x0_5": 32, "mnasnet0_5": 32,
            "regnet_y_400mf": 32, "regnet_x_400mf": 32, "convnext_tiny": 32, "vit_b_32": 64, "swin_t": 64, "swin_v2_t": 64,
            "maxvit_t": 224, "googlenet": 64, "inception_v3": 96}


def vision(name):
    def fn():
        from torchvision import models
        size, more = PICTURES[name], {}
        if name.startswith("vit"):
            more["image_size"] = size
        if name in ("googlenet", "inception_v3"):
            more.update(aux_logits=False, init_weights=False)
        if name == "maxvit_t":
            from torchvision.models.maxvit import MaxVit
            return MaxVit((64, 64), 16, 2, [16, 32], [1, 1], 8, 0.0, num_classes=10), (torch.randn(2, 3, 64, 64),)
        return getattr(models, name)(num_classes=10, weights=None, **more), (torch.randn(2, 3, size, size),)
    return fn


for _name in PICTURES:
    kind("torchvision " + _name, "torchvision")(vision(_name))

# ---- transformers

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50}


def words_of(*shape):
    return torch.randint(1, 50, shape or (2, 7))


def language(config, model, **more):
    def fn():
        import transformers
        # "sdpa" is what users get; "eager" where a model has no other
        c = getattr(transformers, config)(**{**SIZES, **more})
        return getattr(transformers, model)(c), (words_of(),), {"use_cache": False} if "Bert" not in model else {}
    return fn


for _name, _config, _model, _more in (
        ("bert", "BertConfig", "BertForSequenceClassification", {}),
        ("roberta", "RobertaConfig", "RobertaModel", {}),
        ("distilbert", "DistilBertConfig", "DistilBertModel", {"dim": 16, "n_heads": 4, "n_layers": 2, "hidden_dim": 32}),
        ("gpt2", "GPT2Config", "GPT2LMHeadModel", {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32}),
        ("llama", "LlamaConfig", "LlamaForCausalLM", {"num_key_value_heads": 2}),
        ("mistral", "MistralConfig", "MistralForCausalLM", {"num_key_value_heads": 2, "sliding_window": 4}),
        ("qwen2", "Qwen2Config", "Qwen2ForCausalLM", {"num_key_value_heads": 2}),
        ("qwen3", "Qwen3Config", "Qwen3ForCausalLM", {"num_key_value_heads": 2, "head_dim": 4}),
        ("gemma", "GemmaConfig", "GemmaForCausalLM", {"num_key_value_heads": 1, "head_dim": 4}),
        ("gemma2", "Gemma2Config", "Gemma2ForCausalLM", {"num_key_value_heads": 2, "head_dim": 4, "sliding_window": 4}),
        ("gemma3", "Gemma3TextConfig", "Gemma3ForCausalLM", {"num_key_value_heads": 2, "head_dim": 4, "sliding_window": 4}),
        ("phi3", "Phi3Config", "Phi3ForCausalLM", {"num_key_value_heads": 2, "pad_token_id": 0}),
        ("mixtral", "MixtralConfig", "MixtralForCausalLM", {"num_key_value_heads": 2, "num_local_experts": 4}),
        ("mamba", "MambaConfig", "MambaForCausalLM", {"state_size": 4}),
        ("opt", "OPTConfig", "OPTForCausalLM", {"ffn_dim": 32, "word_embed_proj_dim": 16, "max_position_embeddings": 32})):
    kind("transformers " + _name, "transformers")(language(_config, _model, **_more))


@kind("transformers t5", "transformers")
def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    net = T5ForConditionalGeneration(T5Config(vocab_size=50, d_model=16, d_kv=4, d_ff=32, num_layers=2, num_heads=4))
    return net, (), {"input_ids": words_of(), "decoder_input_ids": words_of(2, 5), "use_cache": False}


@kind("transformers whisper", "transformers")
def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    net = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=60, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=32, decoder_ffn_dim=32, num_mel_bins=8, max_source_positions=10, max_target_positions=12,
        pad_token_id=1, bos_token_id=2, eos_token_id=3, decoder_start_token_id=4, suppress_tokens=None, begin_suppress_tokens=None))
    return net, (), {"input_features": torch.randn(2, 8, 20), "decoder_input_ids": words_of(2, 5), "use_cache": False}


@kind("transformers vit", "transformers")
def vit():
    from transformers import ViTConfig, ViTModel
    return ViTModel(ViTConfig(**{k: v for k, v in SIZES.items() if k != "vocab_size"}, image_size=16, patch_size=4)), (
        torch.randn(2, 3, 16, 16),)


@kind("transformers clip", "transformers")
def clip():
    from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig
    text = CLIPTextConfig(**SIZES, max_position_embeddings=16, projection_dim=8, eos_token_id=49)
    sight = CLIPVisionConfig(**{k: v for k, v in SIZES.items() if k != "vocab_size"}, image_size=16, patch_size=4, projection_dim=8)
    return CLIPModel(CLIPConfig(text_config=text.to_dict(), vision_config=sight.to_dict(), projection_dim=8)), (), {
        "input_ids": words_of(), "pixel_values": torch.randn(2, 3, 16, 16)}


# ---- timm

TIMM = {"swin": ("swin_tiny_patch4_window7_224", {"img_size": 64, "window_size": 4, "embed_dim": 16, "depths": (1, 2), "num_heads": (2, 4)}, 64),
        "convnext": ("convnext_atto", {"depths": (1, 1, 2, 1), "dims": (8, 16, 24, 32)}, 64),
        "convnextv2": ("convnextv2_atto", {"depths": (1, 1, 2, 1), "dims": (8, 16, 24, 32)}, 64),
        "vit": ("vit_tiny_patch16_224", {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 4}, 32),
        "mixer": ("mixer_s32_224", {"img_size": 64}, 64)}


def of_timm(model, more, size):
    def fn():
        import timm
        return timm.create_model(model, pretrained=False, num_classes=10, **more), (torch.randn(2, 3, size, size),)
    return fn


for _name, _row in TIMM.items():
    kind("timm " + _name, "timm")(of_timm(*_row))


# ---- recurrent layers and PyTorch's own transformer

class Held(nn.Module):
    """A recurrent layer that is given its first states, or not."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x, *states):
        return self.rnn(x, states if len(states) > 1 else states[0]) if states else self.rnn(x)


def recurrent(make, steps=5, batch=3, states=0, **options):
    def fn():
        layers, first = options.get("num_layers", 1), (options.get("batch_first") or False)
        both = 2 if options.get("bidirectional") else 1
        x = torch.randn(*(() if batch is None else (batch,) if first else ()), steps, *(() if batch is None or first else (batch,)), 6)
        rows = [torch.randn(layers * both, *(() if batch is None else (batch,)), n)
                for n in (options.get("proj_size") or 4, 4)[:states]]
        return Held(make(6, 4, **options)), (x, *rows)
    return fn


for _name, _make, _n in (("rnn", nn.RNN, 1), ("gru", nn.GRU, 1), ("lstm", nn.LSTM, 2)):
    kind(f"nn {_name} deep, both ways, batch first")(recurrent(_make, num_layers=2, bidirectional=True, batch_first=True))
    kind(f"nn {_name} with states, without biases")(recurrent(_make, states=_n, bias=False, num_layers=2))
    kind(f"nn {_name} without a batch, long")(recurrent(_make, steps=20, batch=None, states=_n))
kind("nn rnn of relu, with dropout")(recurrent(nn.RNN, nonlinearity="relu", num_layers=2, dropout=0.5))
kind("nn lstm with projections")(recurrent(nn.LSTM, proj_size=3, num_layers=2, bidirectional=True, states=2))
kind("nn transformer")(lambda: (nn.Transformer(16, 4, 2, 2, 32, batch_first=True), (torch.randn(2, 5, 16), torch.randn(2, 4, 16))))
kind("nn multihead attention")(lambda: (nn.MultiheadAttention(16, 4), (torch.randn(5, 2, 16), torch.randn(6, 2, 16), torch.randn(6, 2, 16))))
