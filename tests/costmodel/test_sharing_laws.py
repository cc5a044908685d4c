"""Laws of memory and of what is sent, over random states and random small programs."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import gemma
from tests.costmodel.texts import GPU, TPU, Priced, main, maps, product
from tests.laws.states import every_action
from tests.modules import evaluator_of
from toast.analysis.program import Program
from toast.analysis.types import itemsize
from toast.costmodel.evaluator import Evaluator, State, measure
from toast.costmodel.resolved import resolve
from toast.costmodel.tables import Tables, new_scratch
from toast.emit.specs import Specs

FEW = settings(max_examples=30)
DEVICES = st.sampled_from([TPU, GPU])


@cache
def training_step(device: str) -> Evaluator:
    data = gemma.lower(gemma.PRESETS["tiny"]).as_text(debug_info=True).encode()
    return evaluator_of(data, "data=2,model=4", device)


@cache
def state_of(device: str, picks: tuple[int, ...]) -> State:
    actions = every_action(training_step(device))
    return tuple(actions[pick % len(actions)] for pick in picks)


PICKS = st.lists(st.integers(0, 10_000), max_size=6).map(tuple)


def priced(evaluator: Evaluator, tables: Tables, state: State) -> tuple[float, float]:
    """Communication and peak of a state by tables that may differ from the evaluator's."""
    columns = (
        np.array([getattr(action, name) for action in state], dtype=np.int64)
        for name in ("group", "axis", "bits")
    )
    starts = np.array([0, len(state)])
    measured = measure(tables, new_scratch(tables), starts, *columns)
    return measured.communication, measured.peak


def each_by_itself(tables: Tables) -> Tables:
    """No sum is added to another before it is sent."""
    sums = tables.partial_sums
    return tables._replace(partial_sums=sums._replace(added_to=np.full_like(sums.added_to, -1)))


def local_bytes(evaluator: Evaluator, specs: Specs, value: int) -> float:
    program: Program = evaluator.analysis.program
    sizes = {axis.name: axis.size for axis in evaluator.mesh.axes}
    shards = math.prod(sizes[axis] for axes in specs.value(value) for axis in axes)
    return math.prod(program.shape(value)) * itemsize(program.dtype(value)) / shards


@given(DEVICES, PICKS)
@FEW
def test_the_peak_holds_the_arguments_and_the_results(device: str, picks: tuple[int, ...]) -> None:
    evaluator, state = training_step(device), state_of(device, picks)
    program, specs = evaluator.analysis.program, Specs(resolve(evaluator, state))
    values = {argument.value for argument in program.arguments}
    donated = {argument.aliases for argument in program.arguments if argument.aliases >= 0}
    offered = any(argument.donated and argument.aliases < 0 for argument in program.arguments)
    assert not offered
    values |= {
        int(program.use_value[result.use])
        for number, result in enumerate(program.results)
        if number not in donated
    }
    least = sum(local_bytes(evaluator, specs, value) for value in values)
    assert evaluator.cost(state).peak >= least


@given(DEVICES, PICKS)
@FEW
def test_a_shared_copy_is_at_most_one_for_each_use(device: str, picks: tuple[int, ...]) -> None:
    """Without copies <= with those of one layout shared <= with each use's own all the while."""
    evaluator, state = training_step(device), state_of(device, picks)
    tables = evaluator.tables
    starts, each = tables.copies.start[:-1], np.diff(tables.copies.start)
    count = np.arange(len(tables.copies.tensor) + 1, dtype=np.int64)
    copies = tables.copies._replace(
        kind_source=np.repeat(tables.copies.kind_source[tables.copies.kind], each),
        kind_start=count,
        kind_tensor=tables.copies.tensor,
        kind=count[:-1],
        times=np.ones(len(tables.copies.tensor)),
        start=count,
        first=np.repeat(np.minimum.reduceat(tables.copies.first, starts), each),
        last=np.repeat(np.maximum.reduceat(tables.copies.last, starts), each),
    )
    apart = tables._replace(copies=copies)
    none = tables._replace(copies=tables.copies._replace(kind=count[:0], start=count[:1]))
    _, shared = priced(evaluator, tables, state)
    assert shared == evaluator.cost(state).peak
    assert priced(evaluator, none, state)[1] <= shared <= priced(evaluator, apart, state)[1]


AXES = st.sampled_from([(), (0,), (1,), (0, 1)])


@given(st.lists(AXES, min_size=1, max_size=5))
@FEW
def test_each_layout_that_is_wanted_is_one_copy(users: list[tuple[int, ...]]) -> None:
    """Products `x w` with w over both axes: each leaves w those that its rows do not take.

    The rows are of different numbers, so that the products are not taken for layers of one kind.
    """
    weight = "w:64x64xf32"
    rows = [f"{8 * (n + 1)}x64xf32" for n in range(len(users))]
    arguments = " ".join(f"x{n}:{shape}" for n, shape in enumerate(rows))
    lines = [product(f"r{n}:{shape}", f"x{n}:{shape}", weight) for n, shape in enumerate(rows)]
    results = " ".join(f"r{n}:{shape}" for n, shape in enumerate(rows))
    step = Priced(main(f"{arguments} {weight}", lines, results), "a=2,b=4", GPU)
    taken = [((n, 0), axis) for n, axes in enumerate(users) for axis in axes]
    peak = step.peak(*taken, ((len(users), 0), 0), ((len(users), 0), 1))
    whole = 64 * 64 * 4
    expected, copies = whole / 8, set[int]()
    for n, axes in enumerate(users):
        # x is over both axes: those on its rows, the others on k; its result has the rows' only
        size, shards = 8 * (n + 1) * 64 * 4, math.prod((2, 4)[axis] for axis in axes)
        expected += size / 8 + size / shards
        copies.add(8 // shards)
    assert peak == expected + sum(whole / over for over in copies if over < 8)


@given(DEVICES, PICKS)
@FEW
def test_sums_that_are_added_up_send_at_most_what_each_would(
    device: str, picks: tuple[int, ...]
) -> None:
    evaluator, state = training_step(device), state_of(device, picks)
    tables = evaluator.tables
    apart = each_by_itself(tables)
    together, _ = priced(evaluator, tables, state)
    assert together == evaluator.cost(state).communication
    assert together <= priced(evaluator, apart, state)[0]


@given(PICKS)
@FEW
def test_wide_gathers_bound_the_tpus(picks: tuple[int, ...]) -> None:
    """Narrow gathers send less than wide ones."""
    evaluator, state = training_step(TPU), state_of(TPU, picks)
    communication = evaluator.cost(state).communication
    tables = evaluator.tables
    wide_tables = tables._replace(chip=tables.chip._replace(narrows=False))
    wide, _ = priced(evaluator, wide_tables, state)
    assert communication <= wide


MAPS = st.sampled_from(["sine", "tanh", "negate", "exponential", "add", "multiply", "maximum"])
SIZES = st.sampled_from([1024, 3072, 5120])
"""Of which each of eight devices has whole tiles."""


@st.composite
def elementwise(draw: st.DrawFn, size: int) -> Priced:
    """A few elementwise ops on values of one shape; the last of them are the results."""
    shape = f"{size}xf32"
    names, lines = ["a", "b", "c"], [maps("add", f"c:{shape}", "a", "b")]
    for number in range(draw(st.integers(1, 8))):
        op = draw(MAPS)
        count = 2 if op in ("add", "multiply", "maximum") else 1
        sources = [draw(st.sampled_from(names)) for _ in range(count)]
        lines.append(maps(op, f"v{number}:{shape}", *sources))
        names.append(f"v{number}")
    kept = draw(st.integers(1, min(3, len(lines))))
    results = " ".join(f"{name}:{shape}" for name in names[-kept:])
    module = main(f"a:{shape} b:{shape}", lines, results)
    return Priced(module, "x=2,y=4", draw(DEVICES))


@given(st.data(), SIZES)
@FEW
def test_all_memory_of_an_elementwise_program_is_divided(data: st.DataObject, size: int) -> None:
    program = data.draw(elementwise(size))
    whole = program.peak()
    values = [(0, 0), (1, 0)]
    for axes, shards in (((0,), 2), ((1,), 4), ((0, 1), 8)):
        actions = [(dim, axis) for dim in values for axis in axes]
        assert program.peak(*actions) == whole / shards
        assert program.sent(*actions) == {}


@pytest.mark.parametrize("device", [TPU, GPU])
def test_the_laws_of_the_training_step_are_not_empty(device: str) -> None:
    """There are copies that are shared and sums that are added up, and states that gain by it."""
    evaluator, tables = training_step(device), training_step(device).tables
    assert (np.diff(tables.copies.start) > 1).any()
    apart = each_by_itself(tables)
    states = [(action,) for action in every_action(evaluator)]
    pairs = [(priced(evaluator, tables, s)[0], priced(evaluator, apart, s)[0]) for s in states]
    assert any(together < separate for together, separate in pairs)
