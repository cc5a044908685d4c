"""Cycles of programs of one tile: what it takes to launch anything."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp

from benchmarks.probes.probe import Case, Probe, cycles
from benchmarks.probes.programs import lowered

ROWS, COLUMNS = 8, 128
CASES = {
    "a tanh": partial(lowered, jnp.tanh, (ROWS, COLUMNS)),
    "a tanh in 16 bits": partial(lowered, jnp.tanh, (2 * ROWS, COLUMNS), dtype="bfloat16"),
    "sums of rows": partial(lowered, partial(jnp.sum, axis=1), (ROWS, COLUMNS)),
}

PROBE = Probe(
    name="smallest_fusions",
    figures="cycles of a program that launches one fusion, of one tile",
    targets=(
        "tpu-v5e:2x4",
        "tpu-v5p:2x2x2",
        "tpu-v3:2x2",
        "tpu-v4:2x2x1",
        "tpu-v6e:2x4",
        "tpu-v7x:2x2x1",
    ),
    cases={name: Case.of(module, cycles) for name, module in CASES.items()},
)
