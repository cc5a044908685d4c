"""Random programs: chains of the ops that move, merge, split and contract dimensions.

Every value holds small integers as f32, so sums come out exact in any order and two runs are equal
to the last bit or wrong. A value's largest magnitude is tracked and clamped before it grows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.laws.layout import Array

Shape = tuple[int, ...]
EXACT = 2.0**20


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value: its name, shape and largest possible magnitude."""

    name: str
    shape: Shape
    bound: float


def tensor(shape: Shape, dtype: str = "f32") -> str:
    """The MLIR type of a tensor."""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{dtype}>"


@dataclass(slots=True, repr=False)
class Text:
    """A module under construction."""

    arguments: list[tuple[Shape, int | None, int]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    _count: int = 0

    def __repr__(self) -> str:
        return self.module()

    def argument(self, shape: Shape) -> Value:
        """A new f32 argument with elements from -2 to 2."""
        self.arguments.append((shape, None, 0))
        value = Value(f"%a{len(self.arguments) - 1}", shape, 2.0)
        self.values.append(value)
        return value

    def indices(self, shape: Shape, size: int, last: int | None = None) -> str:
        """A new i32 argument of indices into `size` elements; some are out of bounds.

        `last` is the last index that is within bounds.
        """
        self.arguments.append((shape, size, size - 1 if last is None else last))
        return f"%a{len(self.arguments) - 1}"

    def fresh(self) -> str:
        """A name not used before."""
        self._count += 1
        return f"%v{self._count}"

    def raw(self, line: str) -> str:
        """Add an op `= line`; returns the name of its result."""
        name = self.fresh()
        self.lines.append(f"{name} = {line}")
        return name

    def add(self, line: str, shape: Shape, bound: float, *operands: Value) -> Value:
        """Add an op; its result is clamped where it could grow inexact."""
        self.used.update(operand.name for operand in operands)
        value = Value(self.raw(line), shape, bound)
        if bound > EXACT:
            value = self.clamp(value, 4)
        self.values.append(value)
        return value

    def clamp(self, value: Value, limit: int) -> Value:
        """The value within -limit..limit."""
        low, high = self.constant(-limit), self.constant(limit)
        kind = tensor(value.shape)
        line = f"stablehlo.clamp {low}, {value.name}, {high} : (tensor<f32>, {kind}, tensor<f32>)"
        self.used.add(value.name)
        return Value(self.raw(f"{line} -> {kind}"), value.shape, float(limit))

    def constant(self, number: float) -> str:
        """A scalar constant."""
        return self.raw(f"stablehlo.constant dense<{float(number):e}> : tensor<f32>")

    def module(self) -> str:
        """The text of the module; it returns every value that nothing used."""
        results = [value for value in self.values if value.name not in self.used]
        arguments = ", ".join(
            f"%a{i}: {tensor(shape, 'f32' if size is None else 'i32')}"
            for i, (shape, size, _) in enumerate(self.arguments)
        )
        types = ", ".join(tensor(value.shape) for value in results)
        names = ", ".join(value.name for value in results)
        body = "\n  ".join(self.lines)
        return (
            f"func.func public @main({arguments}) -> ({types}) {{\n"
            f"  {body}\n  return {names} : {types}\n}}\n"
        )

    def inputs(self, *, in_bounds: bool = False) -> list[Array]:
        """Arguments that fit: small integers, and indices from -1 to one too many."""
        generator = np.random.default_rng(0)
        found: list[Any] = []
        for shape, size, last in self.arguments:
            if size is None:
                found.append(generator.integers(-2, 3, shape).astype(np.float32))
                continue
            indices = np.asarray(generator.integers(-1, size + 1, shape))
            found.append((indices.clip(0, last) if in_bounds else indices).astype(np.int32))
        return found
