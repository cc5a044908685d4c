"""Lower the held-out models anew: `python -m benchmarks.accuracy.heldout`; needs `.[libraries]`.

Models of Hugging Face and diffusers at published widths, with as few layers as still show every
part. The modules are kept, so that only this program needs the libraries.
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.accuracy.models import KEPT
from examples.forms import Step, serialize
from examples.libraries.diffusion import unet
from examples.libraries.huggingface import bert, gpt2, llama, resnet, t5, vit, whisper

_T5 = {"num_layers": 2, "d_model": 768, "d_ff": 3072, "num_heads": 12}
_WHISPER = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "d_model": 512,
}
_RESNET: dict[str, Any] = {
    "embedding_size": 64,
    "hidden_sizes": [256, 512, 1024],
    "depths": [1, 1, 1],
}
_UNET = {
    "sample_size": 32,
    "block_out_channels": (320, 640),
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "layers_per_block": 1,
    "attention_head_dim": 8,
    "cross_attention_dim": 768,
}
MAKERS: dict[str, Callable[[], Step]] = {
    "bert_cut": partial(bert, 32, 512, num_hidden_layers=2),
    "gpt2_cut": partial(gpt2, 8, 1023, n_layer=2),
    "llama_cut": partial(llama, 8, 512, num_hidden_layers=1, max_position_embeddings=512),
    "t5_cut": partial(t5, 32, 512, 114, **_T5),
    "vit_cut": partial(vit, 64, num_hidden_layers=2),
    "whisper_cut": partial(whisper, 16, 448, **_WHISPER),
    "resnet_cut": partial(resnet, 64, **_RESNET),
    "diffusers_cut": partial(unet, 16, 77, **_UNET),
}


def main() -> int:
    """Write every module; returns the exit code."""
    import jax

    # Paths in locations start at the package, so that the files do not depend on the machine.
    jax.config.update(
        "jax_hlo_source_file_canonicalization_regex", r".*/(?:site-packages/|(?=examples/))"
    )
    jax.config.update("jax_include_full_tracebacks_in_locations", False)
    KEPT.mkdir(parents=True, exist_ok=True)
    for name, make in MAKERS.items():
        data = serialize(make(), "bytecode")
        packed = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
        (KEPT / f"{name}.mlirbc.xz").write_bytes(packed)
        print(f"{name}: {len(data):,} bytes, {len(packed):,} packed", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
