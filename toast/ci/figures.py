"""The three figures of a plan that a budget is about."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.plan import Plan

FigureName = Literal["memory", "step", "communication"]
FIGURES: tuple[FigureName, ...] = ("memory", "step", "communication")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one step on one device: bytes at the peak, seconds, bytes that collectives send."""

    memory: int
    step: float
    communication: int

    @classmethod
    def of(cls, plan: Plan) -> Figures:
        """The figures of a plan."""
        return cls(
            memory=plan.predicted.peak_bytes,
            step=plan.predicted.step_seconds,
            communication=sum(row.bytes for row in plan.collectives),
        )

    def value(self, name: FigureName) -> float:
        """A figure by its name."""
        found: float = getattr(self, name)
        return found

    def to_dict(self) -> dict[str, float]:
        """The figures by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def written(name: FigureName, value: float) -> str:
    """A figure as people write it: `2.01 GiB`, `12.3 ms`."""
    return format_seconds(value) if name == "step" else format_bytes(value)


def change(value: float, before: float) -> str:
    """How far a figure moved: `+4.2 %`, `=` where it did not."""
    if value == before:
        return "="
    return f"{(value - before) / before:+.1%}".replace("%", " %") if before else "new"
