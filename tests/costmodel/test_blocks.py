"""What a product takes longer whose sums are scattered block by block, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.blocks import origin
from costmodel.devices import find
from costmodel.evaluator import Action, Evaluator
from costmodel.explain import KernelTime, explain
from costmodel.kernelblocks import BEGUN
from costmodel.kernelchanges import streamed
from costmodel.mesh import Mesh
from costmodel.tables import FEEDING
from tests.costmodel.test_stacks import loop
from tests.costmodel.texts import TPU, main, maps, moves, product
from tests.modules import analysed, argument_group

DEVICE = replace(find(TPU), windowed=4)
RATE = DEVICE.bandwidth * DEVICE.stream_efficiency
ROWS, K, COLUMNS = 4096, 65536, 4096
X, W, Y = f"x:{ROWS}x{K}xbf16", f"w:{K}x{COLUMNS}xbf16", f"y:{ROWS}x{COLUMNS}xbf16"
PLAIN = main(f"{X} {W}", [product(Y, X, W)], Y)


def evaluator(data: bytes, mesh: str = "a=8") -> Evaluator:
    return Evaluator(analysed(data), Mesh.parse(mesh), DEVICE, floored=False)


def scattering(found: Evaluator, rows: bool = True) -> tuple[Action, ...]:
    """What is contracted over the axis, and the rows of the result, or its columns."""
    places = ((0, 1), (0, 0) if rows else (1, 1))
    analysis = found.analysis
    return tuple(Action(group=argument_group(analysis, *place), axis=0) for place in places)


def beside(found: Evaluator, state: tuple[Action, ...]) -> list[KernelTime]:
    """What is computed because sums are partial."""
    return [row for row in explain(found, state).kernels if row.unfused]


def adding(rows: int, columns: int, devices: int, width: int = 2) -> float:
    """Seconds of the kernels that add up blocks: half of the sums twice, and their launches."""
    elements, size = rows * columns, width * rows * columns
    spent = elements / DEVICE.element_rate + size * streamed(DEVICE.on_chip_bytes, size) / RATE
    return BEGUN * (spent + devices * DEVICE.op_overhead)


def reading(cut: float, whole: float, devices: int) -> float:
    """Seconds by which multiplying waits for an operand that every two blocks read whole."""
    multiply = 2.0 * ROWS * K * COLUMNS / devices
    multiply /= DEVICE.flops["bf16"] * DEVICE.matmul_efficiency
    once, again = cut + whole, cut + whole * devices / 2
    return max(multiply, again * FEEDING / RATE) - max(multiply, once * FEEDING / RATE)


@pytest.mark.parametrize("rows", [True, False])
def test_every_two_blocks_are_added_to_what_there_is(rows: bool) -> None:
    found = evaluator(PLAIN)
    operand = 2.0 * ROWS * K / 8
    away = operand * streamed(DEVICE.on_chip_bytes, operand)
    waiting = reading(away, away, 8)
    # a pass of its own makes a result of the program: read and written on each device
    (row,) = beside(found, scattering(found, rows))
    assert row.seconds == pytest.approx(adding(ROWS, COLUMNS, 8) + waiting, rel=1e-6)


def test_a_narrow_product_waits_for_the_operand_that_all_its_blocks_read() -> None:
    """256 columns: to read 8 GB again takes longer than to multiply; in rows it need not."""
    x, w, y = "x:65536x65536xbf16", "w:65536x256xbf16", "y:65536x256xbf16"
    found = evaluator(main(f"{x} {w}", [product(y, x, w)], y))
    by_rows, by_columns = (
        sum(row.seconds for row in beside(found, scattering(found, rows))) for rows in (True, False)
    )
    more = 3 * 2.0 * 65536 * 65536 / 8 * FEEDING / RATE
    assert by_columns - by_rows == pytest.approx(more, rel=0.01)


def test_what_arithmetic_makes_for_blocks_is_made_before_them() -> None:
    lines = [maps("tanh", f"t:{ROWS}x{K}xbf16", "x"), product(Y, f"t:{ROWS}x{K}xbf16", W)]
    found, plain = evaluator(main(f"{X} {W}", lines, Y)), evaluator(PLAIN)
    made, given = (
        sum(row.seconds for row in beside(each, scattering(each))) for each in (found, plain)
    )
    elements = ROWS * K / 8
    assert made - given == pytest.approx(elements / DEVICE.element_rate + DEVICE.op_overhead)


STACK, LAYER = f"4x{K}x{COLUMNS}xbf16", f"1x{K}x{COLUMNS}xbf16"


@pytest.mark.parametrize("rows", [True, False])
def test_a_slice_of_a_stack_is_stored_where_its_blocks_are_parts_of_it(rows: bool) -> None:
    """Columns of the result are columns of the weight; its rows need the whole, from the stack."""
    cut = "%c = stablehlo.dynamic_slice %w, %i, %z, %z, sizes"
    types = f"(tensor<{STACK}>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<{LAYER}>"
    lines = [
        "%z = stablehlo.constant dense<0> : tensor<i32>",
        f"{cut} = [1, {K}, {COLUMNS}] : {types}",
        moves("reshape", f"m:{K}x{COLUMNS}xbf16", f"c:{LAYER}"),
        product(Y, X, f"m:{K}x{COLUMNS}xbf16"),
    ]
    found = evaluator(main(f"{X} w:{STACK} i:i32", lines, Y))
    whole, columns = (0, 0), (1, 2)
    analysis = found.analysis
    places = ((0, 1), whole if rows else columns)
    state = tuple(Action(group=argument_group(analysis, *place), axis=0) for place in places)
    (row,) = beside(found, state)
    elements = K * COLUMNS / 8
    layer = 2.0 * elements
    stored = elements / DEVICE.element_rate + DEVICE.op_overhead
    x = layer * streamed(DEVICE.on_chip_bytes, layer)
    waiting = reading(x, layer, 8) if rows else 0.0
    expected = adding(ROWS, COLUMNS, 8) + (0.0 if rows else stored) + waiting
    assert row.seconds == pytest.approx(expected, rel=1e-6)


def test_nothing_is_added_block_by_block_where_sums_are_whole() -> None:
    found = evaluator(PLAIN)
    analysis = found.analysis
    state = (Action(group=argument_group(analysis, 0, 0), axis=0),)
    assert not [row for row in beside(found, state) if row.seconds]


def test_where_an_operand_comes_from() -> None:
    """A slice is cut from what is stored; a sum of it and others is arithmetic."""
    found = evaluator(loop(4, 128, 256))
    program = found.analysis.program
    (dot,) = (op for op in range(program.ops) if program.kind(op).endswith("dot_general"))
    x, w = (program.sources[use] for use in program.uses_of(dot))
    stack = next(
        int(found.layouts.use_tensor[program.op_uses[op]])
        for op in range(program.ops)
        if program.kind(op).endswith("dynamic_slice")
    )
    assert origin(program, found.layouts, found.fusion, x) == (False, None)
    assert origin(program, found.layouts, found.fusion, w) == (False, stack)
    (row,) = (row for op, row in found.listing.part_of.items() if op == dot)
    blocks = found.listing.blocks
    assert blocks.cut[row].tolist() == [0.0, 1.0]
    assert blocks.made[row].tolist() == [0.0, 0.0]
    assert blocks.whole[row].tolist() == [
        int(found.layouts.use_tensor[program.uses_of(dot)[0]]),
        stack,
    ]
    assert blocks.dims[row].tolist() == [0b01, 0b10]


def test_an_operand_that_is_made_of_a_slice_is_made_by_arithmetic() -> None:
    half = f"h:{ROWS}x{K}xbf16"
    lines = [
        moves("slice", half, f"x:{2 * ROWS}x{K}xbf16", f" [0:{ROWS}, 0:{K}]"),
        maps("tanh", f"t:{ROWS}x{K}xbf16", "h"),
        product(Y, f"t:{ROWS}x{K}xbf16", W),
    ]
    found = evaluator(main(f"x:{2 * ROWS}x{K}xbf16 {W}", lines, Y))
    assert found.listing.blocks.made.max() == 1.0
    assert found.tables.dot_computed[0].tolist() == [1, 0]
