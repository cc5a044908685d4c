"""Parts of a dimension that are transposed between products: what is copied, in what time."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.transposed_parts import PROBE
from tests.modules import analysed
from toast.aot.target import CHIPS
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import fuse
from toast.costmodel.passes.transposed_parts import fits, parted_values, rows_of_tiles, split

BATCH, ROWS, WIDTH = 8, 1024, 256
DEVICES = ["tpu-v5e", "tpu-v5p", "tpu-v3"]


def _parted(
    function: Callable[..., jax.Array], *shapes: tuple[int, ...], device: str = "tpu-v5e"
) -> list[int]:
    """How often the tiles hold what is copied, for each copy."""
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    text = jax.jit(function).lower(*given).as_text()
    program = analysed(text.encode()).program
    found = parted_values(program, fuse(program, profile_of(find(device))))
    return sorted(times for values in found.values() for _, times in values)


def _windows(x: jax.Array, window: int) -> jax.Array:
    side = ROWS // 32 // window
    parts = x.reshape(BATCH, side, window, side, window, WIDTH)
    return parts.transpose(0, 1, 3, 2, 4, 5).reshape(-1, window * window, WIDTH)


COLUMNS = "2 x 2 pixels as columns"
OTHERWISE = pytest.mark.xfail(reason="pairs of pixels fill the tiles of a v5e alone")


@pytest.mark.parametrize(
    ("name", "device"),
    [
        pytest.param(name, device, marks=OTHERWISE)
        if name == COLUMNS and device != "tpu-v5e"
        else (name, device)
        for name in PROBE.cases
        for device in DEVICES
    ],
)
def test_copies_take_the_cycles_of_the_compiler(name: str, device: str) -> None:
    module = analysed(PROBE.cases[name].module(""))
    layout = {"layout_assignment": {"copies_parts": False}}
    profile, mesh = profile_of(find(device)), Mesh.parse("all=8")
    spent = [
        Evaluator(module, mesh, find(device), profile=one).cost(()).compute
        for one in (profile, profile.changed(layout))
    ]
    given = golden("transposed_parts", name, device)["cycles"]
    cycles = (spent[0] - spent[1]) * (CHIPS[device].clock or 0.0)
    assert cycles == pytest.approx(given, rel=0.25)


def test_windows_are_copied_and_what_products_can_make_so_is_not() -> None:
    shapes = ((BATCH, ROWS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH))
    assert _parted(lambda x, w, v: _windows(x @ w, 8) @ v, *shapes) == [2]
    assert not _parted(lambda x, w, v: (x @ w).transpose(1, 0, 2) @ v, *shapes)
    heads = (BATCH, ROWS, 4, WIDTH // 4)
    assert not _parted(lambda x, w: (x @ w).reshape(heads).transpose(0, 2, 1, 3), *shapes[:2])


def test_a_copy_that_is_undone_before_a_product_is_none() -> None:
    def back(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
        parts = _windows(x @ w, 8).reshape(BATCH, 4, 4, 8, 8, WIDTH)
        return jnp.tanh(parts).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape) @ v

    assert not _parted(back, (BATCH, ROWS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH))


def test_few_rows_leave_tiles_empty() -> None:
    def columns(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
        parts = (x @ w).reshape(BATCH, 16, 2, 16, 2, WIDTH).transpose(0, 1, 3, 2, 4, 5)
        return parts.reshape(BATCH, ROWS // 4, 4 * WIDTH) @ v

    shapes = ((BATCH, ROWS, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH))
    assert _parted(columns, *shapes) == [4]
    assert not _parted(columns, *shapes, device="a100-40gb")


def test_parts_are_those_of_both_shapes() -> None:
    found = split([[((0,), 12)], [((1,), 5)]], (3, 4, 5))
    assert found is not None
    dims, splits = found
    assert [[size for _, size in parts] for parts in dims] == [[3], [4], [5]]
    assert splits == {(0,): [((0, 0), 3), ((0, 1), 4)]}
    assert split([[((0,), 6)]], (4, 2)) is None


def test_what_fits_keeps_the_order_inside_each_dimension() -> None:
    a, b, c = (((number,), 4) for number in range(3))
    assert fits([[a, b], [c]], [[c], [a, b]])
    assert not fits([[a, b], [c]], [[b, a], [c]])
    assert not fits([[a, b], [c]], [[a, c], [b]])
    assert not fits([[a, b], [c]], [[c, b], [a]])


def test_rows_are_of_the_part_before_the_columns() -> None:
    one, two, wide = (((number,), size) for number, size in enumerate((64, 2, 128)))
    assert rows_of_tiles([[one], [two, wide]]) == 2
    assert rows_of_tiles([[one], [two], [wide]]) == 8
    assert rows_of_tiles([[wide]]) == 8
