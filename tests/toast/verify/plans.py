"""Steps of example models, as modules to plan."""

from __future__ import annotations

from functools import cache

from benchmarks.proof import cases
from examples import mlp
from examples.forms import serialize


@cache
def module_of(name: str, preset: str = "tiny") -> bytes:
    """The bytecode of a model's step, its layers scanned where they can be."""
    if name == "mlp":
        return serialize(mlp.make_step(mlp.PRESETS[preset]), "bytecode")
    return cases.module_of(name, preset)
