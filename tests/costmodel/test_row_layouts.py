"""Tables of narrow rows: what lies row by row, what is copied for that, and what both take."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import pytest

from benchmarks.accuracy.unestimated import unestimated_seconds
from benchmarks.probes.figures import golden
from benchmarks.probes.programs import lowered_of
from benchmarks.probes.tables import TABLES, Table, Update
from tests.costmodel.profiles import TPU
from tests.modules import analysed, evaluator_of
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.passes.fusion import fuse
from toast.costmodel.passes.row_layouts import RowLayouts, row_layouts
from toast.costmodel.program.lookups import NO_ROWS, TABLE
from toast.costmodel.resolved import resolve

CYCLES = {"tpu-v5e": 1.503e9, "tpu-v5p": 1.75e9, "tpu-v3": 0.94e9}
"""Of each chip in a second."""
MIB = 2.0**20
LARGE = [name for name, one in TABLES.items() if one.rows == 1_000_000 and one.columns > 1]
LOOKED_UP = [name for name, one in TABLES.items() if one.update < 0 and one.columns > 1]
SEVERAL = [name for name, one in TABLES.items() if len(one.places) > 1]
COPY = 1e-4
"""Seconds."""
COPIED = [name for name in LARGE if golden("tables", name)["copies"]]


@cache
def priced(name: str, device: str) -> Evaluator:
    return evaluator_of(TABLES[name].module(), "all=8", device)


def seconds(name: str, device: str) -> float:
    """Of a case, less what libtpu gives no cycles."""
    resolved = resolve(priced(name, device), ())
    return resolved.cost.compute - unestimated_seconds(resolved)


def layouts_of(module: bytes) -> RowLayouts:
    program = analysed(module).program
    return row_layouts(program, fuse(program, TPU))


@pytest.mark.parametrize("device", CYCLES)
@pytest.mark.parametrize("name", COPIED)
def test_copied_tables_take_the_time_that_libtpu_estimates(name: str, device: str) -> None:
    """Less zeros, which have no price. One of two copies runs beside the rest on a v5p.

    A v3 copies an element in 0.7 of the time that its `element_rate` gives it.
    """
    figures = golden("tables", name, device)
    cycles = figures["cycles"] - figures["zeros"]
    beside = device == "tpu-v5p" and name in ("64 of a million, SGD", "64 of a million, Adam")
    near = 0.45 if beside or device == "tpu-v3" else 0.1
    assert seconds(name, device) * CYCLES[device] == pytest.approx(cycles, rel=near)


@pytest.mark.parametrize("device", CYCLES)
@pytest.mark.parametrize("name", LARGE)
def test_tables_take_the_memory_that_libtpu_lays_out(name: str, device: str) -> None:
    room = priced(name, device).room_bytes(()) / MIB
    assert room == pytest.approx(golden("tables", name, device)["mib"], rel=0.03)


@pytest.mark.parametrize("device", CYCLES)
@pytest.mark.parametrize("name", LOOKED_UP)
def test_a_table_is_copied_for_a_lookup_where_libtpu_does(name: str, device: str) -> None:
    """Of these tables no copy takes less than that, and no lookup more."""
    copied = golden("tables", name, device)["copies"] > 0
    assert (priced(name, device).cost(()).compute > COPY) == copied


@pytest.mark.parametrize("device", CYCLES)
@pytest.mark.parametrize("name", SEVERAL)
def test_what_is_added_up_for_several_places_of_an_example_is_copied(
    name: str, device: str
) -> None:
    """Libtpu copies narrow rows twice, by way of tiles of each example, and the model once."""
    cycles = golden("tables", name, device)["cycles"]
    assert 0.55 * cycles < seconds(name, device) * CYCLES[device] < 1.1 * cycles


@pytest.mark.parametrize(
    ("places", "copied"),
    [
        ((4096,), False),  # the gradient of what was looked up is made in rows
        ((512, 8), False),  # eight fill a tile
        ((512, 26), True),
    ],
)
def test_rows_that_are_made_in_whole_tiles_are_added_up_as_they_are(
    places: tuple[int, ...], copied: bool
) -> None:
    table = Table(columns=16, rows=4096, update=Update.SGD, places=places)
    assert bool(layouts_of(table.module()).added) == copied


def test_rows_that_a_product_makes_are_copied_to_be_added_up() -> None:
    rows, weights = (jax.ShapeDtypeStruct(shape, "f4") for shape in ((4096, 64), (64, 16)))
    places = jax.ShapeDtypeStruct((4096,), "int32")
    found = layouts_of(
        lowered_of(lambda i, x, w: jnp.zeros((512, 16)).at[i].add(x @ w), places, rows, weights)
    )
    assert len(found.added) == 1


def test_an_update_of_few_arrays_computes_in_rows() -> None:
    """With one beside the table both are copied, with two the sum is."""
    for name, arrays in (("64 of a million, SGD", 2), ("64 of a million, Adagrad", 4)):
        found = layouts_of(TABLES[name].module())
        assert arrays in map(len, found.turned.values())
        assert TABLE in found.moving.tolist()
        assert not found.columns
    found = layouts_of(TABLES["64 of a million, Adam"].module())
    ((summed, _, _),) = found.columns
    assert [summed] in found.turned.values()


def test_nothing_else_lies_in_rows() -> None:
    found = layouts_of(lowered_of(lambda x: jnp.tanh(x) @ x, jax.ShapeDtypeStruct((64, 64), "f4")))
    assert set(found.moving.tolist()) == {NO_ROWS}
    assert not found.turned
    assert not found.held


def test_a_gpu_copies_no_table() -> None:
    evaluator = priced("64 of a million, Adagrad", "a100-40gb")
    assert len(evaluator.tables.fusions.turned) == 0
