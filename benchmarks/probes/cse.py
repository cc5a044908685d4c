"""What is computed, and gathered, twice of the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of, megabytes
from benchmarks.probes.probe import Compiled, Figure, Probe
from benchmarks.probes.programs import lowered

LAYERS, ROWS, WIDTH = 3, 1024, 1024


def layers(*, apart: bool = False, different: bool = False) -> bytes:
    """Layers that each make the same of a table, and multiply it by a weight of their own.

    `apart` each behind an optimization barrier; `different` each of another multiple of it.
    """

    def step(table: Any, *weights: Any) -> Any:
        found = []
        for n, weight in enumerate(weights):
            given = jax.lax.optimization_barrier(table) if apart else table
            made = jnp.cos(given * (n + 1) if different else given)
            found.append(jnp.tanh(made @ weight))
        return found

    return lowered(step, (ROWS, WIDTH), *[(WIDTH, WIDTH)] * LAYERS)


# Columns of the products come first, so each gathers the rows of the table that it reads.
GATHERED = (((1, 1), 0), ((2, 1), 0), ((3, 1), 0), ((0, 0), 0))
LAYOUTS = {
    "equal": Layout(program=layers, mesh="a=8", choices=GATHERED),
    "equal behind barriers": Layout(
        program=partial(layers, apart=True), mesh="a=8", choices=GATHERED
    ),
    "different": Layout(program=partial(layers, different=True), mesh="a=8", choices=GATHERED),
}


def made(compiled: Compiled) -> dict[str, Figure]:
    """How many cosines are computed, how many gathers there are, and their MB on the wire."""
    opcodes = [one.opcode for one in compiled.instructions()]
    gathers = [row for row in compiled.verdict.collectives if row.kind == "all_gather"]
    return {
        "cosines": opcodes.count("cosine"),
        "gathers": sum(row.count for row in gathers),
        "megabytes": megabytes(compiled),
    }


PROBE = Probe(
    name="cse",
    figures="cosines, gathers and MB on the wire of three layers that read one table",
    targets=("tpu-v5e:2x4", "a100:8"),
    cases=cases_of(LAYOUTS, made),
)
