"""An architecture: a model of a library at one size, and what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.zoo.model import Model
from benchmarks.zoo.split import number_of
from benchmarks.zoo.variant import OPTIMIZERS, Variant

Make = Callable[[Variant], Model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model by name; `make` builds it for a variant, `variants` says for which."""

    name: str
    library: str
    make: Make
    variants: tuple[str, ...]

    def programs(self) -> dict[str, Variant]:
        """All its programs by name."""
        parsed = (Variant.parse(text) for text in self.variants)
        return {f"{self.name}/{variant}": variant for variant in parsed}


def usual(name: str, *more: str) -> tuple[str, ...]:
    """Two trainings, one of them in bf16, and inference; the hash of the name picks optimizers."""
    first, second = optimizers_of(name)
    return (f"train-{first}", f"train-{second}-bf16", "infer", *more)


def optimizers_of(name: str) -> tuple[str, str]:
    """Two different optimizers for an architecture."""
    number, count = number_of(f"optimizer of {name}"), len(OPTIMIZERS)
    first, step = number % count, 1 + number // count % (count - 1)
    return OPTIMIZERS[first], OPTIMIZERS[(first + step) % count]
