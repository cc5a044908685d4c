"""A model of any library but Hugging Face's: a class, its settings, and its inputs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from benchmarks.zoo.model import (
    Apply,
    Cached,
    Model,
    class_labels,
    class_loss,
    value_labels,
    value_loss,
)
from benchmarks.zoo.variant import Variant

Inputs = Mapping[str, jax.ShapeDtypeStruct]
_LOSSES = {"classes": class_loss, "values": value_loss}
_LABELS = {"classes": class_labels, "values": value_labels}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What an adapter makes of a class: shapes of its variables, its call, and maybe a cache."""

    variables: Any
    apply: Apply
    decode: Cached | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A model. `adapter` is a module of this package with `make`, `model` a class in another.

    `depth` are the settings of a published model that say how many layers it has. `loss` is of
    `classes` or of `values`; one that `checkpoints` takes the policy of a variant as `policy`.
    """

    adapter: str
    model: str
    inputs: Inputs
    settings: Mapping[str, Any] = field(default_factory=dict)
    depth: Mapping[str, Any] = field(default_factory=dict)
    loss: str = "classes"
    checkpoints: bool = False

    def make(self, variant: Variant) -> Model:
        """The model for a variant."""
        settings = {**self.settings, **(self.depth if variant.deep else {})}
        if self.checkpoints:
            settings["policy"] = variant.policy
        file, _, name = self.model.rpartition(".")
        kind = getattr(importlib.import_module(f"{__package__}.{file}"), name)
        adapter = importlib.import_module(f"{__package__}.{self.adapter}")
        made: Made = adapter.make(kind, settings, self.inputs, variant)
        cached = made.decode
        return Model(
            variables=made.variables,
            inputs=self.inputs,
            apply=made.apply,
            loss=_LOSSES[self.loss],
            labels=_LABELS[self.loss],
            decode=None if cached is None else lambda: cached,
        )
