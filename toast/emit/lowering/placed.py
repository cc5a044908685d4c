"""One op of a program with the layouts that a plan gives to what it uses and makes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from toast.emit.lowering.devices import Devices, Shape
from toast.plans.plan import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An op as `handle`; `shapes` and `made` are those of its operands and results, whole.

    `operands` and `results` are their layouts, `reduced` the axes over which it makes partial
    results, `passed` those over which its operands are partial, and so its results.
    """

    handle: Any
    devices: Devices
    shapes: tuple[Shape, ...]
    made: tuple[Shape, ...]
    operands: tuple[Spec, ...]
    results: tuple[Spec, ...]
    reduced: tuple[str, ...]
    passed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the op."""
        name: str = self.handle.name
        return name

    @property
    def axes(self) -> set[str]:
        """All axes that are on the op."""
        found = {axis for spec in (*self.operands, *self.results) for on in spec for axis in on}
        return found | set(self.reduced)

    def local_operand(self, index: int) -> Shape:
        """The shape of what a device holds of an operand."""
        return self.devices.local(self.shapes[index], self.operands[index])

    def local_result(self, index: int) -> Shape:
        """The shape of what a device holds of a result."""
        return self.devices.local(self.made[index], self.results[index])

    def without(self, axes: set[str]) -> Placed:
        """The op with these axes taken off all that it uses and makes."""
        if not axes:
            return self
        return replace(
            self,
            operands=tuple(_without(spec, axes) for spec in self.operands),
            results=tuple(_without(spec, axes) for spec in self.results),
            reduced=tuple(axis for axis in self.reduced if axis not in axes),
        )


def _without(spec: Spec, axes: set[str]) -> Spec:
    return [[axis for axis in on if axis not in axes] for on in spec]
