"""Rows that are added up: whether they are stored before, or made inside the sum.

Each device looks up rows, or is given them, and adds them up to as many other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered_of

MIB = 2**20
Message = Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array]
"""What is added up: of a table, the places to look up and to add to, and weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """A sum of `messages` rows into `rows` of so many columns; a loss has `gradients`."""

    rows: int
    columns: int
    message: Message
    messages: int = 262_144
    gradients: bool = False

    def module(self) -> bytes:
        """The StableHLO."""
        table = jax.ShapeDtypeStruct((self.rows, self.columns), jnp.float32)
        places = jax.ShapeDtypeStruct((self.messages,), jnp.int32)
        weights = jax.ShapeDtypeStruct((self.messages, self._weights), jnp.float32)
        step = jax.grad(self._loss) if self.gradients else self._sum
        return lowered_of(step, table, places, places, weights)

    @property
    def _weights(self) -> int:
        return 1 if self.message in (plain, weighted, difference, multiplied) else self.columns

    def _sum(self, *given: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(self.message(*given), given[2], self.rows)

    def _loss(self, *given: jax.Array) -> jax.Array:
        return (self._sum(*given) ** 2).sum()


def plain(table: jax.Array, sender: jax.Array, *_: jax.Array) -> jax.Array:
    """What is looked up."""
    return table[sender]


def weighted(table: jax.Array, sender: jax.Array, _: jax.Array, weight: jax.Array) -> jax.Array:
    """That times a number each."""
    return table[sender] * weight


def difference(table: jax.Array, sender: jax.Array, receiver: jax.Array, _: Any) -> jax.Array:
    """Of two lookups, where it is positive."""
    return jax.nn.relu(table[sender] - table[receiver])


def multiplied(table: jax.Array, sender: jax.Array, *_: jax.Array) -> jax.Array:
    """A product of what is looked up."""
    return table[sender] @ table[: table.shape[1]]


def given(_table: jax.Array, _sender: jax.Array, _: jax.Array, weight: jax.Array) -> jax.Array:
    """What is computed of an argument."""
    return jnp.sin(weight)


SUMS = {
    f"{rows} of {columns}": Sum(rows=rows, columns=columns, message=weighted)
    for columns, sizes in {
        8: (16384, 30000),
        128: (16384, 24000, 27500),
        256: (11000, 12288),
        512: (3500, 5000),
        1024: (448, 512),
    }.items()
    for rows in sizes
} | {
    "as looked up": Sum(rows=16384, columns=128, message=plain),
    "of two lookups": Sum(rows=16384, columns=128, message=difference),
    "of an argument": Sum(rows=16384, columns=128, message=given),
    "of a narrow argument": Sum(rows=16384, columns=16, message=given),
    "of a product": Sum(rows=16384, columns=128, message=multiplied),
    "with gradients": Sum(rows=16384, columns=128, message=difference, gradients=True),
    "with gradients, as looked up": Sum(rows=16384, columns=128, message=plain, gradients=True),
}


def laid_out(compiled: Compiled) -> float:
    """MiB in main memory."""
    assert compiled.verdict.memory is not None
    assert compiled.verdict.memory.main is not None
    return round(compiled.verdict.memory.main / MIB, 2)


PROBE = Probe(
    name="scatter_fusion",
    figures="MiB in main memory",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={name: Case.of(one.module, laid_out) for name, one in SUMS.items()},
)
