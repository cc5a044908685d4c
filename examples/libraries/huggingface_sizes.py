"""The sizes of the Hugging Face models: as published, and tiny."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from examples.forms import Step
from examples.libraries.common import Builder
from examples.libraries.huggingface import (
    bert,
    gpt2,
    gpt2_generate,
    llama,
    llama_decode,
    resnet,
    t5,
    vit,
    whisper,
)

NEEDS = ("transformers", "flax", "optax")
_TINY_GPT2 = {"n_layer": 2, "n_embd": 64, "n_head": 8, "vocab_size": 256, "n_positions": 64}
_TINY_LLAMA = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 48,
}
_TINY_BERT = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 8,
    "vocab_size": 256,
    "max_position_embeddings": 48,
}
_TINY_T5 = {
    "num_layers": 2,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_heads": 8,
    "vocab_size": 256,
}
_TINY_WHISPER = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "d_model": 64,
    "vocab_size": 256,
    "num_mel_bins": 16,
    "max_source_positions": 40,
    "max_target_positions": 24,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
_TINY_VIT = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 8,
    "image_size": 32,
    "patch_size": 8,
    "labels": 40,
}
_TINY_RESNET: dict[str, Any] = {
    "embedding_size": 16,
    "hidden_sizes": [32, 64],
    "depths": [1, 2],
    "size": 32,
    "labels": 40,
}
_WHISPER_LARGE = {
    "encoder_layers": 32,
    "decoder_layers": 32,
    "encoder_attention_heads": 20,
    "decoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "decoder_ffn_dim": 5120,
    "d_model": 1280,
}
_T5_BASE = {"num_layers": 12, "d_model": 768, "d_ff": 3072, "num_heads": 12}
_XL = {"n_layer": 48, "n_embd": 1600, "n_head": 25}
Presets = Mapping[str, Callable[[], Step]]


def _builder(name: str, summary: str, presets: Presets) -> Builder:
    return Builder(name=name, summary=summary, needs=NEEDS, presets=presets)


BUILDERS = (
    _builder(
        "gpt2",
        "GPT-2, training",
        {
            "tiny": partial(gpt2, 8, 32, **_TINY_GPT2),
            "small": partial(gpt2, 8, 1023),
            "xl": partial(gpt2, 8, 1023, **_XL),
            "deep": partial(gpt2, 8, 1023, **{**_XL, "n_layer": 120}),
        },
    ),
    _builder(
        "gpt2_generate",
        "GPT-2, generate",
        {
            "tiny": partial(gpt2_generate, 8, 16, 16, **_TINY_GPT2),
            "small": partial(gpt2_generate, 8, 512, 256),
        },
    ),
    _builder(
        "llama",
        "Llama, training",
        {"tiny": partial(llama, 8, 32, **_TINY_LLAMA), "7b": partial(llama, 8, 2048)},
    ),
    _builder(
        "llama_decode",
        "Llama, one token",
        {
            "tiny": partial(llama_decode, 8, 32, **_TINY_LLAMA),
            "7b": partial(llama_decode, 16, 2048),
        },
    ),
    _builder(
        "bert",
        "BERT, masked tokens",
        {"tiny": partial(bert, 8, 32, **_TINY_BERT), "base": partial(bert, 32, 512)},
    ),
    _builder(
        "t5",
        "T5, training with Adafactor",
        {"tiny": partial(t5, 8, 32, 24, **_TINY_T5), "base": partial(t5, 32, 512, 114, **_T5_BASE)},
    ),
    _builder(
        "whisper",
        "Whisper, training",
        {
            "tiny": partial(whisper, 8, 24, 80, **_TINY_WHISPER),
            "large": partial(whisper, 16, 448, **_WHISPER_LARGE),
        },
    ),
    _builder(
        "vit",
        "ViT, training",
        {"tiny": partial(vit, 8, **_TINY_VIT), "base": partial(vit, 64)},
    ),
    _builder(
        "resnet",
        "ResNet, training",
        {"tiny": partial(resnet, 8, **_TINY_RESNET), "50": partial(resnet, 64)},
    ),
)
