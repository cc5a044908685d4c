"""T7B: a training step of the 7B Gemma-1 transformer (TOAST section 5.1).

The paper's table gives a hidden size of 49152; that is the gate and the up projection together,
24576 each. Every head has keys and values of its own, as in Gemma 7B. "7B" counts what is not
embedding, 7.75 billion; with the table of 256128 x 3072 the parameters are 8.54 billion, the whole
that Gemma's report gives. Batch and sequence are ours, as in `t2b`.
"""

from __future__ import annotations

from examples.models.common import Model
from examples.models.transformer import Config, make_step, param_shapes

PRESETS = {
    "paper": Config(
        layers=28,
        d_model=3072,
        hidden=24576,
        heads=16,
        head_dim=256,
        vocab=256128,
        batch=32,
        seq=2048,
        dtype="bfloat16",
        shared_keys=False,
    ),
    "tiny": Config(
        layers=2,
        d_model=64,
        hidden=192,
        heads=8,
        head_dim=16,
        vocab=256,
        batch=8,
        seq=32,
        shared_keys=False,
    ),
}

MODEL = Model(
    name="t7b",
    summary="Gemma-1 7B, training with Adam",
    presets=PRESETS,
    params=param_shapes,
    make_step=make_step,
    published={"paper": 8.54e9},
    has_scan=True,
)
lower = MODEL.lower
