"""The fewest rows that a tile has, by how wide its elements are."""

from __future__ import annotations

import re
from functools import partial

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered_of

TYPES = ("float32", "bfloat16", "int8")
ROWS = (1, 2, 4, 8)
_TILE = re.compile(r":T\((\d+),128\)")


def module(dtype: str) -> bytes:
    """Twice each of several arrays of six times so many rows."""

    def run(*given: jax.Array) -> list[jax.Array]:
        return [2 * one for one in given]

    return lowered_of(run, *(jax.ShapeDtypeStruct((6, r, 256), jnp.dtype(dtype)) for r in ROWS))


def fewest(compiled: Compiled) -> int:
    """The rows of the lowest tile in which arguments lie."""
    line = next(one for one in compiled.text.splitlines() if "entry_computation_layout" in one)
    given = line.split("entry_computation_layout=", 1)[1].split("->", 1)[0]
    return min(int(rows) for rows in _TILE.findall(given))


PROBE = Probe(
    name="narrow_rows",
    figures="rows of the lowest tile of arrays of 1, 2, 4 and 8 rows",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "tpu-v4:2x2x2", "tpu-v6e:2x4"),
    cases={dtype: Case.of(partial(module, dtype), fewest) for dtype in TYPES},
)
