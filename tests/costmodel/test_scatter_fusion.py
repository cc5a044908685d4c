"""Rows that a TPU makes inside their sum take no memory, as compiled programs show."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.programs import lowered_of
from benchmarks.probes.scatter_fusion import SUMS
from tests.costmodel.explained import assert_adds_up
from tests.costmodel.profiles import TPU
from tests.laws.states import every_action
from tests.modules import analysed, argument_group
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import fuse
from toast.costmodel.passes.scatter_fusion import added_inside

MIB = 2**20
COLUMNS = 128
CASES = [(name, device) for device in ("tpu-v5e", "tpu-v5p", "tpu-v3") for name in SUMS]
FAR = {
    "16384 of 8": "128 MiB are more than the memory on the chip, in which they wait in part",
    "12288 of 256": "what is looked up is kept while it is weighted",
    "5000 of 512": "what is looked up is kept while it is weighted",
}
FAR_V3 = {
    "11000 of 256": "a v3 makes no rows of 256 columns and more inside their sum",
    "3500 of 512": "a v3 makes no rows of 256 columns and more inside their sum",
    "448 of 1024": "a v3 makes no rows of 256 columns and more inside their sum",
    "with gradients, as looked up": "the sum is held twice",
}


def priced(name: str, device: str = "tpu-v5e", mesh: str = "all=8") -> Evaluator:
    return Evaluator(analysed(SUMS[name].module()), Mesh.parse(mesh), find(device))


@pytest.mark.parametrize(("name", "device"), CASES)
def test_a_sum_of_rows_takes_the_memory_that_libtpu_reports(
    name: str, device: str, request: pytest.FixtureRequest
) -> None:
    far = (FAR | FAR_V3 if device == "tpu-v3" else FAR).get(name)
    if far is not None:
        request.applymarker(pytest.mark.xfail(reason=far, strict=True))
    predicted = priced(name, device).cost(()).room / MIB
    assert predicted == pytest.approx(golden("scatter_fusion", name, device), rel=0.11)


def test_whether_rows_are_stored_depends_on_how_the_sum_is_sharded() -> None:
    """12,288 rows of 256 columns do not fit beside the rows that come in, half the columns do."""
    evaluator = priced("12288 of 256", mesh="a=2,b=4")
    columns = Action(group=argument_group(evaluator.analysis, 0, 1), axis=0)
    messages = SUMS["12288 of 256"].messages * 256 * 4
    whole, half = evaluator.cost(()), evaluator.cost((columns,))
    assert whole.room > messages
    assert half.room < messages / 8
    assert half.compute < whole.compute / 2


def test_what_something_else_reads_is_made_inside_no_sum() -> None:
    def both(table: jax.Array, places: jax.Array) -> tuple[jax.Array, jax.Array]:
        rows = jnp.tanh(table[places])
        return jax.ops.segment_sum(rows, places, 64), rows

    shapes = (64, COLUMNS), (512,)
    given = jax.ShapeDtypeStruct(shapes[0], jnp.float32), jax.ShapeDtypeStruct(shapes[1], jnp.int32)
    program = analysed(lowered_of(both, *given)).program
    inside = added_inside(program, fuse(program, TPU), COLUMNS)
    assert {program.kind(program.makers[v]) for v in (inside >= 0).nonzero()[0].tolist()} == set()
    alone = analysed(lowered_of(lambda *given: both(*given)[0], *given)).program
    inside = added_inside(alone, fuse(alone, TPU), COLUMNS)
    made = {alone.kind(alone.makers[v]) for v in (inside >= 0).nonzero()[0].tolist()}
    assert made == {"stablehlo.gather", "stablehlo.tanh"}


@pytest.mark.parametrize("name", ["of two lookups", "with gradients", "12288 of 256"])
def test_what_is_explained_adds_up(name: str) -> None:
    evaluator = priced(name, mesh="a=2,b=4")
    for action in every_action(evaluator):
        assert_adds_up(evaluator, (action,))


def test_single_numbers_and_sums_without_rows_are_priced() -> None:
    """`x.at[3].set(y)` adds no row, and nothing is added to a sum of no rows."""

    def numbers(x: jax.Array, place: jax.Array, y: jax.Array) -> jax.Array:
        return x.at[3].set(jnp.sin(y)).at[place].add(jnp.cos(y))

    def none(x: jax.Array, places: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(jnp.sin(x), places, 0)

    one, place = jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
    rows = jax.ShapeDtypeStruct((16, COLUMNS), jnp.float32)
    for module in (
        lowered_of(numbers, jax.ShapeDtypeStruct((16,), jnp.float32), place, one),
        lowered_of(none, rows, jax.ShapeDtypeStruct((16,), jnp.int32)),
    ):
        evaluator = Evaluator(analysed(module), Mesh.parse("all=8"), find("tpu-v5e"))
        for state in [(), *((action,) for action in every_action(evaluator))]:
            assert evaluator.cost(state).room >= 0.0
