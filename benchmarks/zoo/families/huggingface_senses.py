"""The models of images, of speech, and of pairs of senses of Hugging Face."""

from __future__ import annotations

from benchmarks.zoo.families.huggingface import HuggingFace, pixels
from examples.libraries.common import of

LAYERS = "num_hidden_layers"
_VISION = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, LAYERS: 2}
_TEXT = {"hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 8, LAYERS: 2}
_SPEECH = {LAYERS: 2, "do_stable_layer_norm": True, "feat_extract_norm": "layer"}
_SOUND = 80_000

SENSES: dict[str, HuggingFace] = {
    "beit": HuggingFace(
        model="FlaxBeitForMaskedImageModeling",
        config="BeitConfig",
        settings={**_VISION, "image_size": 224, "use_mask_token": True},
        depth={LAYERS: 12},
        inputs={"pixel_values": pixels(128, 224), "bool_masked_pos": (128, 196)},
    ),
    "dinov2": HuggingFace(
        model="FlaxDinov2ForImageClassification",
        config="Dinov2Config",
        settings={
            "hidden_size": 1024,
            "num_attention_heads": 16,
            LAYERS: 2,
            "image_size": 224,
            "patch_size": 14,
            "num_labels": 1000,
        },
        depth={LAYERS: 24},
        inputs={"pixel_values": pixels(128, 224)},
    ),
    "regnet": HuggingFace(
        model="FlaxRegNetForImageClassification",
        config="RegNetConfig",
        settings={
            "hidden_sizes": [224, 448, 896, 2240],
            "depths": [1, 1, 1, 1],
            "groups_width": 112,
            "num_labels": 1000,
        },
        inputs={"pixel_values": pixels(128, 224)},
    ),
    "clip": HuggingFace(
        model="FlaxCLIPModel",
        config="CLIPConfig",
        parts=(
            ("CLIPTextConfig", {**_TEXT, "vocab_size": 49408, "max_position_embeddings": 77}),
            ("CLIPVisionConfig", {**_VISION, "patch_size": 16}),
        ),
        inputs={
            "input_ids": (256, 77),
            "attention_mask": (256, 77),
            "pixel_values": pixels(256, 224),
        },
    ),
    "clip_text": HuggingFace(
        model="FlaxCLIPTextModelWithProjection",
        config="CLIPTextConfig",
        settings={
            "hidden_size": 1280,
            "intermediate_size": 5120,
            "num_attention_heads": 20,
            "projection_dim": 1280,
            LAYERS: 2,
        },
        depth={LAYERS: 32},
        inputs={"input_ids": (256, 77), "attention_mask": (256, 77)},
        outputs=("text_embeds",),
    ),
    "vision_text": HuggingFace(
        model="FlaxVisionTextDualEncoderModel",
        initialised=True,
        config="VisionTextDualEncoderConfig",
        parts=(("ViTConfig", _VISION), ("RobertaConfig", {LAYERS: 2})),
        inputs={
            "input_ids": (128, 64),
            "attention_mask": (128, 64),
            "pixel_values": pixels(128, 224),
        },
    ),
    "captioner": HuggingFace(
        model="FlaxVisionEncoderDecoderModel",
        initialised=True,
        config="VisionEncoderDecoderConfig",
        parts=(
            ("ViTConfig", _VISION),
            ("GPT2Config", {"n_layer": 2, "add_cross_attention": True, "is_decoder": True}),
        ),
        inputs={"pixel_values": pixels(64, 224), "decoder_input_ids": (64, 128)},
    ),
    "wav2vec2": HuggingFace(
        model="FlaxWav2Vec2ForCTC",
        config="Wav2Vec2Config",
        settings={
            **_SPEECH,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_attention_heads": 16,
        },
        depth={LAYERS: 24},
        inputs={"input_values": of(32, _SOUND)},
        loss="ctc",
    ),
    "speech_text": HuggingFace(
        model="FlaxSpeechEncoderDecoderModel",
        initialised=True,
        config="SpeechEncoderDecoderConfig",
        parts=(
            ("Wav2Vec2Config", {**_SPEECH, "add_adapter": True}),
            ("GPT2Config", {"n_layer": 2, "add_cross_attention": True, "is_decoder": True}),
        ),
        inputs={"inputs": of(16, _SOUND), "decoder_input_ids": (16, 128)},
    ),
}
