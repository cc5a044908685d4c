"""Products of inference: few rows by a table that is streamed, and products in loops."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Probe, cycles
from benchmarks.probes.programs import lowered

ROWS = (256, 1024, 4096)
WORDS, COLUMNS = 32_000, 1024
"""The table takes 125 MiB in 32 bits, nearly all of the memory on a v5e."""


def greatest(x: Any, w: Any) -> Any:
    """The greatest score of each row."""
    return (x @ w.T).max(-1)


def in_turn(x: Any, w: Any) -> Any:
    """As many products in turn as there are rows, of operands that stay on the chip."""
    return jax.lax.fori_loop(0, x.shape[0], lambda _, one: jnp.tanh(one @ w), x)


def layers(x: Any, weights: Any) -> Any:
    """Layers whose weights are stacked: all are rounded before the loop."""
    return jax.lax.scan(lambda one, w: (jnp.tanh(one @ w), None), x, weights)[0]


STACKS = {
    "8 layers of 1024": ((256, COLUMNS), (8, COLUMNS, COLUMNS)),
    "24 layers of 512": ((256, 512), (24, 512, 512)),
    "4 layers of 4096": ((256, 4096), (4, 4096, 4096)),
}
"""Rows, and weights of a layer after another."""

PROBE = Probe(
    name="scores",
    figures="cycles of products in 32 bits",
    targets=("tpu-v5e:2x4",),
    cases={
        f"scores of {rows} rows": Case.of(
            partial(lowered, greatest, (rows, COLUMNS), (WORDS, COLUMNS), dtype="float32"), cycles
        )
        for rows in ROWS
    }
    | {
        "scores of 1024 rows of 128": Case.of(
            partial(lowered, greatest, (1024, 128), (8192, 128), dtype="float32"), cycles
        )
    }
    | {
        "64 products in a loop": Case.of(
            partial(lowered, in_turn, (64, COLUMNS), (COLUMNS, COLUMNS), dtype="float32"), cycles
        )
    }
    | {
        name: Case.of(partial(lowered, layers, *shapes, dtype="float32"), cycles)
        for name, shapes in STACKS.items()
    },
)
