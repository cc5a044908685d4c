"""How much of the memory on the chip a TPU's compiler gives to buffers: many, or large ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered
from benchmarks.probes.smallest_fusions import PROBE as SMALLEST

WIDTH = 256
SIZES = (7, 15, 23, 31, 46, 47, 55, 62, 94)


def alive(values: int, rows: int) -> bytes:
    """Products of so many rows, of which the last is read first."""

    def step(x: Any, w: Any) -> Any:
        made = [x]
        for _ in range(values):
            made.append(made[-1] @ w)
        total = made.pop()
        while made:
            total = (total + made.pop()) @ w
        return total

    return lowered(step, (rows, WIDTH), (WIDTH, WIDTH))


def handed_on(mebibytes: int) -> bytes:
    """Products of which each is alive until the next is made, with as many bytes."""

    def step(x: Any, w: Any) -> Any:
        for _ in range(8):
            x = jnp.tanh(x @ w)
        return jnp.sum(x)

    return lowered(step, (mebibytes * 2**20 // (4 * WIDTH), WIDTH), (WIDTH, WIDTH))


def mebibytes(compiled: Compiled) -> float:
    """Those on the chip that have buffers, by the compiler's report of memory."""
    memory = compiled.verdict.memory
    return round((memory.on_chip or 0) / 2**20, 2) if memory else 0.0


PROBE = Probe(
    name="on_chip",
    figures="MiB of the memory on the chip that are given to buffers",
    targets=SMALLEST.targets,
    cases={
        f"{values} values of {size} MiB": Case.of(
            partial(alive, values, size * 2**20 // (4 * WIDTH)), mebibytes
        )
        for values, size in ((32, 1), (256, 1), (128, 2), (64, 4))
    }
    | {f"{size} MiB handed on": Case.of(partial(handed_on, size), mebibytes) for size in SIZES},
)
