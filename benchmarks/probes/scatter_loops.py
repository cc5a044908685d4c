"""Which lookups and sums by index a TPU runs in a loop, one row at a time, and what that takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Figure, Probe
from benchmarks.probes.programs import lowered_of
from toast.aot.cycles import estimated_cycles
from toast.aot.run_counts import runs

ROWS, WIDTH, FOUND = 8192, 256, 1024
TABLE = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32)
Step = Callable[..., Any]


def ids(*shape: int) -> jax.ShapeDtypeStruct:
    """Numbers of rows."""
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def values(*shape: int) -> jax.ShapeDtypeStruct:
    """What is written."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def slope(look: Step) -> Step:
    """The gradient of what a lookup finds, by its table."""

    def step(table: Any, *given: Any) -> Any:
        return jax.grad(lambda table: jnp.sum(jnp.sin(look(table, *given))))(table)

    return step


def one_by_one(table: Any, places: Any) -> Any:
    """A row for each place, under `jax.vmap`."""
    return jax.vmap(lambda place: table[place])(places)


def twice_mapped(table: Any, places: Any) -> Any:
    """The same for texts, under two `jax.vmap`."""
    return jax.vmap(jax.vmap(lambda place: table[place]))(places)


def windows(table: Any, places: Any) -> Any:
    """Eight rows from each place on."""
    return jax.vmap(lambda place: jax.lax.dynamic_slice_in_dim(table, place, 8))(places)


def cached(cache: Any, rows: Any, places: Any) -> Any:
    """A row written into the cache of each text, each at a place of its own."""

    def write(one: Any, row: Any, place: Any) -> Any:
        return jax.lax.dynamic_update_slice_in_dim(one, row[None], place, 0)

    return jax.vmap(write)(cache, rows, places)


def picked(logits: Any, labels: Any) -> Any:
    """The logit of each label, under `jax.vmap`, as losses of one example take it."""
    return jax.vmap(lambda row, label: jax.nn.log_softmax(row)[label])(logits, labels)


TEXTS = values(64, 128, WIDTH)
CASES: dict[str, tuple[Step, tuple[Any, ...]]] = {
    "rows": (lambda t, i: t[i], (TABLE, ids(FOUND))),
    "rows, mapped": (one_by_one, (TABLE, ids(FOUND))),
    "rows, mapped twice": (twice_mapped, (TABLE, ids(32, 32))),
    "elements": (lambda t, i, j: t[i, j], (TABLE, ids(FOUND), ids(FOUND))),
    "windows": (windows, (TABLE, ids(FOUND))),
    "rows of texts": (
        lambda t, i: jnp.take_along_axis(t, i[..., None], axis=1),
        (TEXTS, ids(64, 16)),
    ),
    "a row of each text": (lambda t, i: t[jnp.arange(64), i], (TEXTS, ids(64))),
    "a row of each text, mapped": (jax.vmap(lambda t, i: t[i]), (TEXTS, ids(64))),
    "a logit of each row, mapped": (picked, (values(64, 1000), ids(64))),
}
ALL: dict[str, tuple[Step, tuple[Any, ...]]] = {
    **CASES,
    **{f"gradient of {name}": (slope(step), given) for name, (step, given) in CASES.items()},
    "rows set": (lambda t, i, x: t.at[i].set(x), (TABLE, ids(FOUND), values(FOUND, WIDTH))),
    "rows written into caches": (cached, (TEXTS, values(64, WIDTH), ids(64))),
    "greatest of rows": (lambda t, i, x: t.at[i].max(x), (TABLE, ids(FOUND), values(FOUND, WIDTH))),
    "counts": (lambda i: jnp.zeros(ROWS, jnp.int32).at[i].add(1), (ids(FOUND),)),
}


def loops(compiled: Compiled) -> Figure:
    """Of each loop how often it runs, and launches and cycles of one trip."""
    found: list[Figure] = []
    for run in runs(compiled.module):
        if run.trips > 1 and not run.fused:
            spent = [estimated_cycles(one) for one in run.computation.instructions]
            launches = [cycles for cycles in spent if cycles]
            found.append({"trips": run.trips, "launches": len(launches), "cycles": sum(launches)})
    return found


PROBE = Probe(
    name="scatter_loops",
    figures="loops, and launches and cycles of one trip",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "a100:8"),
    cases={
        name: Case.of(partial(lowered_of, step, *given), loops)
        for name, (step, given) in ALL.items()
    },
)
