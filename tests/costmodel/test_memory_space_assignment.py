"""What the memory on a chip takes of what is alive, and in what size things are held there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.probes.figures import golden, read_figures
from benchmarks.probes.layout_assignment import SHAPES
from benchmarks.probes.memory_space_assignment import FILLER, FILLERS, STACKED, STACKS, stacked
from benchmarks.probes.on_chip import PROBE as ON_CHIP
from examples import gemma
from tests.costmodel.explained import assert_adds_up
from tests.costmodel.profiles import holding
from tests.costmodel.texts import GPU, TPU, Priced, main, maps, moves, product
from tests.modules import analysed
from toast.aot.target import Target
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.kernels.memory import lasting_share
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.memory_space_assignment import assign_memory
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import Entry
from toast.search.actions import action_space

PARTS = 64.0

TOLD = 16384
"""Bytes of main memory that tell where one copy to or from the chip goes."""
SIZES = (0, 2**14, 2**18, 2**25)
"""Bytes for buffers: none, a few small ones, a part of what is alive, all of it."""
LESS = 2**16
"""Bytes on the chip of which a step takes many times what it takes to fill them."""
UNIT = 4 * 32 * 32


def table_bytes(case: str) -> int:
    """Bytes of main memory for one copy to the chip; a copy in slices has two such tables."""
    found = golden("memory_space_assignment", case)
    copies: int = 2 * found["slices"] + found["copies"] - found["prefetched"]
    return int(found["bytes"]) // copies


TABLE = table_bytes("tables of 8 products") // 1024 * 1024
GIVEN = 4 * 32 * 32 + TABLE
"""Bytes of an argument of as many elements that is fetched once."""
SECONDS = st.floats(1e-9, 1e3)


@cache
def training_step(
    buffers: int, sent: bool = True, whole: int = find(TPU).on_chip_bytes
) -> Evaluator:
    config = replace(gemma.PRESETS["tiny"], batch=16)
    data = gemma.lower(config).as_text(debug_info=True).encode()
    chip = replace(find(TPU), on_chip_bytes=whole)
    profile = holding(TPU, buffers, collectives_on_chip=sent)
    profile = profile.changed({"memory_space_assignment": {"scoped_bytes": whole - buffers}})
    return Evaluator(analysed(data), Mesh.parse("data=2,model=8"), chip, profile=profile)


@cache
def actions() -> tuple[Action, ...]:
    return action_space(training_step(0))


STATES = st.lists(st.integers(0, 10_000), max_size=6).map(
    lambda numbers: tuple(actions()[n % len(actions())] for n in numbers)
)


def tables_of_copies(evaluator: Evaluator) -> float:
    """Bytes of main memory that tell where arguments and results are copied to."""
    return float(evaluator.tables.arguments.fetched.sum() * TABLE)


@given(STATES)
@settings(max_examples=30)
def test_main_memory_lacks_at_most_what_is_on_the_chip(state: tuple[Action, ...]) -> None:
    whole, *peaks = (training_step(size).cost(state).peak for size in SIZES)
    arguments = sum(
        one.bytes for one in explain(resolve(training_step(0), state)).held if one.why is Entry.BASE
    )
    table = tables_of_copies(training_step(SIZES[-1]))
    for size, peak in zip(SIZES[1:], peaks, strict=True):
        assert max(whole - size, arguments) <= peak - table <= whole
    assert peaks[-1] - table < whole
    assert training_step(SIZES[-1], sent=False).cost(state).peak >= peaks[-1]


@pytest.mark.parametrize("whole", [2**27, LESS])
@pytest.mark.parametrize("size", SIZES)
@given(state=STATES)
@settings(max_examples=10)
def test_what_is_alive_is_in_main_memory_or_on_the_chip(
    size: int, whole: int, state: tuple[Action, ...]
) -> None:
    evaluator = training_step(size, whole=whole)
    breakdown = assert_adds_up(evaluator, state)
    there = [one for one in breakdown.held if one.first <= breakdown.position <= one.last]
    assert sum(one.bytes for one in there) == breakdown.cost.peak + breakdown.on_chip
    short = sum(one.bytes for one in there if one.short)
    lasting = sum(one.bytes for one in there if one.lasting)
    share = lasting_share(evaluator.tables.chip.on_chip_seconds, breakdown.cost.compute)
    assert (share == 1.0) == (whole != LESS)
    assert breakdown.on_chip == min(size, short + share * lasting)
    for one in breakdown.held:
        assert not (one.short or one.lasting) or one.why is not Entry.BASE
        assert not one.short or one.why is Entry.SUM
    kept = [one.bytes for one in breakdown.alive if one.short]
    assert breakdown.on_chip == size or not kept
    kept = [one.bytes for one in breakdown.alive if one.lasting]
    assert share < 1.0 or breakdown.on_chip == size or not kept


@given(SECONDS, SECONDS, SECONDS)
def test_the_share_of_what_lasts_is_what_the_limit_is_of_the_step(
    most: float, compute: float, more: float
) -> None:
    share = lasting_share(most, compute)
    assert 0.0 <= share <= 1.0
    assert share * PARTS == int(share * PARTS)
    assert share == 1.0 if compute <= most else share <= most / compute < share + 1.0 / PARTS
    assert lasting_share(most, compute + more) <= share


def test_the_limit_is_a_multiple_of_what_filling_the_chips_memory_takes() -> None:
    device = find(TPU)
    filled = device.on_chip_bytes / device.bandwidth
    limit = training_step(0).tables.chip.on_chip_seconds
    assert training_step(0, whole=2 * device.on_chip_bytes).tables.chip.on_chip_seconds == 2 * limit
    product = 2 * FILLER**3 / (device.flops["bf16"] * device.matmul_efficiency)
    stays = [
        n
        for n in FILLERS
        if golden("memory_space_assignment", f"1 MiB behind {n} products") == [1, 1]
    ]
    assert max(stays) < max(FILLERS)
    assert max(stays) * product < limit < 2 * max(stays) * product
    assert limit > filled
    assert training_step(0, whole=0).tables.chip.on_chip_seconds == 0.0


@given(states=st.lists(STATES, min_size=2, max_size=5))
@settings(max_examples=10)
def test_the_share_is_that_of_the_state(states: list[tuple[Action, ...]]) -> None:
    """A step that takes longer keeps less of what lasts, whatever was priced before it."""
    evaluator = training_step(SIZES[-1], whole=2 * LESS)
    scratch = evaluator.new_scratch()
    for state in states:
        assert evaluator.cost(state, scratch) == explain(resolve(evaluator, state)).cost
        less = training_step(SIZES[-1], whole=0).cost(state)
        assert evaluator.cost(state, scratch).peak <= less.peak


def chain(length: int) -> bytes:
    """Products of what earlier ones made, added up."""
    square = "32x32xf32"
    lines = [product(f"a0:{square}", f"x:{square}", f"w:{square}")]
    for n in range(length):
        lines.append(product(f"b{n}:{square}", f"a{n}:{square}", f"w:{square}"))
        lines.append(maps("add", f"c{n}:{square}", f"b{n}", f"a{n}"))
        lines += [product(f"a{n + 1}:{square}", f"c{n}:{square}", f"w:{square}")]
    return main(f"x:{square} w:{square}", lines, f"a{length}:{square}")


def test_small_buffers_are_on_the_chip_and_results_are_not() -> None:
    module, result = chain(2), UNIT
    whole = Priced(module, "a=2", TPU).peak()
    assert whole > 2 * UNIT + result
    # all that a step makes, in 16 bits for the products, but for what it returns
    assert Priced(module, "a=2", TPU, 4 * UNIT).peak() == 2 * GIVEN + result
    # no buffer fits
    assert Priced(module, "a=2", TPU, UNIT // 4).peak() == whole + 2 * TABLE


@pytest.mark.parametrize(
    "case", ["tables of 8 products", "tables of 16 products", "tables of a training step"]
)
def test_each_copy_to_the_chip_has_a_table_of_one_size(case: str) -> None:
    assert table_bytes(case) == pytest.approx(TABLE, rel=1 / 500)


@pytest.mark.parametrize(("times", "alive"), [(1e-9, 1.5), (1.0, 0.0)])
def test_what_is_alive_is_on_the_chip_where_a_step_is_short(times: float, alive: float) -> None:
    square = "32x32xf32"
    chip, profile = find(TPU), holding(TPU, 2**20, stay_ratio=times)
    peaks = []
    for length in (2, 64):
        lines = [maps("sine", f"s0:{square}", "x")]
        lines += [product(f"a0:{square}", f"x:{square}", f"w:{square}")]
        for n in range(length):
            lines += [product(f"a{n + 1}:{square}", f"a{n}:{square}", f"w:{square}")]
        lines += [product(f"z:{square}", f"a{length}:{square}", f"a0:{square}")]
        text = main(f"x:{square} w:{square}", lines, f"z:{square}")
        evaluator = Evaluator(analysed(text), Mesh.parse("a=2"), chip, profile=profile)
        peaks.append(evaluator.cost(()).peak)
    # only products read what they make: it is held in 16 bits
    assert peaks == [2 * GIVEN + (1 + alive) * UNIT] * 2


@pytest.mark.parametrize(("device", "width"), [(TPU, 0.5), (GPU, 1.0)])
def test_what_is_gathered_for_products_alone_is_held_in_half_its_bytes_on_a_tpu(
    device: str, width: float
) -> None:
    square = "32x32xf32"
    lines = [moves("sine", f"s:{square}", f"x:{square}")]
    lines += [moves("tanh", f"t:{square}", f"s:{square}")]
    lines += [product("y:32x8xf32", f"s:{square}", "w:32x8xf32")]
    module = main(f"x:{square} w:32x8xf32", lines, f"y:32x8xf32 t:{square}")
    priced = Priced(module, "a=2", device)
    program = priced.evaluator.analysis.program
    # columns of w are over a, and so rows of x, of which the product needs all
    breakdown = assert_adds_up(priced.evaluator, priced.state(((1, 1), 0), ((0, 0), 0)))
    copies = [one for one in breakdown.held if one.why is Entry.COPY]
    assert copies
    for one in copies:
        kinds = {program.kind(program.user(use)) for use in one.uses}
        assert kinds == {"stablehlo.dot_general"}
        assert one.bytes == 4.0 * np.prod(one.shape) * width


def scattered(devices: int, rows: int) -> tuple[dict[Entry, float], float, float]:
    """What is held of a large product's sums over rows of h, and the bytes of all and a part."""
    h, w, y = f"h:{rows}x65536xf32", "w:65536x512xf32", f"y:{rows}x512xf32"
    lines = [product(y, h, w), moves("convert", f"z:{rows}x512xbf16", y)]
    # a line of devices, where there are four of them
    module, mesh = main(f"{h} {w}", lines, f"z:{rows}x512xbf16"), f"b={8 // devices},a={devices}"
    priced = Priced(module, mesh, TPU)
    breakdown = assert_adds_up(priced.evaluator, priced.state(((0, 1), 1), ((0, 0), 1)))
    kinds = (Entry.SUM, Entry.SUMMED)
    found: dict[Entry, float] = {one.why: one.bytes for one in breakdown.held if one.why in kinds}
    return found, 4.0 * rows * 512, 4.0 * rows * 512 / devices


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_all_sums_are_there_until_they_are_scattered(devices: int) -> None:
    found, whole, left = scattered(devices, 8192)
    assert found == {Entry.SUM: whole, Entry.SUMMED: left}


def test_what_sums_add_up_to_stays_until_something_is_made_of_it() -> None:
    """The product runs first, what is made of it only once the sum of another is there."""
    square, half = "32x32xf32", "32x32xbf16"
    lines = [
        product(f"p:{square}", f"x:{square}", f"w:{square}"),
        product(f"q:{square}", f"v:{square}", f"w:{square}"),
        maps("sine", f"r:{square}", "q"),
        maps("add", f"s:{square}", "p", "r"),
        moves("convert", f"t:{half}", f"s:{square}"),
        product(f"u:{half}", f"t:{half}", f"n:{half}"),
        product(f"o:{half}", f"t:{half}", f"u:{half}"),
    ]
    given = f"x:{square} w:{square} v:{square} n:{half}"
    priced = Priced(main(given, lines, f"o:{half}"), "a=2", TPU)
    breakdown = assert_adds_up(priced.evaluator, priced.state(((0, 1), 0)))
    program = priced.evaluator.analysis.program
    summed = {one.value: one for one in breakdown.held if one.why is Entry.SUMMED}
    makers = [program.makers[value] for value in summed]
    assert [program.kind(op) for op in makers] == ["stablehlo.dot_general"] * len(makers)
    assert any(one.last > one.first for one in summed.values())
    for one in summed.values():
        assert one.bytes == UNIT


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize("shape", SHAPES)
def test_arguments_fill_tiles_of_their_two_best_dimensions(shape: str, device: str) -> None:
    module = main(f"x:{shape}", [maps("sine", f"y:{shape}", "x")], f"y:{shape}")
    breakdown = explain(resolve(Priced(module, "a=2", device, tiled=True).evaluator, ()))
    given = [one.bytes for one in breakdown.held if one.why is Entry.BASE]
    assert sum(given) == golden("layout_assignment", shape, device)


def test_what_has_no_elements_fills_no_tile() -> None:
    module = main("x:0x7xf32", [maps("sine", "y:0x7xf32", "x")], "y:0x7xf32")
    breakdown = explain(resolve(Priced(module, "a=2", TPU, tiled=True).evaluator, ()))
    assert sum(one.bytes for one in breakdown.held if one.why is Entry.BASE) == 0


def test_a_shard_of_an_argument_fills_tiles() -> None:
    square = "256x256xf32"
    module = main(f"x:{square}", [maps("sine", f"y:{square}", "x")], f"y:{square}")
    priced = Priced(module, "a=4", TPU)
    breakdown = explain(resolve(priced.evaluator, priced.state(((0, 1), 0))))
    # 64 columns take the place of rows: no more than there are elements
    assert [one.bytes for one in breakdown.held if one.why is Entry.BASE] == [256 * 64 * 4]


@pytest.mark.parametrize(("donated", "copies"), [("", 1), (" {tf.aliasing_output = 0 : i32}", 2)])
def test_results_come_from_the_chip_in_the_place_of_arguments(donated: str, copies: int) -> None:
    square = "tensor<128x128xf32>"
    text = f"""func.func @main(%x: {square}{donated}) -> {square} {{
        %y = stablehlo.sine %x : {square}
        return %y : {square}
    }}"""
    for buffers, table in ((2**20, copies * TABLE), (0, 0.0)):
        evaluator = Priced(text.encode(), "a=2", TPU, buffers).evaluator
        given = [one.bytes for one in explain(resolve(evaluator, ())).held if one.why is Entry.BASE]
        assert given == [4 * 128 * 128 + table]


@pytest.mark.parametrize("stacks", STACKS)
def test_of_the_stacks_of_a_loop_as_many_are_on_the_chip_as_fit(stacks: int) -> None:
    """Main memory takes the others, an iteration at a time."""
    on_chip, there = golden("memory_space_assignment", f"{stacks} stacks of 8 MiB", TPU)
    assert there == stacks
    evaluator = Evaluator(analysed(stacked(stacks)), Mesh.parse("a=2"), find(TPU), floored=False)
    program = evaluator.analysis.program
    updates = set(program.ops_named("stablehlo.dynamic_update_slice"))
    written = [
        fusion.bytes
        for fusion in explain(resolve(evaluator, ())).fusions
        if any(ops[0] in updates for ops, _ in fusion.sources)
    ]
    of_all = sum(written) / (4 * np.prod(STACKED) * stacks)
    assert of_all == pytest.approx(1 - on_chip / stacks, abs=0.1)


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(one, marks=pytest.mark.xfail(reason="taken to give none", strict=True))
        if "v7x" in one
        else one
        for one in ON_CHIP.targets
    ],
)
def test_buffers_have_what_the_fusion_that_runs_leaves(target: str) -> None:
    device = find(Target.parse(target).chip.device)
    buffers = assign_memory(device, profile_of(device).memory_space_assignment).buffers
    most = max(read_figures(ON_CHIP.name, target).values()) * 2**20
    assert most <= buffers <= 1.02 * most
