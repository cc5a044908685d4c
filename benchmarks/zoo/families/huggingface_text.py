"""The language models of Hugging Face at published widths, cut to a layer or two."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.families.huggingface import HuggingFace, Inputs, Settings

LAYERS = "num_hidden_layers"


def _text(batch: int = 64, seq: int = 512) -> Inputs:
    return {"input_ids": (batch, seq), "attention_mask": (batch, seq)}


def _pairs(batch: int = 32, source: int = 512, target: int = 256) -> Inputs:
    return {
        "input_ids": (batch, source),
        "attention_mask": (batch, source),
        "decoder_input_ids": (batch, target),
    }


def _encoder(model: str, config: str, deep: int = 12, **more: Any) -> HuggingFace:
    """An encoder of two layers."""
    settings = {LAYERS: 2, **more.pop("settings", {})}
    inputs = more.pop("inputs", _text())
    return HuggingFace(
        model=model, config=config, settings=settings, depth={LAYERS: deep}, inputs=inputs, **more
    )


def _decoder(
    model: str, config: str, settings: Settings, depth: Settings, **more: Any
) -> HuggingFace:
    """A causal language model."""
    inputs = more.pop("inputs", _text(16, 1024))
    return HuggingFace(
        model=model,
        config=config,
        settings=settings,
        depth=depth,
        inputs=inputs,
        loss="next",
        **more,
    )


def _seq2seq(
    model: str, config: str, width: int, heads: int, ffn: int, deep: int, **more: Any
) -> HuggingFace:
    """An encoder and a decoder of two layers each, in the manner of BART."""
    settings = {
        "d_model": width,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": ffn,
        "decoder_ffn_dim": ffn,
        **more.pop("settings", {}),
    }
    depth = {"encoder_layers": deep, "decoder_layers": deep}
    return HuggingFace(
        model=model, config=config, settings=settings, depth=depth, inputs=_pairs(), **more
    )


def _t5(model: str, config: str, inputs: Inputs, **settings: Any) -> HuggingFace:
    sizes = {"d_model": 768, "d_ff": 2048, "num_heads": 12, "d_kv": 64, "num_layers": 2, **settings}
    return HuggingFace(
        model=model, config=config, settings=sizes, depth={"num_layers": 12}, inputs=inputs
    )


_MANY_CHOICES: Inputs = dict.fromkeys(("input_ids", "attention_mask"), (16, 4, 128))
_ROPE_SIZES = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 1024,
    LAYERS: 1,
}

ENCODERS: dict[str, HuggingFace] = {
    "albert": _encoder(
        "FlaxAlbertForPreTraining",
        "AlbertConfig",
        settings={
            "hidden_size": 1024,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
            "vocab_size": 30000,
        },
    ),
    "big_bird": _encoder(
        "FlaxBigBirdForMaskedLM",
        "BigBirdConfig",
        inputs=_text(8, 2048),
        settings={"max_position_embeddings": 2048},
    ),
    "distilbert": HuggingFace(
        model="FlaxDistilBertForMaskedLM",
        config="DistilBertConfig",
        settings={"n_layers": 2},
        depth={"n_layers": 6},
        inputs=_text(),
    ),
    "electra": _encoder(
        "FlaxElectraForPreTraining",
        "ElectraConfig",
        settings={
            "hidden_size": 1024,
            "embedding_size": 1024,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
        },
        deep=24,
    ),
    "roberta": _encoder(
        "FlaxRobertaForQuestionAnswering", "RobertaConfig", settings={"vocab_size": 50265}
    ),
    "roberta_prelayernorm": _encoder(
        "FlaxRobertaPreLayerNormForTokenClassification",
        "RobertaPreLayerNormConfig",
        settings={
            "hidden_size": 1024,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
            "num_labels": 17,
        },
        deep=24,
    ),
    "roformer": _encoder(
        "FlaxRoFormerForMaskedLM", "RoFormerConfig", settings={"vocab_size": 50000}
    ),
    "xlm_roberta": _encoder(
        "FlaxXLMRobertaForMultipleChoice",
        "XLMRobertaConfig",
        inputs=_MANY_CHOICES,
        settings={"vocab_size": 250002, "max_position_embeddings": 514},
    ),
}
DECODERS: dict[str, HuggingFace] = {
    "bloom": _decoder(
        "FlaxBloomForCausalLM",
        "BloomConfig",
        {"hidden_size": 1536, "n_layer": 1, "n_head": 16, "vocab_size": 250880},
        {"n_layer": 24},
        inputs=_text(8, 1024),
    ),
    "gemma_hf": _decoder(
        "FlaxGemmaForCausalLM",
        "GemmaConfig",
        {
            **_ROPE_SIZES,
            "intermediate_size": 16384,
            "num_attention_heads": 8,
            "num_key_value_heads": 1,
            "head_dim": 256,
            "vocab_size": 128000,
        },
        {LAYERS: 8},
        inputs=_text(8, 1024),
    ),
    "gpt_neo": _decoder(
        "FlaxGPTNeoForCausalLM",
        "GPTNeoConfig",
        {
            "hidden_size": 2048,
            "num_layers": 2,
            "num_heads": 16,
            "attention_types": [[["global", "local"], 1]],
            "max_position_embeddings": 1024,
        },
        {"num_layers": 24, "attention_types": [[["global", "local"], 12]]},
    ),
    "gptj": _decoder(
        "FlaxGPTJForCausalLM",
        "GPTJConfig",
        {"n_embd": 4096, "n_layer": 1, "n_head": 16, "rotary_dim": 64, "n_positions": 1024},
        {"n_layer": 6},
    ),
    "mistral": _decoder(
        "FlaxMistralForCausalLM",
        "MistralConfig",
        {**_ROPE_SIZES, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32},
        {LAYERS: 4},
    ),
    "opt": _decoder(
        "FlaxOPTForCausalLM",
        "OPTConfig",
        {
            "hidden_size": 2048,
            "ffn_dim": 8192,
            "num_attention_heads": 32,
            "word_embed_proj_dim": 2048,
            "max_position_embeddings": 1024,
            LAYERS: 2,
        },
        {LAYERS: 24},
    ),
    "xglm": _decoder(
        "FlaxXGLMForCausalLM",
        "XGLMConfig",
        {"d_model": 1024, "ffn_dim": 4096, "num_layers": 2, "attention_heads": 16},
        {"num_layers": 24},
        inputs=_text(8, 1024),
    ),
}
SEQ2SEQ: dict[str, HuggingFace] = {
    "bart": _seq2seq("FlaxBartForConditionalGeneration", "BartConfig", 1024, 16, 4096, 12),
    "blenderbot": _seq2seq(
        "FlaxBlenderbotForConditionalGeneration",
        "BlenderbotConfig",
        2560,
        32,
        10240,
        4,
        settings={"encoder_layers": 1, "max_position_embeddings": 1024},
    ),
    "blenderbot_small": _seq2seq(
        "FlaxBlenderbotSmallForConditionalGeneration",
        "BlenderbotSmallConfig",
        512,
        16,
        2048,
        8,
        settings={"max_position_embeddings": 1024},
    ),
    "marian": _seq2seq(
        "FlaxMarianMTModel",
        "MarianConfig",
        512,
        8,
        2048,
        6,
        settings={"vocab_size": 58101, "pad_token_id": 58100, "decoder_start_token_id": 58100},
    ),
    "mbart": _seq2seq(
        "FlaxMBartForConditionalGeneration",
        "MBartConfig",
        1024,
        16,
        4096,
        12,
        settings={"vocab_size": 250027},
    ),
    "pegasus": _seq2seq(
        "FlaxPegasusForConditionalGeneration",
        "PegasusConfig",
        1024,
        16,
        4096,
        16,
        settings={"vocab_size": 96103},
    ),
    "mt5": _t5(
        "FlaxMT5ForConditionalGeneration",
        "MT5Config",
        _pairs(),
        vocab_size=250112,
        feed_forward_proj="gated-gelu",
    ),
    "longt5": _t5(
        "FlaxLongT5ForConditionalGeneration",
        "LongT5Config",
        _pairs(8, 2048, 256),
        encoder_attention_type="transient-global",
    ),
    "encoder_decoder": HuggingFace(
        model="FlaxEncoderDecoderModel",
        initialised=True,
        config="EncoderDecoderConfig",
        parts=(
            ("BertConfig", {LAYERS: 2}),
            ("GPT2Config", {"n_layer": 2, "add_cross_attention": True, "is_decoder": True}),
        ),
        inputs=_pairs(),
    ),
}
TEXT = {**ENCODERS, **DECODERS, **SEQ2SEQ}
