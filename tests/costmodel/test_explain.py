"""Explanations add up to what the evaluator says, and name what each term is of."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.costmodel.explained import LOOP, assert_adds_up
from tests.costmodel.texts import Priced, main, maps, moves, product
from tests.costmodel.training_steps import STATES, gemma_evaluator
from tests.laws.chains import Text
from tests.laws.programs import picks, programs
from tests.laws.states import prepared, state_of
from tests.modules import analysed, argument_group, evaluator_of, text
from toast.costmodel.evaluator import Action, Cost, Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.kernels.evaluate import step_seconds
from toast.costmodel.network.collectives import Kind
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import Bound, Entry
from toast.costmodel.terms.reshard_copies import COPIES
from toast.costmodel.terms.sources import Sources
from toast.costmodel.terms.sum_buffers import SUMS
from toast.costmodel.terms.tables import TERMS
from toast.costmodel.terms.term import Term


@given(STATES)
@settings(max_examples=20)
def test_the_terms_of_a_training_step_add_up(state: tuple[Action, ...]) -> None:
    assert_adds_up(gemma_evaluator(), state)


@given(programs(), picks)
@settings(max_examples=20)
def test_the_terms_of_any_program_add_up(program: Text, numbers: list[int]) -> None:
    _, evaluator = prepared(program.module(), "x=2,y=2")
    assert_adds_up(evaluator, state_of(evaluator, numbers))


@given(STATES)
@settings(max_examples=6)
def test_memory_at_each_position_is_what_is_held_there(state: tuple[Action, ...]) -> None:
    breakdown = explain(resolve(gemma_evaluator(), state))
    for position in np.linspace(0, len(breakdown.timeline) - 1, 7).astype(int):
        held = [one for one in breakdown.held if one.first <= position <= one.last]
        assert sum(one.bytes for one in held) == breakdown.timeline[position]


@given(STATES)
@settings(max_examples=6)
def test_what_is_held_has_the_size_of_its_local_shape(state: tuple[Action, ...]) -> None:
    evaluator = gemma_evaluator()
    for one in explain(resolve(evaluator, state)).held:
        itemsize, _ = evaluator.layouts.tensors[one.tensor]
        assert one.bytes == itemsize * np.prod(one.shape, dtype=np.float64)


@given(STATES)
@settings(max_examples=6)
def test_runs_are_those_of_the_ops_behind_them(state: tuple[Action, ...]) -> None:
    evaluator = gemma_evaluator()
    program, breakdown = evaluator.analysis.program, explain(resolve(evaluator, state))
    for fusion in breakdown.fusions:
        if not fusion.unfused:
            runs = [float(program.op_trips[ops[0]]) for ops, _ in fusion.sources]
            assert sum(runs) == fusion.runs
    for row in breakdown.collectives:
        alone = pytest.approx(sum(runs for _, _, runs in row.sources))
        summed = row.kind in (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER)
        assert row.count == alone or (summed and row.count < alone.expected), "sent with others"


@cache
def mlp() -> Evaluator:
    return evaluator_of(text("mlp"), "b=2,m=4")


def state_over(argument: int, dim: int, axis: int) -> tuple[Action, ...]:
    return (Action(group=argument_group(mlp().analysis, argument, dim), axis=axis),)


def test_an_unsharded_program_communicates_nothing() -> None:
    breakdown = explain(resolve(mlp(), ()))
    assert breakdown.collectives == ()
    assert {one.why for one in breakdown.alive} <= {Entry.BASE, Entry.LIVE}


def test_a_product_that_sums_over_a_split_dimension_is_a_partial_sum() -> None:
    evaluator, breakdown = mlp(), explain(resolve(mlp(), state_over(1, 1, 1)))
    program = evaluator.analysis.program
    (row,) = breakdown.collectives
    ((value, ops, runs),) = row.sources
    assert (row.why, row.kind, row.axes, runs) == (Entry.PARTIAL, Kind.ALL_REDUCE, (1,), 1.0)
    assert program.shape(value) == (256, 16)
    assert [program.kind(op) for op in ops] == ["stablehlo.dot_general"]
    # the bias is added by what reads the sums: no pass of its own
    assert not [fusion for fusion in breakdown.fusions if fusion.unfused]


def test_a_gathered_weight_is_an_edge_from_the_argument_to_its_use() -> None:
    state = state_over(0, 0, 0) + state_over(0, 1, 0)
    breakdown = explain(resolve(mlp(), state))
    program = mlp().analysis.program
    (row,) = breakdown.collectives
    ((value, ops, _),) = row.sources
    assert (row.why, row.kind) == (Entry.EDGE, Kind.ALL_GATHER)
    assert value == program.arguments[1].value
    assert [program.kind(op) for op in ops] == ["stablehlo.dot_general"]
    (copy,) = [one for one in breakdown.held if one.why is Entry.COPY]
    assert (copy.value, copy.shape) == (value, (32, 64))


def test_contractions_lead_the_ops_of_their_fusion() -> None:
    program = mlp().analysis.program
    fusions = explain(resolve(mlp(), ())).fusions
    kinds = [program.kind(ops[0]) for row in fusions for ops, _ in row.sources]
    assert kinds.count("stablehlo.dot_general") == 2


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        ("%y = stablehlo.sine %x : tensor<64x64xf32>", Bound.BYTES),
        (
            """%y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
                 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>""",
            Bound.ARITHMETIC,
        ),
    ],
)
def test_what_bounds_a_fusion(body: str, bound: Bound) -> None:
    size = 64 if bound is Bound.BYTES else 4096
    data = (
        "func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {"
        f" {body} return %y : tensor<64x64xf32> }}"
    ).replace("64x64", f"{size}x{size}")
    (fusion,) = explain(resolve(evaluator_of(data.encode(), "a=2"), ())).fusions
    assert fusion.bound is bound


def test_loops_are_counted_and_their_carry_is_one_buffer() -> None:
    evaluator = evaluator_of(LOOP, "a=2")
    breakdown = assert_adds_up(evaluator, ())
    program = evaluator.analysis.program
    dots = [row for row in breakdown.fusions if "dot_general" in program.kind(row.sources[0][0][0])]
    assert [row.runs for row in dots] == [5.0]
    group = argument_group(evaluator.analysis, 1, 0)
    reduced = assert_adds_up(evaluator, (Action(group=group, axis=0),))
    assert any(row.count == 5.0 for row in reduced.collectives)


MANY = {"reshards": "target_start", "partial_sums": "result_start"}
"""Terms whose rows have several places, and the column that says where those of a row begin."""


def places(columns: Any, term: Term[Any, Any], row: int) -> range:
    if term.name not in MANY:
        return range(1)
    first, end = getattr(columns, MANY[term.name])[row : row + 2].tolist()
    return range(end - first)


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_every_row_of_the_tables_says_what_it_is_of(term: Term[Any, Any]) -> None:
    evaluator = gemma_evaluator()
    tables, program = evaluator.tables, evaluator.analysis.program
    sources, columns = Sources(evaluator.listing, tables), getattr(tables, term.name)
    recomputes = evaluator.profile.rematerialization.recomputes
    count = len(tables.copies.tensor) if term.name == "copies" else term.rows(columns)
    for row in range(count):
        for sent in term.sent.values():
            for place in places(columns, term, row):
                assert sent(sources, row, place)
        for stored in term.stored.values():
            tensor, values, uses = stored(sources, row)
            assert 0 <= tensor < len(evaluator.layouts.tensors)
            assert values
            assert {int(program.use_value[use]) for use in uses} <= set(values)
        for entry, fused in term.fused.items():
            runs = fused(sources, row, 0)
            assert len(runs) or (entry is Entry.RECOMPUTED and not recomputes)
            if term.name in ("fusions", "partial_sums"):
                assert float(runs.runs.sum()) == columns.weight[row]


def test_a_copy_is_of_uses_that_want_its_tensor() -> None:
    evaluator = gemma_evaluator()
    sources = Sources(evaluator.listing, evaluator.tables)
    for row in range(len(evaluator.tables.copies.tensor)):
        tensor, _, uses = COPIES.stored[Entry.COPY](sources, row)
        assert {int(evaluator.layouts.use_tensor[use]) for use in uses} == {tensor}


def test_equal_products_of_one_fusion_have_their_own_sources() -> None:
    """Two results of `main` that run at once, of one row, fed in different types."""
    f, b = "32x32xf32", "32x32xbf16"
    lines = [
        maps("sine", f"s:{f}", "x"),
        product(f"p:{f}", f"s:{f}", f"w:{f}"),
        moves("convert", f"n:{b}", f"x:{f}"),
        maps("sine", f"t:{b}", "n"),
        moves("convert", f"v:{b}", f"w:{f}"),
        product(f"q:{f}", f"t:{b}", f"v:{b}"),
    ]
    priced = Priced(main(f"x:{f} w:{f}", lines, f"p:{f} q:{f}"), "a=8", "tpu-v5e")
    evaluator, program = priced.evaluator, priced.evaluator.analysis.program
    assert evaluator.tables.sums.row.tolist() == [0, 0]
    first, second = (op for op in range(program.ops) if program.kind(op).endswith("dot_general"))
    assert evaluator.listing.of(SUMS).op.tolist() == [first, second]
    rows, columns = (0, 0), (0, 1)
    breakdown = assert_adds_up(evaluator, priced.state((columns, 0), (rows, 0)))
    sums = {one.value: one.bytes for one in breakdown.alive if one.why is Entry.SUM}
    made = [program.values_of(op)[0] for op in (first, second)]
    assert sums == {made[0]: 32 * 32 * 4, made[1]: 32 * 32 * 4}


@pytest.mark.parametrize(
    ("compute", "communication", "overlap", "seconds"),
    [(3.0, 2.0, 0.0, 5.0), (3.0, 2.0, 1.0, 3.0), (3.0, 2.0, 0.5, 4.0), (1.0, 4.0, 1.0, 4.0)],
)
def test_overlap_hides_a_part_of_the_shorter(
    compute: float, communication: float, overlap: float, seconds: float
) -> None:
    assert step_seconds(compute, communication, overlap) == seconds
    cost = Cost(
        compute=compute, communication=communication, peak=1.0, room=1.0, key=0, overlap=overlap
    )
    assert cost.seconds == seconds
    assert cost.hidden == compute + communication - seconds


def test_an_evaluator_with_overlap_prices_the_same_terms_in_less_time() -> None:
    analysis, mesh, device = analysed(text("mlp")), Mesh.parse("b=2,m=4"), find("cpu")
    state = state_over(1, 1, 1)
    plain = Evaluator(analysis, mesh, device).cost(state)
    half = Evaluator(analysis, mesh, device, overlap=0.5).cost(state)
    assert (half.compute, half.communication) == (plain.compute, plain.communication)
    shorter = min(plain.compute, plain.communication)
    assert half.seconds == pytest.approx(plain.seconds - 0.5 * shorter)
    assert half.hidden == pytest.approx(0.5 * shorter)


def test_a_scratch_of_the_search_keeps_no_journal() -> None:
    assert not len(mlp().new_scratch().journal.entries)
    resolved = resolve(mlp(), ())
    assert len(resolved.journal) == resolved.scratch.journal.noted[0] > 0
