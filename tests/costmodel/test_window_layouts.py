"""How a TPU lays out what is looked up by windows, as compiled programs show."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.programs import lowered_of
from benchmarks.probes.windows import WINDOWS
from tests.modules import analysed
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.window_layouts import windows_of

MIB = 2**20
HALF = {"lines of 8", "lines of images"}
"""Small ones, of which a v5p and a v3 keep a copy in main memory."""


@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v3"])
@pytest.mark.parametrize("name", WINDOWS)
def test_lookups_take_the_memory_that_libtpu_reports(name: str, device: str) -> None:
    """In rows where the table lies so; else narrow ones would take up to 64 times as much."""
    evaluator = Evaluator(analysed(WINDOWS[name].module()), Mesh.parse("all=8"), find(device))
    wanted = golden("windows", name, device)
    predicted = evaluator.cost(()).room / MIB
    assert predicted == pytest.approx(wanted, rel=0.61 if name in HALF else 0.34)


def taken(lookup: Callable[..., object], *shapes: tuple[int, ...]) -> list[tuple[str, list[int]]]:
    """The kinds of lookups, and the sizes of what each takes whole."""
    given = [
        jax.ShapeDtypeStruct(shape, jnp.int32 if number else jnp.float32)
        for number, shape in enumerate(shapes)
    ]
    program = analysed(lowered_of(lookup, *given)).program
    found = []
    for one in windows_of(program):
        made = program.values_of(one.op)[0] if one.use < 0 else program.sources[one.use]
        sizes = zip(program.shape(made), one.names, strict=True)
        whole = [size for size, name in sizes if name in one.whole]
        found.append((program.kind(one.op), whole))
    return found


def test_windows_are_what_no_place_chooses() -> None:
    assert taken(lambda x, at: x[at], (10, 7), (5,)) == [("stablehlo.gather", [7])]
    assert taken(lambda x, at: x[:, at], (10, 7, 3), (5,)) == [("stablehlo.gather", [10, 3])]
    each = taken(lambda x, at: jnp.take_along_axis(x, at, 1), (10, 7), (10, 2))
    assert each == []


def test_sums_of_windows_take_what_their_lookups_took() -> None:
    def slope(x: jax.Array, at: jax.Array) -> jax.Array:
        return jax.grad(lambda x: jnp.sin(x[:, at]).sum())(x)

    kinds = taken(slope, (10, 7, 3), (5,))
    assert [kind for kind, _ in kinds] == ["stablehlo.gather", "stablehlo.scatter"]
    assert {tuple(whole) for _, whole in kinds} == {(10, 3)}
