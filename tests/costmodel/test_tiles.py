"""Matrix products cost whole tiles of the matrix unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from benchmarks.probes.figures import golden
from benchmarks.probes.fusion_rates import PASSES
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.aot.target import CHIPS
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.kernels.compute import product_tiling
from toast.costmodel.kernels.incremental import streamed
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.program.contractions import BATCH, CONTRACTED, LEFT, RIGHT, product_sides

DEVICE = find("tpu-v5e")


@njit(_nrt=False)
def product_in_tiles(t: Any, s: Any, dot: int) -> tuple[float, float, bool]:
    return product_tiling(t, s, dot)


def _product(b: int, m: int, k: int, n: int) -> Evaluator:
    text = f"""
func.func public @main(%x: tensor<{b}x{m}x{k}xbf16>, %w: tensor<{b}x{k}x{n}xbf16>)
    -> tensor<{b}x{m}x{n}xbf16> {{
  %y = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<{b}x{m}x{k}xbf16>, tensor<{b}x{k}x{n}xbf16>) -> tensor<{b}x{m}x{n}xbf16>
  return %y : tensor<{b}x{m}x{n}xbf16>
}}
"""
    return Evaluator(analyse(load(text.encode()).program), Mesh.parse("x=2"), DEVICE)


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


def _again_of(evaluator: Evaluator, *state: Action) -> float:
    scratch = evaluator.new_scratch()
    evaluator.cost(state, scratch)
    _, again, _ = product_in_tiles(evaluator.tables, scratch, 0)
    return float(again)


def test_large_operands_are_read_once_for_each_block_of_the_result() -> None:
    """Neither of the two fits on the chip: rows of blocks read the right one, columns the left."""
    size = 1536 * 9
    evaluator = _product(1, size, size, size)
    bytes_ = 2.0 * size * size
    assert bytes_ > DEVICE.on_chip_bytes
    assert _again_of(evaluator) == pytest.approx(2 * bytes_ * (size / 1536 - 1))


def test_the_more_room_an_operand_takes_the_more_is_read_again() -> None:
    """Of 128 MiB on the chip 32 MiB are a quarter: so much of what blocks read comes again."""
    quarter = _product(1, 4096, 4096, 131072)
    left, right = 2.0 * 4096 * 4096, 2.0 * 4096 * 131072
    blocks = left * (np.ceil(131072 / 1536) - 1) + right * (np.ceil(4096 / 1536) - 1)
    assert _again_of(quarter) == pytest.approx(blocks * left / DEVICE.on_chip_bytes)
    assert _again_of(_product(1, 8, 4096, 131072)) < 0.01 * right


def test_a_split_operand_may_stay_on_the_chip() -> None:
    evaluator = _product(1, 6144, 10240, 32768)
    tables = evaluator.tables
    rows = zip(tables.units.item_size.tolist(), tables.units.item_group.tolist(), strict=True)
    groups = {size: group for size, group in rows if group >= 0}
    assert _again_of(evaluator) > 0.0
    assert _again_of(evaluator, Action(group=groups[10240], axis=0)) < 0.5 * _again_of(evaluator)


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
