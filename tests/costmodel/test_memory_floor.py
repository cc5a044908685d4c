"""Arguments and results pass through main memory once, whatever fits on the chip."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.probes.figures import golden
from benchmarks.probes.fusion_rates import PASSES
from tests.costmodel.texts import TPU, maps, moves, product
from tests.costmodel.texts import main as module
from tests.modules import analysed, argument_group
from toast.aot.target import CHIPS
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.memory_floor import FLOORS

DEVICE = find(TPU)
RATE = DEVICE.bandwidth * DEVICE.stream_efficiency
BUFFERS = 112 * 2**20
"""Bytes on the chip that are given to buffers."""
N = 2**20
X = f"{N}x4xf32"
SUM = module(f"x:{X} y:{X}", [maps("add", f"z:{X}", "x", "y")], f"z:{X}")


def evaluator(data: bytes, *, floored: bool = True, device: str = TPU) -> Evaluator:
    return Evaluator(analysed(data), Mesh.parse("a=4"), find(device), floored=floored)


def test_what_fits_on_the_chip_is_fetched_and_stored_all_the_same() -> None:
    size = N * 4 * 4
    assert size < DEVICE.on_chip_bytes / 4
    assert evaluator(SUM).cost(()).compute == pytest.approx(3 * size / RATE)
    free = evaluator(SUM, floored=False).cost(()).compute
    passes = golden("fusion_rates", "passes over 2 of 1 Mi")["loop"] / (CHIPS[TPU].clock or 0.0)
    assert free == pytest.approx(N * 4 / 2**20 * passes / PASSES, rel=1 / 6)
    assert free < evaluator(SUM).cost(()).compute


def test_a_device_fetches_its_own_part() -> None:
    found = evaluator(SUM)
    action = Action(group=argument_group(found.analysis, 0, 0), axis=0)
    assert found.cost((action,)).compute == pytest.approx(3 * N * 4 * 4 / 4 / RATE)


def test_the_floor_is_a_maximum() -> None:
    """A hundred elementwise ops on what is fetched once take longer than that."""
    lines = [maps("tanh", "v0:" + X, "x")]
    lines += [maps("tanh", f"v{n}:{X}", f"v{n - 1}") for n in range(1, 3)]
    lines.append(maps("add", f"z:{X}", "v2", "x"))
    data = module(f"x:{X}", lines, f"z:{X}")
    low, high = evaluator(data, floored=False).cost(()), evaluator(data).cost(())
    assert high.compute == max(low.compute, 2 * N * 16 / RATE)
    assert (high.communication, high.peak, high.key) == (low.communication, low.peak, low.key)


def test_what_the_largest_leaves_no_room_for_comes_from_memory() -> None:
    """A vector beside a matrix of half the on-chip memory: half of it is waited for.

    Of the matrix as much less as fusions stream of it in any case.
    """
    half = BUFFERS // 2
    rows = half // (4 * 128)
    big, small, busy = f"{rows}x128xf32", f"{N}x1xf32", "2048x2048xf32"
    lines = [maps("tanh", f"v:{big}", "x"), maps("tanh", f"w:{small}", "y")]
    lines += [product(f"z{n + 1}:{busy}", f"z{n}:{busy}", f"z0:{busy}") for n in range(20)]
    data = module(f"x:{big} y:{small} z0:{busy}", lines, f"v:{big} w:{small} z20:{busy}")
    low, high = evaluator(data, floored=False).cost(()), evaluator(data).cost(())
    sizes = [2 * rows * 128 * 4, 2 * N * 4, 2 * 2048**2 * 4]
    share = rows * 128 * 4 / BUFFERS
    part = share * (sum(sizes) - rows * 128 * 4) / sum(sizes)
    quarter = DEVICE.on_chip_bytes / 4
    late = part - (rows * 128 * 4 - quarter) / (DEVICE.on_chip_bytes - quarter)
    stream = golden("fusion_rates", "product of a stream of 1 GiB")["contraction"]
    waited = (late * sizes[0] + part * sum(sizes[1:])) / 2**30 * stream / (CHIPS[TPU].clock or 0.0)
    assert high.compute > sum(sizes) / RATE
    assert high.compute - low.compute == pytest.approx(waited, rel=1 / 20)
    assert high.compute > low.compute


def test_what_does_not_fit_on_the_chip_crowds_nothing_out() -> None:
    rows = BUFFERS // (4 * 128)
    big = f"{rows + 1}x128xf32"
    data = module(f"x:{big}", [maps("tanh", f"v:{big}", "x")], f"v:{big}")
    low, high = evaluator(data, floored=False).cost(()), evaluator(data).cost(())
    assert high.compute == pytest.approx(max(low.compute, 2 * (rows + 1) * 512 / RATE))


@given(st.lists(st.integers(0, 1), max_size=3))
@settings(max_examples=10)
def test_the_floor_never_makes_a_step_cheaper(dims: list[int]) -> None:
    floored, free = evaluator(SUM), evaluator(SUM, floored=False)
    state = tuple(Action(group=argument_group(floored.analysis, 0, dim), axis=0) for dim in dims)
    assert floored.cost(state).compute >= free.cost(state).compute


def test_each_that_reads_or_writes_has_a_part_of_what_is_missing() -> None:
    found = evaluator(SUM)
    breakdown = explain(resolve(found, ()))
    assert sum(row.seconds for row in breakdown.fusions) == pytest.approx(breakdown.cost.compute)
    fusion, *floors = breakdown.fusions
    assert sum(row.bytes for row in floors) == 3 * N * 16
    assert {ops for row in floors for ops, _ in row.sources} == {ops for ops, _ in fusion.sources}


def test_a_table_that_is_looked_up_in_is_not_fetched() -> None:
    table, part = "65536x128xf32", "8x128xf32"
    slicing = moves("slice", f"s:{part}", f"t:{table}", " [0:8, 0:128]")
    data = module(f"t:{table} b:{part}", [slicing, maps("add", f"z:{part}", "s", "b")], f"z:{part}")
    found = evaluator(data)
    program, layouts = found.analysis.program, found.layouts
    rows = found.listing.of(FLOORS)
    size = {tensor: layouts.tensors[tensor] for tensor in rows}
    whole = int(layouts.value_tensor[program.arguments[0].value])
    assert whole not in size
    assert sum(rows.values()) == 3.0, "the part, the other argument and the result"


def test_an_argument_that_two_read_is_fetched_once() -> None:
    x = "4096x128xf32"
    lines = [
        maps("tanh", f"a:{x}", "x"),
        moves("transpose", "b:128x4096xf32", f"x:{x}", ", dims = [1, 0]"),
    ]
    data = module(f"x:{x}", lines, f"a:{x} b:128x4096xf32")
    found = evaluator(data)
    assert sum(found.listing.of(FLOORS).values()) == 3.0
