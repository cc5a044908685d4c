"""Every model of the registry in every size, unrolled and, where it can be, scanned."""

from __future__ import annotations

from examples.forms import serialize
from examples.models import MODELS

Variant = tuple[str, str, bool]
"""Name, preset, whether the layers are scanned."""

VARIANTS: list[Variant] = [
    (name, preset, scan)
    for name, model in MODELS.items()
    for preset in model.presets
    for scan in ((False, True) if model.has_scan else (False,))
]
TINY = [variant for variant in VARIANTS if variant[1].startswith("tiny")]
FULL = [variant for variant in VARIANTS if not variant[1].startswith("tiny")]
SCANNED = [name for name, model in MODELS.items() if model.has_scan]


def module_of(variant: Variant) -> bytes:
    """A model as bytecode."""
    name, preset, scan = variant
    model = MODELS[name]
    return serialize(model.make_step(model.config(preset, scan=scan)), "bytecode")
