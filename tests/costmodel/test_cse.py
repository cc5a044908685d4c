"""What is computed twice of the same is computed, and sent, once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.probes.cse import LAYOUTS
from benchmarks.probes.figures import golden
from tests.costmodel.texts import GPU, TPU, Dim, Priced, main, maps, moves, product, sums
from tests.modules import analysed
from toast.analysis.program import Program
from toast.costmodel.explain import explain
from toast.costmodel.network.collectives import Kind
from toast.costmodel.passes.all_reduce_combiner import loops
from toast.costmodel.passes.cse import equal_ops, merge_identical_ops
from toast.costmodel.resolved import CollectiveTotal, resolve
from toast.costmodel.terms.fusions import FUSIONS
from toast.costmodel.terms.reshards import RESHARDS

ROWS, WIDTH = 64, 32
SHAPE = f"{ROWS}x{WIDTH}xf32"
X, W, V = f"x:{SHAPE}", f"w:{WIDTH}x{WIDTH}xf32", f"v:{WIDTH}x{WIDTH}xf32"
COLUMNS, X_ROWS = (0, 1), (0, 0)


def program(*lines: str, results: str) -> Program:
    return analysed(main(X, list(lines), results)).program


def equals(found: Program, kind: str) -> list[int]:
    """Of each op of a kind the place among them of the first that is equal."""
    ops = found.ops_named(f"stablehlo.{kind}")
    _, first = equal_ops(found)
    return [ops.index(first[op]) for op in ops]


def test_equal_ops_of_equal_operands_are_equal() -> None:
    found = program(
        maps("cosine", f"a:{SHAPE}", "x"),
        maps("cosine", f"b:{SHAPE}", "x"),
        maps("tanh", f"c:{SHAPE}", "a"),
        maps("tanh", f"d:{SHAPE}", "b"),
        maps("tanh", f"e:{SHAPE}", "x"),
        results=f"c:{SHAPE} d:{SHAPE} e:{SHAPE}",
    )
    assert equals(found, "cosine") == [0, 0]
    assert equals(found, "tanh") == [0, 0, 2], "the second is of an equal operand"
    value, _ = equal_ops(found)
    tanh = found.ops_named("stablehlo.tanh")
    assert value[found.op_values[tanh[1]]] == found.op_values[tanh[0]]


def test_operands_are_equal_in_their_order() -> None:
    found = program(
        maps("cosine", f"a:{SHAPE}", "x"),
        maps("subtract", f"b:{SHAPE}", "a", "x"),
        maps("subtract", f"c:{SHAPE}", "x", "a"),
        results=f"b:{SHAPE} c:{SHAPE}",
    )
    assert equals(found, "subtract") == [0, 1]


def test_constants_are_equal_by_what_they_hold() -> None:
    found = program(
        f"%one = stablehlo.constant dense<1.0> : tensor<{SHAPE}>",
        f"%two = stablehlo.constant dense<2.0> : tensor<{SHAPE}>",
        f"%uno = stablehlo.constant dense<1.0> : tensor<{SHAPE}>",
        maps("add", f"a:{SHAPE}", "x", "one"),
        maps("add", f"b:{SHAPE}", "x", "two"),
        maps("add", f"c:{SHAPE}", "x", "uno"),
        results=f"a:{SHAPE} b:{SHAPE} c:{SHAPE}",
    )
    assert equals(found, "add") == [0, 1, 0]


def test_slices_are_equal_by_where_they_begin() -> None:
    half = f"{ROWS // 2}x{WIDTH}xf32"
    cut = [f" [{at}:{at + ROWS // 2}, 0:{WIDTH}]" for at in (0, ROWS // 2, 0)]
    lines = [
        f"%s{n} = stablehlo.slice %x{where} : (tensor<{SHAPE}>) -> tensor<{half}>"
        for n, where in enumerate(cut)
    ]
    found = program(*lines, results=f"s0:{half} s1:{half} s2:{half}")
    assert equals(found, "slice") == [0, 1, 0]


def test_what_a_region_combines_by_tells_reductions_apart() -> None:
    row = f"{ROWS}xf32"
    lines = [line for name in "ab" for line in sums(f"{name}:{row}", X, 1)]
    largest = [
        line.replace("stablehlo.add", "stablehlo.maximum") for line in sums(f"c:{row}", X, 1)
    ]
    found = program(*lines, *largest, results=f"a:{row} b:{row} c:{row}")
    assert equals(found, "reduce") == [0, 0, 2]


def test_what_may_be_another_each_time_is_equal_to_nothing() -> None:
    body = """
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = stablehlo.optimization_barrier %x : tensor<4xf32>
  %b = stablehlo.optimization_barrier %x : tensor<4xf32>
  %c = stablehlo.cosine %a : tensor<4xf32>
  %d = stablehlo.cosine %b : tensor<4xf32>
  %e = stablehlo.custom_call @one(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %f = stablehlo.custom_call @one(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %g = stablehlo.add %e, %f : tensor<4xf32>
  return %c, %d, %g : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}"""
    found = analysed(body.encode()).program
    assert (found.op_content >= 0).any()
    assert equals(found, "cosine") == [0, 1], "behind a barrier it is made again"
    value, first = equal_ops(found)
    assert first.tolist() == list(range(found.ops))
    assert value.tolist() == list(range(found.values))


LOOP = """
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %out = stablehlo.cosine %x : tensor<4xf32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %in = stablehlo.cosine %x : tensor<4xf32>
      %too = stablehlo.cosine %x : tensor<4xf32>
      %both = stablehlo.add %in, %too : tensor<4xf32>
      %b = stablehlo.add %a, %both : tensor<4xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %b : tensor<i32>, tensor<4xf32>
    }
  return %r#1, %out : tensor<4xf32>, tensor<4xf32>
}"""


def test_what_a_loop_makes_is_equal_to_what_it_makes_itself_alone() -> None:
    found = analysed(LOOP.encode()).program
    assert equals(found, "cosine") == [0, 1, 1]


def test_branches_share_nothing() -> None:
    body = """
func.func @main(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %r = "stablehlo.if"(%p) ({
    %a = stablehlo.cosine %x : tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }, {
    %b = stablehlo.cosine %x : tensor<4xf32>
    stablehlo.return %b : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %c = stablehlo.cosine %x : tensor<4xf32>
  %d = stablehlo.add %r, %c : tensor<4xf32>
  return %d : tensor<4xf32>
}"""
    assert equals(analysed(body.encode()).program, "cosine") == [0, 1, 2]


A, B = f"a:{SHAPE}", f"b:{SHAPE}"
TWICE = [maps("cosine", A, "x"), maps("cosine", B, "x")]
P, Q = f"p:{SHAPE}", f"q:{SHAPE}"
GATHERED = main(f"{X} {W} {V}", [*TWICE, product(P, A, W), product(Q, B, V)], f"{P} {Q}")
"""Two products of one thing that is computed twice."""
ONCE = main(f"{X} {W} {V}", [TWICE[0], product(P, A, W), product(Q, A, V)], f"{P} {Q}")


def sent(priced: Priced, *actions: tuple[Dim, int]) -> list[CollectiveTotal]:
    return resolve(priced.evaluator, priced.state(*actions)).totals()


@pytest.mark.parametrize("actions", [(), ((COLUMNS, 0),), ((X_ROWS, 0),), (((1, 1), 0),)])
def test_what_is_computed_twice_costs_what_it_does_computed_once(
    actions: tuple[tuple[Dim, int], ...],
) -> None:
    twice, once = Priced(GATHERED, "a=4", TPU), Priced(ONCE, "a=4", TPU)
    assert sent(twice, *actions) == sent(once, *actions)
    first, second = (p.evaluator.cost(p.state(*actions)) for p in (twice, once))
    assert first.communication == second.communication


def test_a_gpu_sends_each_for_itself() -> None:
    actions: tuple[tuple[Dim, int], ...] = (((1, 1), 0), (COLUMNS, 0))
    twice, once = (Priced(body, "a=4", GPU) for body in (GATHERED, ONCE))
    assert twice.evaluator.listing.of(RESHARDS) != once.evaluator.listing.of(RESHARDS)
    assert sum(row.count for row in sent(twice, *actions)) > sum(
        row.count for row in sent(once, *actions)
    )


def test_the_second_kernel_is_not_launched() -> None:
    lines = [maps("cosine", A, "x"), maps("cosine", B, "x")]
    twice = Priced(main(X, lines, f"{A} {B}"), "a=4", TPU).evaluator
    once = Priced(main(X, lines[:1], A), "a=4", TPU).evaluator
    assert sum(len(one.ops) for one in twice.fusion.launched) > len(once.fusion.launched.ops)
    first, second = (priced.listing.of(FUSIONS) for priced in (twice, once))
    assert list(first.items()) == list(second.items())


def test_a_sum_over_devices_of_the_same_is_made_once() -> None:
    row = f"{ROWS}xf32"
    lines = [*sums(f"a:{row}", X, 1), *sums(f"b:{row}", X, 1)]
    lines += [maps("tanh", f"c:{row}", "a"), maps("exponential", f"d:{row}", "b")]
    priced = Priced(main(X, lines, f"c:{row} d:{row}"), "a=4", TPU)
    (total,) = sent(priced, (COLUMNS, 0))
    assert (total.kind, total.count, total.bytes) == (
        Kind.ALL_REDUCE,
        1.0,
        ROWS * 4 * 2 * 3 / 4,
    )


def test_what_is_laid_out_otherwise_is_another() -> None:
    """The second has a colour of its own, that of what it is added to."""
    lines = [
        moves("broadcast_in_dim", f"{name}:{SHAPE}", f"r:{WIDTH}xf32", ", dims = [1]")
        for name in "ab"
    ]
    lines += [maps("tanh", f"c:{SHAPE}", "a"), maps("add", f"d:{SHAPE}", "b", "y")]
    body = main(f"r:{WIDTH}xf32 y:{SHAPE}", lines, f"c:{SHAPE} d:{SHAPE}")
    priced = Priced(body, "a=4", TPU)
    found, layouts = priced.evaluator.analysis.program, priced.evaluator.layouts
    first, second = (
        int(found.op_values[op]) for op in found.ops_named("stablehlo.broadcast_in_dim")
    )
    assert equal_ops(found)[0][second] == first
    value, op = merge_identical_ops(found, layouts, priced.evaluator.profile.cse)
    assert layouts.value_tensor[first] != layouts.value_tensor[second]
    assert value[second] == second
    assert op[found.value_op[second]] == found.value_op[second]


KINDS = st.sampled_from(["cosine", "tanh", "add"])
PROGRAMS = st.lists(st.tuples(KINDS, st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=14)
STATES = st.lists(st.tuples(st.sampled_from([COLUMNS, X_ROWS]), st.integers(0, 1)), max_size=3)


def text(steps: list[tuple[str, int, int]], merged: bool) -> tuple[bytes, list[int]]:
    """A program of elementwise steps, and which step each is equal to; `merged` reads those."""
    known: dict[tuple[str, tuple[int, ...]], int] = {}
    equal, lines = [0], []
    for number, (kind, *places) in enumerate(steps, 1):
        used = [place % number for place in places[: 2 if kind == "add" else 1]]
        equal.append(known.setdefault((kind, tuple(equal[place] for place in used)), number))
        names = [f"s{equal[place] if merged else place}" for place in used]
        if not merged or equal[number] == number:
            lines.append(maps(kind, f"s{number}:{SHAPE}", *names))
    last = equal[-1] if merged else len(steps)
    lines.append(product(f"p:{SHAPE}", f"s{last}:{SHAPE}", W))
    return main(f"s0:{SHAPE} {W}", lines, f"p:{SHAPE}"), equal


@given(PROGRAMS)
def test_equal_ops_are_those_that_a_table_of_rows_finds(steps: list[tuple[str, int, int]]) -> None:
    body, equal = text(steps, merged=False)
    found = analysed(body).program
    value, first = equal_ops(found)
    kinds = {f"stablehlo.{kind}" for kind in ("cosine", "tanh", "add")}
    ops = [op for op in range(found.ops) if found.kind(op) in kinds]
    assert [ops.index(first[op]) + 1 for op in ops] == equal[1:]
    place = np.arange(found.values) - found.op_values[found.value_op]
    assert np.array_equal(value, found.op_values[first[found.value_op]] + place)


@given(PROGRAMS, STATES, st.sampled_from([TPU, GPU]))
@settings(max_examples=25)
def test_explanations_add_up_where_things_are_computed_twice(
    steps: list[tuple[str, int, int]], actions: list[tuple[Dim, int]], device: str
) -> None:
    priced = Priced(text(steps, merged=False)[0], "a=2,b=2", device)
    state = priced.state(*actions)
    breakdown, cost = explain(resolve(priced.evaluator, state)), priced.evaluator.cost(state)
    assert sum(row.seconds for row in breakdown.collectives) == pytest.approx(cost.communication)
    assert sum(fusion.seconds for fusion in breakdown.fusions) == pytest.approx(cost.compute)
    for row in breakdown.collectives:
        assert sum(runs for *_, runs in row.sources) >= row.count * (1 - 1e-9)
    merged = Priced(text(steps, merged=True)[0], "a=2,b=2", device)
    same = merged.evaluator.cost(merged.state(*actions))
    assert cost.communication <= same.communication * (1 + 1e-9) + 1e-12


def test_loops_and_their_runs() -> None:
    found = analysed(LOOP.encode()).program
    loop, runs = loops(found)
    assert runs.tolist() == [1.0, 4.0]
    assert np.unique(loop).tolist() == [0, 1]


def test_a_program_without_ops_that_are_equal_is_as_it_was() -> None:
    found = program(maps("cosine", A, "x"), maps("tanh", B, "a"), results=B)
    value, first = equal_ops(found)
    assert value.tolist() == list(range(found.values))
    assert first.tolist() == list(range(found.ops))


BARRIERS = pytest.mark.xfail(reason="libtpu merges ops behind barriers on one argument as well")


@pytest.mark.parametrize(
    "case", ["equal", "different", pytest.param("equal behind barriers", marks=BARRIERS)]
)
def test_a_tpu_gathers_as_often_as_the_compiled_program(case: str) -> None:
    layout = LAYOUTS[case]
    priced = Priced(layout.program(), layout.mesh, TPU)
    (row,) = resolve(priced.evaluator, priced.state(*layout.choices)).totals()
    compiled = golden("cse", case)
    assert (row.kind, row.count) == (Kind.ALL_GATHER, compiled["gathers"])
    assert round(row.bytes / 1e6, 2) == compiled["megabytes"]["all_gather"]


@pytest.mark.parametrize("case", LAYOUTS)
def test_a_gpu_gathers_every_byte(case: str) -> None:
    layout = LAYOUTS[case]
    priced = Priced(layout.program(), layout.mesh, GPU)
    (row,) = resolve(priced.evaluator, priced.state(*layout.choices)).totals()
    assert round(row.bytes / 1e6, 2) == golden("cse", case, GPU)["megabytes"]["all_gather"]
