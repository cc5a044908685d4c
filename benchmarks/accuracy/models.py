"""The programs that are compiled: small ones, and large ones cut to a layer or two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from examples import gemma, mlp
from examples.forms import Step, serialize
from examples.models import MODELS

Maker = Callable[[], Step]


def makers() -> dict[str, Maker]:
    """All models by name, cheapest to compile first."""
    large = replace(gemma.PRESETS["gemma_2b"], batch=16)
    small = replace(
        large, layers=2, d_model=1024, hidden=4096, heads=8, head_dim=128, vocab=32000, seq=512
    )
    cut = {
        "mlp_small": partial(mlp.make_step, mlp.PRESETS["small"]),
        "mlp_large": partial(
            mlp.make_step, mlp.Config(batch=8192, inputs=4096, hidden=16384, outputs=4096)
        ),
        "gemma_tiny": partial(gemma.make_step, gemma.PRESETS["tiny"]),
        "gemma_demo": partial(gemma.make_step, gemma.PRESETS["demo"]),
        "gemma_small": partial(gemma.make_step, small),
        "gemma_2b_1": partial(gemma.make_step, replace(large, layers=1)),
        "gemma_2b_2": partial(gemma.make_step, replace(large, layers=2)),
        "gemma_2b_2_remat": partial(gemma.make_step, replace(large, layers=2, remat=True)),
    }
    return cut | _public_models()


def module_of(name: str) -> bytes:
    """The StableHLO of a model as bytecode."""
    return serialize(makers()[name](), "bytecode")


def _public_models() -> dict[str, Maker]:
    """The smallest size of each model of `examples.models`."""
    return {
        f"{name}_tiny": partial(model.make_step, model.presets["tiny"])
        for name, model in MODELS.items()
        if "tiny" in model.presets
    }
