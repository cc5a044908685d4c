"""Matrix products cost whole tiles of the matrix unit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from benchmarks.probes.figures import golden
from benchmarks.probes.fusion_rates import PASSES
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.aot.target import CHIPS
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.kernels.incremental import streamed
from toast.costmodel.kernels.products import product_tiling
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.registry import without
from toast.costmodel.program.contractions import BATCH, CONTRACTED, LEFT, RIGHT, product_sides

DEVICE = find("tpu-v5e")


@njit(_nrt=False)
def product_in_tiles(t: Any, s: Any, dot: int) -> tuple[float, tuple[float, float], bool]:
    return product_tiling(t, s, dot)


def _text(b: int, m: int, k: int, n: int, of: str) -> str:
    return f"""
func.func public @main(%x: tensor<{b}x{m}x{k}x{of}>, %w: tensor<{b}x{k}x{n}x{of}>)
    -> tensor<{b}x{m}x{n}x{of}> {{
  %y = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<{b}x{m}x{k}x{of}>, tensor<{b}x{k}x{n}x{of}>) -> tensor<{b}x{m}x{n}x{of}>
  return %y : tensor<{b}x{m}x{n}x{of}>
}}
"""


def _product(b: int, m: int, k: int, n: int) -> Evaluator:
    text = _text(b, m, k, n, "bf16").encode()
    return Evaluator(analyse(load(text).program), Mesh.parse("x=2"), DEVICE)


def _padding_of(evaluator: Evaluator, *state: Action) -> float:
    scratch = evaluator.new_scratch()
    evaluator.cost(state, scratch)
    padding, _, _ = product_in_tiles(evaluator.tables, scratch, 0)
    return float(padding)


def test_the_sides_of_a_product() -> None:
    program = _product(2, 24, 40, 56).analysis.program
    (op,) = (op for op in range(program.ops) if program.kind(op) == "stablehlo.dot_general")
    assert sorted(product_sides(program)[op]) == sorted(
        [(BATCH, 2), (LEFT, 24), (CONTRACTED, 40), (RIGHT, 56)]
    )


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((64, 256, 384, 128), 1.0),
        ((64, 256, 100, 128), 1.28),  # contracted
        ((64, 256, 384, 100), 1.04),  # 256 rows fill the columns, 100 stream through in eights
        ((64, 100, 384, 100), 1.28 * 1.04),
        ((3, 256, 384, 128), 1.0),  # a batch is so many products
    ],
)
def test_a_product_costs_whole_tiles(sizes: tuple[int, int, int, int], expected: float) -> None:
    assert _padding_of(_product(*sizes)) == pytest.approx(expected)


def test_the_local_size_counts() -> None:
    """192 are one and a half tiles; split in two they are 96 on each device, of a tile each."""
    evaluator = _product(64, 2048, 192, 2048)
    tables = evaluator.tables
    rows = zip(tables.units.item_size.tolist(), tables.units.item_group.tolist(), strict=True)
    groups = {size: group for size, group in rows if group >= 0}
    assert _padding_of(evaluator) == pytest.approx(256 / 192)
    assert _padding_of(evaluator, Action(group=groups[192], axis=0)) == pytest.approx(128 / 96)


def test_more_arithmetic_is_more_time() -> None:
    """12,700 are not a whole number of tiles: nearly as long as 12,800 where arithmetic binds."""
    whole, part = (_product(1, 1024, k, 65536).cost(()).compute for k in (12800, 12700))
    assert 12700 / 12800 < part / whole <= 1.0
    assert part / whole == pytest.approx(1.0, abs=0.001)


@settings(max_examples=25)
@given(st.tuples(*[st.integers(1, 300)] * 3))
def test_padding_never_saves_and_fills_tiles_at_most(sizes: tuple[int, int, int]) -> None:
    padding = _padding_of(_product(2, *sizes))
    most = 1.0
    for size in sizes:
        most *= -(-size // 128) * 128 / size
    assert 1.0 <= padding <= most * (1 + 1e-9)


def _seconds(b: int, m: int, k: int, n: int, *cut: int) -> tuple[float, float]:
    """Of a product as it waits for its operands, and if it did not, with these sizes in two."""
    found = []
    for profile in (profile_of(DEVICE), without(profile_of(DEVICE), ["dot_tiling"])):
        text = _text(b, m, k, n, "f32").encode()
        evaluator = Evaluator(
            analyse(load(text).program), Mesh.parse("x=2"), DEVICE, floored=False, profile=profile
        )
        units = evaluator.tables.units
        rows = zip(units.item_size.tolist(), units.item_group.tolist(), strict=True)
        groups = {size: group for size, group in rows if group >= 0}
        state = tuple(Action(group=groups[size], axis=0) for size in cut)
        found.append(evaluator.cost(state).compute)
    return found[0], found[1]


def _waits(*sizes: int) -> float:
    priced, once = _seconds(*sizes)
    return priced - once


def test_two_large_operands_are_read_again_for_each_block_of_the_result() -> None:
    """Neither stays on the chip: 27 strips of each pass the vector unit by words of 32 bits."""
    size = 27 * 1024
    words = (27 * 2 + 1) * size * size
    priced, once = _seconds(1, size, size, size)
    assert once < priced == pytest.approx(words / DEVICE.element_rate, rel=1 / 8)


def test_a_product_does_not_wait_where_an_operand_stays_on_the_chip() -> None:
    """Of 128 MiB on the chip 8 rows take nothing, 4,096 take half, and 8,192 all."""
    few, half, whole = (_waits(1, rows, 4096, 16384) for rows in (8, 4096, 8192))
    assert few < 1e-2 * half
    assert 1.5 * half < whole


def test_a_split_operand_may_stay_on_the_chip() -> None:
    whole, split = _waits(1, 6144, 10240, 32768), _waits(1, 6144, 10240, 32768, 6144)
    assert 0.0 < split < 0.5 * whole


@given(st.floats(0.0, 1e9), st.floats(0.0, 1e9))
def test_more_bytes_stream_more(one: float, two: float) -> None:
    chip = float(DEVICE.on_chip_bytes)
    less, more = sorted((one, two))
    assert 0.0 <= less * streamed(chip, 0.25, less) <= more * streamed(chip, 0.25, more) <= more
    assert streamed(0.0, 0.25, one) == 1.0
    assert streamed(chip, 0.25, chip / 4) == 0.0
    assert streamed(chip, 0.25, chip) == 1.0


def test_a_tensor_on_the_chip_costs_no_bandwidth() -> None:
    """An elementwise op of 16 MiB is bound by its elements, one of 512 MiB by its bytes."""
    text = """
func.func public @main(%x: tensor<{n}xf32>, %y: tensor<{n}xf32>) -> tensor<{n}xf32> {{
  %z = stablehlo.add %x, %y : tensor<{n}xf32>
  return %z : tensor<{n}xf32>
}}
"""
    small, large = (
        Evaluator(
            analyse(load(text.format(n=n).encode()).program),
            Mesh.parse("x=2"),
            DEVICE,
            floored=False,
        )
        for n in (2**22, 2**27)
    )
    overhead = DEVICE.op_overhead
    rate = DEVICE.bandwidth * DEVICE.stream_efficiency
    clock = CHIPS["tpu-v5e"].clock or 0.0
    each = golden("fusion_rates", "passes over 2 of 1 Mi")["loop"] / clock / PASSES - overhead
    assert small.cost(()).compute - overhead == pytest.approx(4 * each, rel=1 / 6)
    assert large.cost(()).compute - overhead == pytest.approx(3 * 2**29 / rate)
