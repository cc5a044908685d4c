"""The paper's figures 2, 4 and 5 and the transpose example, name by name."""

from __future__ import annotations

import pytest

from tests.modules import analysed, argument_group, colours_of, evaluator_of, text, value_named
from toast.analysis.program import Program
from toast.costmodel.evaluator import Action
from toast.costmodel.network.collectives import Kind
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs


def letters(rows: list[list[int]]) -> list[str]:
    """Colours as letters in order of appearance: equal up to renaming."""
    seen: dict[int, str] = {}
    return [
        "".join(seen.setdefault(colour, chr(ord("A") + len(seen))) for colour in row)
        for row in rows
    ]


def test_figure_4c_the_mlp_has_four_named_dimensions() -> None:
    analysis = analysed(text("mlp"))
    program = analysis.program
    values = [argument.value for argument in program.arguments]
    values += [value_named(program, "stablehlo.dot_general", 0)]
    values += [value_named(program, "stablehlo.maximum")]
    values += [value_named(program, "stablehlo.dot_general", 1)]
    # x [B, X], w1 [X, U], w2 [U, W], y [B, U], z [B, U], w [B, W]
    expected = ["AB", "BC", "CD", "AC", "AC", "AD"]
    assert letters([colours_of(analysis, value) for value in values]) == expected
    assert analysis.colours.count == 4
    assert analysis.conflicts.all == ()


def test_figure_4b_identities_join_within_an_op_only() -> None:
    program = analysed(text("mlp")).program
    op = next(op for op in range(program.ops) if program.kind(op) == "stablehlo.dot_general")
    first, second = (program.use_names(use).tolist() for use in program.uses_of(op))
    result = program.def_names(program.values_of(op)[0]).tolist()
    # matmul(x: [A1, X1], w1: [X1, A2]) : [A1, A2]
    assert first[1] == second[0]
    assert result == [first[0], second[1]]
    definition = program.def_names(program.arguments[0].value).tolist()
    assert not set(definition) & set(first)


def test_figure_2b_batch_partitioning_needs_no_communication() -> None:
    evaluator = evaluator_of(text("mlp"), "b=2,m=2")
    batch = argument_group(evaluator.analysis, 0, 0)
    state = (Action(group=batch, axis=0),)
    specs = Specs(resolve(evaluator, state))
    program = evaluator.analysis.program
    assert [specs.value(a.value) for a in program.arguments] == [[["b"], []], [[], []], [[], []]]
    assert resolve(evaluator, state).totals() == []


def test_figure_2c_megatron_ends_in_one_all_reduce() -> None:
    evaluator = evaluator_of(text("mlp"), "b=2,m=2")
    analysis = evaluator.analysis
    batch, hidden = argument_group(analysis, 0, 0), argument_group(analysis, 1, 1)
    state = (Action(group=batch, axis=0), Action(group=hidden, axis=1))
    specs = Specs(resolve(evaluator, state))
    arguments = [specs.value(argument.value) for argument in analysis.program.arguments]
    assert arguments == [[["b"], []], [[], ["m"]], [["m"], []]]
    (collective,) = resolve(evaluator, state).totals()
    assert (collective.kind, collective.axes, collective.count) == (Kind.ALL_REDUCE, (1,), 1)
    # w is [256, 16] f32 with 256 over b: an all-reduce over 2 devices sends 2 * 1/2 of it.
    assert collective.bytes == 256 / 2 * 16 * 4


def test_figure_5_has_five_conflicts_in_one_compatibility_set() -> None:
    analysis = analysed(text("attention"))
    conflicts, program = analysis.conflicts, analysis.program
    assert len(conflicts.all) == 5
    assert conflicts.sets == 1
    kinds = [program.kind(conflict.op) for conflict in conflicts.all]
    # the definitions of a, c and d, and the uses of a and d that reduce a dimension away
    assert kinds == [
        "stablehlo.dot_general",
        "stablehlo.reduce",
        "stablehlo.broadcast_in_dim",
        "stablehlo.divide",
        "stablehlo.dot_general",
    ]
    assert {conflict.colour for conflict in conflicts.all} == {0}


def test_figure_5a_names() -> None:
    analysis = analysed(text("attention"))
    program = analysis.program
    values = [argument.value for argument in program.arguments]
    values += [value_named(program, "stablehlo.dot_general", nth) for nth in range(3)]
    values += [value_named(program, "stablehlo.transpose")]
    values += [value_named(program, "stablehlo.dot_general", 3)]
    values += [value_named(program, "stablehlo.divide")]
    # x [S,D], wq wk [D,H1], wv [D,H2], k [S,H1], v [S,H2], q [S,H1], qt [H1,S], a d [S,S]
    expected = ["AB", "BC", "BC", "BD", "AC", "AD", "AC", "CA", "AA", "AA"]
    assert letters([colours_of(analysis, value) for value in values]) == expected


def attention_specs(bits: int) -> tuple[Program, Specs, list[tuple[Kind, float]]]:
    evaluator = evaluator_of(text("attention"), "s=2")
    sequence = argument_group(evaluator.analysis, 0, 0)
    state = (Action(group=sequence, axis=0, bits=bits),)
    collectives = [(row.kind, row.count) for row in resolve(evaluator, state).totals()]
    return evaluator.analysis.program, Specs(resolve(evaluator, state)), collectives


def test_figure_5b_is_one_of_the_two_resolutions() -> None:
    program, specs, collectives = attention_specs(bits=1)
    dots = [value_named(program, "stablehlo.dot_general", nth) for nth in range(5)]
    k, v, q, a, z = (specs.value(value) for value in dots)
    assert (k, v, q) == ([["s"], []],) * 3
    assert specs.value(value_named(program, "stablehlo.transpose")) == [[], ["s"]]
    assert a == [[], ["s"]]
    assert specs.value(value_named(program, "stablehlo.divide")) == [[], ["s"]]
    assert z == [["s"], []]
    assert sorted(collectives) == [(Kind.ALL_GATHER, 1), (Kind.REDUCE_SCATTER, 1)]
    # k is gathered at its use in a, and nothing else is.
    gathered = [pin for pin in specs.constraints() if pin.uses]
    assert [(pin.value, pin.spec) for pin in gathered] == [(dots[0], [[], []])]


def test_the_other_resolution_gathers_more() -> None:
    program, specs, collectives = attention_specs(bits=0)
    assert specs.value(value_named(program, "stablehlo.dot_general", 3)) == [["s"], []]
    assert dict(collectives)[Kind.ALL_GATHER] >= 2


@pytest.mark.parametrize("bits", [0, 1])
def test_the_transpose_example_shards_one_dimension_of_z(bits: int) -> None:
    evaluator = evaluator_of(text("transpose"), "s=2")
    analysis = evaluator.analysis
    assert analysis.conflicts.sets == 1
    group = argument_group(analysis, 0, 0)
    specs = Specs(resolve(evaluator, (Action(group=group, axis=0, bits=bits),)))
    z = value_named(analysis.program, "stablehlo.dot_general")
    assert specs.value(z) == ([[], ["s"]] if bits else [["s"], []])
