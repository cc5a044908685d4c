"""The models of all libraries but Hugging Face's, at widths of published ones."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.families.rows import Inputs, Row
from examples.libraries.common import of, tokens


def _images(batch: int, size: int, channels: int = 3) -> Inputs:
    return {"images": of(batch, size, size, channels)}


def _ids(batch: int, seq: int, name: str = "ids") -> Inputs:
    return {name: tokens(batch, seq)}


def _linen(model: str, inputs: Inputs, /, **more: Any) -> Row:
    fields = {name: more.pop(name) for name in ("depth", "loss", "checkpoints") if name in more}
    return Row(adapter="linen", model=model, inputs=inputs, settings=more, **fields)


def _graph(kind: str, nodes: int, edges: int, width: int, steps: int) -> Row:
    inputs = {
        "nodes": of(nodes, 128),
        "edges": of(edges, 64),
        "senders": tokens(edges),
        "receivers": tokens(edges),
    }
    return _linen("linen_other.Graph", inputs, kind=kind, width=width, steps=steps, outputs=128)


def _other(adapter: str, model: str, inputs: Inputs, loss: str = "classes", /, **more: Any) -> Row:
    depth = more.pop("depth", {})
    return Row(
        adapter=adapter,
        model=f"{adapter}_models.{model}",
        inputs=inputs,
        settings=more,
        depth=depth,
        loss=loss,
    )


LINEN: dict[str, Row] = {
    "translator": _linen(
        "linen_text.Translator",
        {"source": tokens(64, 256), "target": tokens(64, 256)},
        vocabulary=32000,
        width=1024,
        heads=16,
        hidden=4096,
        layers=2,
        depth={"layers": 6},
    ),
    "experts": _linen(
        "linen_text.ExpertDecoder",
        _ids(32, 512),
        vocabulary=32128,
        width=768,
        heads=12,
        hidden=3072,
        experts=16,
        layers=2,
        depth={"layers": 12},
    ),
    "retention": _linen(
        "linen_text.RetentiveDecoder",
        _ids(16, 2048),
        vocabulary=32000,
        width=1024,
        heads=8,
        chunk=256,
        layers=2,
        depth={"layers": 24},
    ),
    "perceiver": _linen(
        "linen_text.Perceiver",
        {"x": of(32, 50176 // 4, 261)},
        latents=512,
        width=1024,
        heads=8,
        layers=3,
        classes=1000,
    ),
    "bilstm": _linen(
        "linen_recurrent.BothWays",
        _ids(1024, 64),
        vocabulary=32000,
        width=512,
        hidden=1024,
        classes=64,
    ),
    "lstm_seq2seq": _linen(
        "linen_recurrent.Repeater",
        {"source": tokens(512, 64), "target": tokens(512, 64)},
        vocabulary=16000,
        hidden=1024,
    ),
    "gru_text": _linen(
        "linen_recurrent.GatedText", _ids(256, 128), vocabulary=33278, hidden=1500, layers=2
    ),
    "state_space": _linen(
        "linen_recurrent.StateSpaceText",
        _ids(16, 1024),
        vocabulary=32000,
        width=1024,
        states=2048,
        layers=2,
    ),
    "wavenet": _linen(
        "linen_recurrent.Waves", _ids(16, 8192, "samples"), width=256, layers=6, levels=256
    ),
    "conformer": _linen(
        "linen_recurrent.Conformer",
        {"frames": of(32, 1024, 80)},
        width=512,
        heads=8,
        layers=2,
        classes=1024,
        depth={"layers": 17},
    ),
    "convnet": _linen(
        "linen_vision.Convolutions", _images(256, 64), widths=(128, 256, 512), classes=200
    ),
    "convnext": _linen(
        "linen_vision.ConvNext",
        _images(128, 224),
        widths=(128, 256, 512, 1024),
        depths=(1, 1, 1, 1),
        classes=1000,
    ),
    "mlp_mixer": _linen(
        "linen_vision.Mixer",
        _images(256, 224),
        patch=16,
        width=1024,
        tokens=512,
        channels=4096,
        layers=2,
        classes=1000,
        depth={"layers": 24},
    ),
    "efficientnet": _linen(
        "linen_vision.Bottlenecks",
        _images(128, 192),
        widths=(32, 48, 96, 160),
        depths=(1, 1, 2, 1),
        classes=1000,
    ),
    "densenet": _linen(
        "linen_vision.Dense", _images(128, 224), growth=32, depths=(3, 3, 3), classes=1000
    ),
    "segmenter": _linen(
        "linen_vision.Segmenter", _images(32, 256), widths=(64, 128, 256), classes=21
    ),
    "pixelcnn": _linen("linen_vision.Pixels", _images(128, 32), width=160, layers=3, levels=256),
    "conv_vae": _linen(
        "linen_vision.ImageAutoencoder",
        _images(256, 128),
        widths=(64, 128, 256),
        latents=512,
        loss="values",
    ),
    "windows": _linen(
        "linen_vision.Windows",
        _images(128, 224),
        patch=4,
        window=7,
        width=256,
        heads=8,
        layers=2,
        classes=1000,
    ),
    "video": _linen(
        "linen_vision.Video",
        {"clips": of(16, 16, 112, 112, 3)},
        widths=(64, 128, 256),
        classes=400,
    ),
    "recommender": _linen(
        "linen_other.Recommender",
        {"numbers": of(16384, 13), "ids": tokens(16384, 26)},
        tables=26,
        rows=100_000,
        width=64,
        bottom=(512, 256),
        top=(1024, 1024, 512),
        loss="values",
    ),
    "actor_critic": _linen(
        "linen_other.ActorCritic",
        {"frames": of(4096, 84, 84, 4)},
        actions=18,
        hidden=512,
        loss="values",
    ),
    "gmlp": _linen(
        "linen_text.GatedMlpText",
        _ids(64, 512),
        vocabulary=32000,
        width=512,
        hidden=3072,
        layers=3,
        depth={"layers": 18},
    ),
    "mixture_text": _linen(
        "linen_text.MixtureText",
        _ids(16, 512),
        vocabulary=32000,
        width=1024,
        heads=16,
        hidden=2048,
        experts=8,
        layers=2,
    ),
    "temporal_convolution": _linen(
        "linen_recurrent.TemporalConvolution",
        {"series": of(256, 1024, 32)},
        width=256,
        layers=4,
        outputs=128,
    ),
    "selective_scan": _linen(
        "linen_recurrent.SelectiveText",
        _ids(16, 512),
        vocabulary=32000,
        width=768,
        states=16,
        layers=2,
    ),
    "hyena": _linen(
        "linen_recurrent.LongConvolution", _ids(32, 1024), vocabulary=32000, width=768, layers=2
    ),
    "volume_segmenter": _linen(
        "linen_vision.VolumeSegmenter",
        {"volumes": of(16, 64, 64, 64, 2)},
        widths=(32, 64, 128),
        classes=5,
    ),
    "set_transformer": _linen(
        "linen_other.SetTransformer",
        {"points": of(256, 2048, 6)},
        width=256,
        heads=4,
        induced=64,
        layers=3,
        classes=40,
    ),
    "wide_deep": _linen(
        "linen_other.WideAndDeep",
        {"categories": tokens(16384, 26), "numbers": of(16384, 13)},
        buckets=200_000,
        width=64,
        hidden=(1024, 512, 256),
        loss="values",
    ),
    "deepfm": _linen(
        "linen_other.FactorizationMachine",
        {"categories": tokens(16384, 39)},
        buckets=300_000,
        width=32,
        hidden=(1024, 1024, 512),
        loss="values",
    ),
    "nerf": _linen(
        "linen_other.Rays",
        {"origins": of(4096, 3), "directions": of(4096, 3)},
        width=256,
        layers=8,
        samples=128,
        frequencies=10,
        loss="values",
    ),
    "two_towers": _linen(
        "linen_other.Towers",
        {"user": tokens(8192), "item": tokens(8192)},
        users=1_000_000,
        items=200_000,
        width=128,
        hidden=1024,
    ),
}
SCANNED: dict[str, Row] = {
    "scanned_text": _linen(
        "linen_text.ScannedDecoder",
        _ids(32, 512),
        vocabulary=32000,
        width=1024,
        heads=16,
        hidden=4096,
        layers=4,
        depth={"layers": 24},
        checkpoints=True,
    ),
    "grouped_text": _linen(
        "linen_text.GroupedDecoder",
        _ids(16, 1024),
        vocabulary=32000,
        width=2048,
        heads=16,
        groups=4,
        size=128,
        hidden=5632,
        window=512,
        layers=2,
        depth={"layers": 16},
        checkpoints=True,
    ),
}
JRAPH: dict[str, Row] = {
    "graph_network": _graph("GraphNetwork", 8192, 65536, 512, 2),
    "interaction": _graph("InteractionNetwork", 16384, 65536, 256, 3),
    "relation": _graph("RelationNetwork", 8192, 65536, 256, 1),
    "deep_sets": _graph("DeepSets", 65536, 1024, 512, 1),
    "graph_convolution": _graph("GraphConvolution", 65536, 524288, 512, 2),
    "graph_attention": _graph("GAT", 16384, 131072, 256, 2),
}
NNX: dict[str, Row] = {
    "diffusion_transformer": _other(
        "nnx",
        "DiffusionTransformer",
        {"latents": of(128, 32, 32, 4), "times": of(128), "classes": tokens(128)},
        "values",
        patch=2,
        channels=4,
        width=1152,
        heads=16,
        layers=2,
        depth={"layers": 28},
    ),
    "nnx_convnet": _other(
        "nnx", "ConvNet", _images(256, 128), widths=(64, 128, 256, 512), classes=1000
    ),
    "nnx_vae": _other(
        "nnx",
        "Autoencoder",
        {"x": of(16384, 3072)},
        "values",
        inputs=3072,
        hidden=4096,
        latents=256,
    ),
    "nnx_scanned": _other(
        "nnx",
        "ScannedText",
        _ids(32, 512),
        vocabulary=32000,
        width=1024,
        heads=16,
        hidden=2816,
        layers=3,
        depth={"layers": 24},
    ),
    "nnx_lstm": _other("nnx", "Recurrent", _ids(256, 128), vocabulary=10000, width=1024),
}
EQUINOX: dict[str, Row] = {
    "eqx_language": _other(
        "equinox",
        "Language",
        _ids(32, 512),
        vocabulary=32000,
        width=1024,
        heads=16,
        hidden=2816,
        layers=2,
        depth={"layers": 16},
    ),
    "eqx_attention": _other(
        "equinox",
        "PooledAttention",
        {"readings": of(512, 256, 64)},
        inputs=64,
        width=512,
        heads=8,
        layers=3,
        classes=100,
    ),
    "sentence_encoder": _other(
        "equinox",
        "SentenceEncoder",
        _ids(64, 512),
        vocabulary=30522,
        seq=512,
        width=768,
        heads=12,
        hidden=3072,
        layers=2,
        classes=64,
        depth={"layers": 12},
    ),
    "score_mixer": _other(
        "equinox",
        "ScoreMixer",
        {"time": of(256), "image": of(256, 3, 64, 64)},
        "values",
        size=64,
        patch=4,
        width=256,
        hidden=1024,
        layers=3,
    ),
    "eqx_gru": _other(
        "equinox", "Gated", {"series": of(1024, 128, 64)}, inputs=64, hidden=1024, classes=100
    ),
    "patch_transformer": _other(
        "equinox",
        "PatchTransformer",
        {"image": of(128, 3, 224, 224)},
        patch=16,
        width=768,
        heads=12,
        hidden=3072,
        layers=2,
        classes=1000,
        depth={"layers": 12},
    ),
    "eqx_convnet": _other(
        "equinox",
        "Convolved",
        {"image": of(256, 3, 128, 128)},
        widths=(128, 256, 512),
        classes=1000,
    ),
}
HAIKU: dict[str, Row] = {
    "mobilenet": _other("haiku", "MobileNet", _images(128, 192), classes=1000),
    "hk_lstm": _other("haiku", "Characters", _ids(512, 128), levels=256, hidden=1024, layers=2),
    "hk_transformer": _other(
        "haiku",
        "Transformer",
        _ids(16, 1024),
        vocabulary=50257,
        heads=12,
        size=64,
        layers=2,
        depth={"layers": 12},
    ),
    "vq_vae": _other(
        "haiku", "Quantized", _images(256, 64), "values", width=256, codes=1024, size=64
    ),
}
DIFFUSERS: dict[str, Row] = {
    "autoencoder_kl": _other(
        "diffusers",
        "FlaxAutoencoderKL",
        {"sample": of(16, 3, 128, 128)},
        "values",
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=(128, 256, 512),
        sample_size=128,
    ),
    "controlnet": _other(
        "diffusers",
        "FlaxControlNetModel",
        {
            "sample": of(16, 4, 32, 32),
            "timesteps": tokens(16),
            "encoder_hidden_states": of(16, 77, 768),
            "controlnet_cond": of(16, 3, 256, 256),
        },
        "values",
        sample_size=32,
        block_out_channels=(320, 640),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        layers_per_block=1,
        cross_attention_dim=768,
    ),
}
