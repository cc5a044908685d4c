"""Tables of narrow rows: whether they are copied into rows for lookups, and updates with them.

Each is looked up by 4,096 places, or by 26 for each of 16,384 examples. Most are then updated by
the gradient of that. Each device does all of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered_of

PLACES = 4096


class Update(IntEnum):
    """What is done with the gradient, by how many arrays beside the table it reads and writes."""

    NONE = -1
    SGD = 0
    ADAGRAD = 1
    ADAM = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of `rows` of so many columns, in f32 or 16 bits."""

    columns: int
    rows: int
    update: Update = Update.NONE
    dtype: str = "float32"
    places: tuple[int, ...] = (PLACES,)

    def module(self) -> bytes:
        """The StableHLO; all that is updated is donated."""
        table = jax.ShapeDtypeStruct((self.rows, self.columns), jnp.dtype(self.dtype))
        places = jax.ShapeDtypeStruct(self.places, jnp.int32)
        wanted = jax.ShapeDtypeStruct((*self.places, self.columns), table.dtype)
        if self.update == Update.NONE:
            return lowered_of(_looked_up, table, places)
        kept = [table] * int(self.update)
        donated = tuple(range(1 + len(kept)))
        return lowered_of(_updated, table, *kept, places, wanted, donated=donated)


def _looked_up(table: jax.Array, places: jax.Array) -> jax.Array:
    return jnp.tanh(table[places])


def _updated(table: jax.Array, *given: jax.Array) -> tuple[jax.Array, ...]:
    *kept, places, wanted = given
    loss, slope = jax.value_and_grad(lambda t: jnp.mean((t[places] * wanted) ** 2))(table)
    if not kept:
        return table - 0.1 * slope, loss
    if len(kept) == Update.ADAGRAD:
        scale = kept[0] + slope * slope
        return table - 0.1 * slope / jnp.sqrt(scale + 1e-6), scale, loss
    moment, scale = 0.9 * kept[0] + 0.1 * slope, 0.99 * kept[1] + 0.01 * slope * slope
    return table - 0.1 * moment / (jnp.sqrt(scale) + 1e-6), moment, scale, loss


def laid_out(compiled: Compiled) -> dict[str, Any]:
    """Copies of arrays as large as the table, cycles of all and of zeros, MiB of main memory."""
    verdict = compiled.verdict
    shape = re.search(r"entry_computation_layout=\{\(\w+(\[\d+,\d+\])", compiled.text)
    assert shape is not None
    assert verdict.memory is not None
    assert verdict.memory.main is not None
    copies = re.findall(rf"= \w+{re.escape(shape.group(1))}\S* copy\(", compiled.text)
    zeros = re.findall(
        rf"= \w+{re.escape(shape.group(1))}\S* broadcast\(.*\"estimated_cycles\":\"(\d+)\"",
        compiled.text,
    )
    return {
        "copies": len(copies),
        "copying": int(verdict.cycles.get("copy", 0)),
        "cycles": int(sum(verdict.cycles.values())),
        "zeros": sum(map(int, zeros)),
        "mib": round(verdict.memory.main / 2**20, 2),
    }


NONE, SGD, ADAGRAD, ADAM = Update
FIELDS = (16384, 26)
"""Places of examples that have several, which fill no tile."""
MILLION, LESS = 1_000_000, 200_000
TABLES = {
    "1 of a million": Table(columns=1, rows=MILLION),
    "16 of 290,000": Table(columns=16, rows=290_000),
    "16 of 300,000": Table(columns=16, rows=300_000),
    "40 of 350,000": Table(columns=40, rows=350_000),
    "40 of 420,000": Table(columns=40, rows=420_000),
    "56 of a million": Table(columns=56, rows=MILLION),
    "57 of a million": Table(columns=57, rows=MILLION),
    "64 of a million": Table(columns=64, rows=MILLION),
    "64 of a million, 16 bits": Table(columns=64, rows=MILLION, dtype="bfloat16"),
    "96 of a million": Table(columns=96, rows=MILLION),
    "128 of a million": Table(columns=128, rows=MILLION),
    "200 of a million": Table(columns=200, rows=MILLION),
    "1 of 200,000, SGD": Table(columns=1, rows=LESS, update=SGD),
    "16 of 200,000, SGD": Table(columns=16, rows=LESS, update=SGD),
    "16 of a million, SGD": Table(columns=16, rows=MILLION, update=SGD),
    "64 of a million, SGD": Table(columns=64, rows=MILLION, update=SGD),
    "64 of a million, Adagrad": Table(columns=64, rows=MILLION, update=ADAGRAD),
    "16 of a million, Adagrad": Table(columns=16, rows=MILLION, update=ADAGRAD),
    "64 of a million, Adam": Table(columns=64, rows=MILLION, update=ADAM),
    "16 of a million, Adam": Table(columns=16, rows=MILLION, update=ADAM),
    "128 of a million, Adam": Table(columns=128, rows=MILLION, update=ADAM),
    "8 of 200,000, 26 places": Table(columns=8, rows=LESS, update=SGD, places=FIELDS),
    "16 of 200,000, 26 places": Table(columns=16, rows=LESS, update=SGD, places=FIELDS),
    "64 of 200,000, 26 places": Table(columns=64, rows=LESS, update=SGD, places=FIELDS),
}
"""By name: columns, rows, and the update."""

PROBE = Probe(
    name="tables",
    figures="copies of a table, cycles of copies, of all and of zeros, MiB of main memory",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={name: Case.of(one.module, laid_out) for name, one in TABLES.items()},
)
