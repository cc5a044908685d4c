"""What is worked on once for all that is equal is what comes of working on each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import gemma
from tests.costmodel import walks
from tests.costmodel.profiles import GPU, TPU, V3
from tests.costmodel.records import assert_equal_columns
from tests.laws.chains import Text
from tests.laws.programs import programs
from tests.laws.states import single_states
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.analysis.program import Ints, Program
from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.algebraic_simplifier import cutting
from toast.costmodel.passes.all_reduce_reassociate import reassociate_sums
from toast.costmodel.passes.buffer_assignment import handed_over, value_spans
from toast.costmodel.passes.fusion import chain_ends, fuse
from toast.costmodel.program import sharding_units as layouts_room
from toast.costmodel.program.dataflow import flow_of
from toast.costmodel.program.distinct import distinct, distinct_rows
from toast.costmodel.resolved import resolve
from toast.costmodel.terms import fusions as rows_room
from toast.costmodel.terms.fusions import FUSIONS, LaunchedRow

WIDTH = 16
Weights = list[tuple[jax.Array, jax.Array]]


def layer(kind: str, x: jax.Array, weights: tuple[jax.Array, jax.Array]) -> jax.Array:
    """One of three kinds; `odd` does what `mlp` does and one thing more."""
    up, down = weights
    if kind == "attention":
        scores = jax.nn.softmax(x @ up @ x.T)
        return x + scores @ x @ down
    hidden = jnp.tanh(x @ up)
    return x + (hidden * hidden if kind == "odd" else hidden) @ down


@cache
def stacked(kinds: tuple[str, ...], prologue: bool, epilogue: bool) -> Program:
    """A training step of unrolled layers, perhaps with something before and behind them."""

    def loss(weights: Weights, x: jax.Array) -> jax.Array:
        if prologue:
            x = jnp.exp(x) - 1
        for kind, each in zip(kinds, weights, strict=True):
            x = layer(kind, x, each)
        if epilogue:
            x = x / jnp.sum(x, axis=0)
        return jnp.mean(x)

    def step(weights: Weights, x: jax.Array) -> Any:
        found = jax.grad(loss)(weights, x)
        return jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, weights, found)

    square = jax.ShapeDtypeStruct((WIDTH, WIDTH), "float32")
    rows = jax.ShapeDtypeStruct((32, WIDTH), "float32")
    lowered = jax.jit(step, donate_argnums=0).lower([(square, square)] * len(kinds), rows)
    return load(lowered.as_text().encode()).program


CASES = (
    ((), True, True),
    (("mlp",), True, False),
    (("mlp",) * 6, False, False),
    (("mlp",) * 2 + ("odd",) + ("mlp",) * 2, True, True),
    (("mlp", "attention") * 3, False, True),
    (("attention",) * 4, True, False),
)
STACKS = st.tuples(
    st.lists(st.sampled_from(("mlp", "odd", "attention")), max_size=5).map(tuple),
    st.booleans(),
    st.booleans(),
)
POLICIES = (TPU, V3, GPU)


@contextmanager
def each_by_itself() -> Iterator[None]:
    """Nothing is equal: every op is laid out and every fusion's row made by itself."""

    def none_equal(program: Program, *_: object) -> Ints:
        return np.arange(program.ops)

    def each_use(*given: Any) -> tuple[Ints, list[int]]:
        uses = given[-1]
        return np.array(uses, dtype=np.int64), list(uses)

    def all_apart(maker: Any) -> list[Ints]:
        return [np.arange(len(maker.fusion.launched))]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts_room, "first_equal", none_equal)
        patch.setattr(layouts_room, "equal_uses", each_use)
        patch.setattr(rows_room.RowMaker, "identity", all_apart)
        yield


def made_of(evaluator: Evaluator) -> dict[LaunchedRow, tuple[list[int], list[float]]]:
    """What each row of fusions stands for, and its parts of the row's weight."""
    rows = evaluator.listing.of(FUSIONS)
    groups = ((numbers.tolist(), parts.tolist()) for numbers, parts in rows.grouped())
    return dict(zip(rows, groups, strict=True))


def assert_prices_equal(program: Program, device: str) -> None:
    analysis = analyse(program)
    mesh, chip = Mesh.parse("a=2,b=2"), find(device)
    together = Evaluator(analysis, mesh, chip)
    with each_by_itself():
        apart = Evaluator(analysis, mesh, chip)
    assert_equal_columns(together.tables, apart.tables)
    assert_equal_columns(together.folded, apart.folded)
    assert made_of(together) == made_of(apart)
    for state in [(), *single_states(together)[:2]]:
        one, other = explain(resolve(together, state)), explain(resolve(apart, state))
        assert one.cost == other.cost
        assert one.held == other.held
        assert one.collectives == other.collectives
        for fusion, same in zip(one.fusions, other.fusions, strict=True):
            assert list(fusion.sources) == list(same.sources)
            assert (fusion.bytes, fusion.seconds) == (same.bytes, same.seconds)


@pytest.mark.parametrize("device", ["tpu-v5e", "a100-40gb"])
@pytest.mark.parametrize("case", CASES)
def test_layers_shared_are_what_each_is_by_itself(
    case: tuple[tuple[str, ...], bool, bool], device: str
) -> None:
    assert_prices_equal(stacked(*case), device)


@settings(max_examples=12)
@given(module=programs())
def test_so_is_any_program(module: Text) -> None:
    assert_prices_equal(load(module.module().encode()).program, "tpu-v5e")


def test_layers_share_their_rows() -> None:
    """As many rows for six layers as for twelve."""
    rows = []
    for count in (6, 12):
        analysis = analyse(stacked(("mlp",) * count, False, False))
        rows.append(
            len(Evaluator(analysis, Mesh.parse("a=2"), find("tpu-v5e")).listing.of(FUSIONS))
        )
    assert rows[0] == rows[1]


def assert_fused_as_by_walking(program: Program, policy: CompilerProfile) -> None:
    found, flow = fuse(program, policy), flow_of(program)
    chains = walks.Chains(program, policy)
    ends = chain_ends(program, flow, policy.fusion, cutting(program, found.cut))
    assert set(np.flatnonzero(ends).tolist()) == chains.ends()
    assert np.array_equal(found.narrow, chains.narrow_values(found.written))
    roles = [walks.role_of(program, op, policy) for op in range(program.ops)]
    fusions = walks.Merger(program, found.roots, roles).run()
    if policy.fusion.fuses_into_update:
        fusions = walks.join_products(program, found.roots, fusions, roles)
    if policy.reduction_fusion.merges:
        fusions = walks.Reductions(program, fusions, policy.reduction_fusion, roles).run()
    assert list(found.launched) == fusions
    assert found.position.tolist() == walks.schedule(program, found.roots, roles).tolist()
    leaders = reassociate_sums(program, flow, policy.all_reduce_reassociate)
    for leader, walked in zip(leaders, walks.added_up(program), strict=True):
        assert {op: n for op, n in enumerate(leader.tolist()) if n >= 0} == walked
    first, last = value_spans(program, found)
    over = handed_over(program, found, first, last)
    assert over.tolist() == walks.handed_over(program, found, last).tolist()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("case", CASES)
def test_layers_are_fused_as_by_walking(
    case: tuple[tuple[str, ...], bool, bool], policy: CompilerProfile
) -> None:
    assert_fused_as_by_walking(stacked(*case), policy)


@pytest.mark.nightly
@given(case=STACKS)
def test_any_layers_are(case: tuple[tuple[str, ...], bool, bool]) -> None:
    program = stacked(*case)
    for policy in POLICIES:
        assert_fused_as_by_walking(program, policy)
    assert_prices_equal(program, "tpu-v5e")


@given(module=programs())
def test_any_program_is_fused_as_by_walking(module: Text) -> None:
    program = load(module.module().encode()).program
    for policy in POLICIES:
        assert_fused_as_by_walking(program, policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_training_step_is_fused_as_by_walking(policy: CompilerProfile) -> None:
    program = load(gemma.lower(gemma.PRESETS["tiny"]).as_text().encode()).program
    assert_fused_as_by_walking(program, policy)


@given(st.lists(st.lists(st.integers(-2, 2), max_size=3), max_size=30))
@example([[], [0], [0, 0], [], [0]])
def test_rows_are_numbered_in_order_of_appearance(rows: Sequence[list[int]]) -> None:
    starts = np.cumsum([0, *map(len, rows)])
    values = np.array([value for row in rows for value in row], dtype=np.int64)
    known: dict[tuple[int, ...], int] = {}
    expected = [known.setdefault(tuple(row), len(known)) for row in rows]
    number, first = distinct(starts, values)
    assert number.tolist() == expected
    assert [expected.index(n) for n in range(len(known))] == first.tolist()


@given(st.lists(st.tuples(st.integers(), st.booleans()), min_size=1, max_size=20))
def test_rows_of_columns_too(rows: list[tuple[int, bool]]) -> None:
    rows = [(value % 2**62, flag) for value, flag in rows]
    known: dict[tuple[int, bool], int] = {}
    expected = [known.setdefault(row, len(known)) for row in rows]
    columns = (np.array(column) for column in zip(*rows, strict=True))
    assert distinct_rows(*columns)[0].tolist() == expected
