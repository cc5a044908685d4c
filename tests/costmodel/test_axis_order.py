"""Permutes where moves of one colour want its axes in different orders, counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costmodel.texts import GPU, TPU, Priced, main, maps, product
from tests.costmodel.texts import sums as reduced
from tests.modules import analysed, argument_group
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.collectives import Kind
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.program.pins import Pins
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import CollectiveReason

ROWS, WIDTH = 64, 32
X = f"x:{ROWS}x{WIDTH}xf32"
U, V = f"u:{WIDTH}x{WIDTH}xf32", f"v:{WIDTH}x{2 * WIDTH}xf32"
P, Q = f"p:{ROWS}x{WIDTH}xf32", f"q:{ROWS}x{2 * WIDTH}xf32"
MODULE = main(f"{X} {U} {V}", [product(P, X, U), product(Q, X, V)], f"{P} {Q}")
X_ROWS, U_COLUMNS, V_COLUMNS = (0, 0), (1, 1), (2, 1)


def permuted(priced: Priced, *actions: tuple[tuple[int, int], int]) -> dict[tuple[int, ...], float]:
    """Axes -> bytes of permutes on the wire of a device."""
    sent = priced.sent(*actions)
    return {axes: size for (kind, axes), size in sent.items() if kind == "COLLECTIVE_PERMUTE"}


@pytest.mark.parametrize(("device", "width"), [(TPU, 2), (GPU, 4)])
def test_two_products_that_gather_different_axes_of_one_dimension(device: str, width: int) -> None:
    """The rows of x are over both axes; each product has its columns over one of these."""
    priced = Priced(MODULE, "a=2,b=2", device)
    both = ((U_COLUMNS, 0), (V_COLUMNS, 1), (X_ROWS, 0), (X_ROWS, 1))
    sent = permuted(priced, *both)
    # one of the two gets its order for x; the other permutes what a device has, as wide as it goes
    assert sent == {(0, 1): ROWS * WIDTH * width / 4}


@pytest.mark.parametrize("axis", [0, 1])
def test_moves_that_agree_on_an_order_are_not_permuted(axis: int) -> None:
    priced = Priced(MODULE, "a=2,b=2", TPU)
    same = ((U_COLUMNS, axis), (V_COLUMNS, axis), (X_ROWS, 0), (X_ROWS, 1))
    assert not permuted(priced, *same)
    assert not permuted(priced, (X_ROWS, 0), (X_ROWS, 1))
    assert not permuted(priced, (U_COLUMNS, 0), (V_COLUMNS, 1), (X_ROWS, 0))


def test_the_move_that_costs_less_gives_way() -> None:
    """The wide product's order is worth more; the narrow one's result and operand are permuted."""
    wide, narrow, x = f"{ROWS}x{64 * WIDTH}xf32", f"{ROWS}x{WIDTH}xf32", X
    lines = [
        product(f"p:{wide}", x, f"u:{WIDTH}x{64 * WIDTH}xf32"),
        product(f"q:{narrow}", x, f"v:{WIDTH}x{WIDTH}xf32"),
    ]
    given = f"{x} u:{WIDTH}x{64 * WIDTH}xf32 v:{WIDTH}x{WIDTH}xf32"
    priced = Priced(main(given, lines, f"p:{wide} q:{narrow}"), "a=2,b=2", GPU)
    state = priced.state((U_COLUMNS, 0), (V_COLUMNS, 1), (X_ROWS, 0), (X_ROWS, 1))
    program = priced.evaluator.analysis.program
    turned = [
        row
        for row in explain(resolve(priced.evaluator, state)).collectives
        if row.kind is Kind.COLLECTIVE_PERMUTE
    ]
    assert turned
    shapes = {program.shape(value) for row in turned for value, _, _ in row.sources}
    assert (ROWS, 64 * WIDTH) not in shapes


Y, G = f"y:{ROWS}x16xf32", f"g:{WIDTH}x16xf32"
GRADIENT = main(f"{X} {U} {Y}", [product(P, X, U), product(G, X, Y, (0, 0))], f"{P} {G}")
X_COLUMNS = (0, 1)
WHOLE = WIDTH * 16 * 4


Sent = dict[tuple[str, tuple[int, ...]], float]


def sums(sent: Sent) -> Sent:
    """What is added up over both axes."""
    return {key: sent[key] for key in sent if "REDUCE" in key[0] and key[1] == (0, 1)}


@pytest.mark.parametrize("device", [TPU, GPU])
def test_a_sum_over_axes_in_another_order_than_the_results_is_not_scattered(device: str) -> None:
    """The product gathers the axis of its columns: on the rows, which are summed over, it is last.

    The gradient is over both axes in the mesh's order, as nothing wants another.
    """
    priced = Priced(GRADIENT, "a=2,b=2", device)
    rest = ((X_ROWS, 0), (X_ROWS, 1), (X_COLUMNS, 0), (X_COLUMNS, 1))
    in_turn = sums(priced.sent((U_COLUMNS, 1), *rest))
    assert in_turn == {("REDUCE_SCATTER", (0, 1)): WHOLE * 3 / 4}
    turned = sums(priced.sent((U_COLUMNS, 0), *rest))
    assert turned == {("ALL_REDUCE", (0, 1)): 2 * WHOLE * 3 / 4}
    # nothing is gathered of the rows: they are in the mesh's order
    assert sums(priced.sent(*rest)) == in_turn


def test_a_sum_in_another_order_takes_as_long_as_one_of_the_whole() -> None:
    priced = Priced(GRADIENT, "a=2,b=2", GPU)
    state = priced.state((U_COLUMNS, 0), (X_ROWS, 0), (X_ROWS, 1), (X_COLUMNS, 0), (X_COLUMNS, 1))
    (told,) = (
        row for row in explain(resolve(priced.evaluator, state)).collectives if row.axes == (0, 1)
    )
    (row,) = (row for row in resolve(priced.evaluator, state).totals() if row.axes == (0, 1))
    assert (told.kind, told.count, told.bytes) == (Kind.ALL_REDUCE, 1.0, row.bytes)
    whole = priced.state((X_ROWS, 0), (X_ROWS, 1))
    (same,) = resolve(priced.evaluator, whole).totals()
    assert row.seconds == told.seconds == same.seconds


XS, YS, PS = "x:64x64x32xf32", "y:64x64x16xf32", "p:64x64x32xf32"
COLUMNS_OF_X = (
    "%p = stablehlo.dot_general %x, %u, contracting_dims = [2] x [0]"
    " : (tensor<64x64x32xf32>, tensor<32x32xf32>) -> tensor<64x64x32xf32>"
)
OVER_BOTH = (
    "%g = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1]"
    " : (tensor<64x64x32xf32>, tensor<64x64x16xf32>) -> tensor<32x16xf32>"
)
OVER_TWO = main(f"{XS} {U} {YS}", [COLUMNS_OF_X, OVER_BOTH], f"{PS} g:32x16xf32")


@pytest.mark.parametrize(("device", "kind"), [(TPU, "ALL_REDUCE"), (GPU, "REDUCE_SCATTER")])
def test_a_gpu_sums_over_several_dimensions_in_the_meshs_order(device: str, kind: str) -> None:
    """Though one of them has b before a: the product gathers a. A TPU sums over b, a and c."""
    priced = Priced(OVER_TWO, "a=2,b=2,c=2", device)
    rows = [((0, 0), 0), ((0, 0), 1), ((0, 1), 2)]
    state = priced.state((U_COLUMNS, 0), *rows, *(((0, 2), axis) for axis in range(3)))
    resolved = resolve(priced.evaluator, state)
    summed = [one for one in resolved.collectives if one.axes == (0, 1, 2)]
    assert [one.kind.name for one in summed] == [kind]
    gradient = priced.evaluator.analysis.program.ops_named("stablehlo.dot_general")[1]
    assert resolved.constrains_result(gradient)


H, M, V16 = f"h:{ROWS}x24xf32", "m:24x16xf32", "v:16x64xf32"
TWO_GRADIENTS = main(
    f"{X} {Y} {H} {V16}",
    [product(G, X, Y, (0, 0)), product(M, H, Y, (0, 0)), product("q:32x64xf32", G, V16)],
    f"{G} {M} q:32x64xf32",
)


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize("gathered", [0, 1])
def test_what_is_summed_over_follows_the_order_of_what_moves_speak_for(
    gathered: int, device: str
) -> None:
    """The last product gathers an axis of the first gradient's rows: the other leads there.

    The rows that are summed over have that order too, so the first gradient is scattered. The
    second has the mesh's order, as nothing wants another: where the two differ it is summed whole.
    In a graph network the GPU compiler did so, byte by byte.
    """
    priced = Priced(TWO_GRADIENTS, "a=2,b=2", device)
    h_columns, v_columns = (2, 1), (3, 1)
    both = [(dim, axis) for dim in (X_ROWS, X_COLUMNS, h_columns) for axis in (0, 1)]
    state = priced.state((v_columns, gathered), *both)
    resolved = resolve(priced.evaluator, state)
    group = {action.group for action in priced.state((X_ROWS, 0))}
    order = [0, 1] if gathered == 1 else [1, 0]
    assert [resolved.orders[number].tolist() for number in group] == [order]
    sent = sums(priced.sent((v_columns, gathered), *both))
    first, second = WHOLE * 3 / 4, 24 * 16 * 4 * 3 / 4
    scattered = {("REDUCE_SCATTER", (0, 1)): first + second}
    whole = {("REDUCE_SCATTER", (0, 1)): first, ("ALL_REDUCE", (0, 1)): 2 * second}
    assert sent == (scattered if gathered == 1 else whole)


def over_two(batch: int, seq: int, device: str) -> Sent:
    """What is sent of a sum over two dimensions of an axis each, scattered over both axes."""
    x, y, g = f"x:8x{ROWS}x{WIDTH}xf32", f"y:8x{ROWS}x16xf32", f"g:{WIDTH}x16xf32"
    line = (
        f"%g = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1]"
        f" : (tensor<{x[2:]}>, tensor<{y[2:]}>) -> tensor<{g[2:]}>"
    )
    priced = Priced(main(f"{x} {y}", [line], g), "a=2,b=2", device)
    return sums(priced.sent(((0, 0), batch), ((0, 1), seq), ((0, 2), 0), ((0, 2), 1)))


def test_a_tpu_sums_over_one_dimension_after_the_other_and_a_gpu_in_the_mesh_s_order() -> None:
    scattered = {("REDUCE_SCATTER", (0, 1)): WHOLE * 3 / 4}
    assert over_two(0, 1, TPU) == over_two(0, 1, GPU) == scattered
    assert over_two(1, 0, GPU) == scattered
    assert over_two(1, 0, TPU) == {("ALL_REDUCE", (0, 1)): 2 * WHOLE * 3 / 4}


ACTIONS = st.lists(
    st.tuples(st.sampled_from([X_ROWS, (0, 1), U_COLUMNS, V_COLUMNS]), st.integers(0, 2)),
    max_size=6,
)
MODULES = st.sampled_from([MODULE, GRADIENT])


@given(MODULES, ACTIONS)
def test_permutes_are_part_of_the_explained_communication(
    module: bytes, actions: list[tuple[tuple[int, int], int]]
) -> None:
    priced = Priced(module, "a=2,b=2,c=2", TPU)
    state = priced.state(*actions)
    told = explain(resolve(priced.evaluator, state)).collectives
    cost = priced.evaluator.cost(state)
    assert sum(row.seconds for row in told) == pytest.approx(cost.communication)


@given(MODULES, ACTIONS, ACTIONS)
def test_the_order_of_actions_within_a_colour_does_not_matter(
    module: bytes,
    one: list[tuple[tuple[int, int], int]],
    other: list[tuple[tuple[int, int], int]],
) -> None:
    """A scratch that has priced another state tells the same of the next one."""
    priced = Priced(module, "a=2,b=2,c=2", TPU)
    first, second = priced.state(*one), priced.state(*other)
    scratch = priced.evaluator.new_scratch()
    fresh: list[tuple[tuple[Action, ...], float]] = [
        (state, priced.evaluator.cost(state).communication) for state in (first, second)
    ]
    for state, seconds in (*fresh, *fresh[::-1]):
        assert priced.evaluator.cost(state, scratch).communication == seconds


@pytest.mark.parametrize("widths", [(1, 2, 4), (4, 2, 1), (2, 4, 1)])
def test_three_axes_are_in_the_order_in_which_moves_lose_most(widths: tuple[int, ...]) -> None:
    """Each of three products gathers one axis of its rows: the largest has its axis last.

    Their rows are of one colour, as the sums of each row are added up.
    """
    axes, made = range(3), [f"p{n}:{ROWS}x16xf32" for n in range(3)]
    given = [f"x{n}:{ROWS}x{1024 * widths[n]}xf32" for n in axes]
    given += [f"w{n}:{1024 * widths[n]}x16xf32" for n in axes]
    lines = [product(made[n], given[n], given[n + 3]) for n in axes]
    for n in axes:
        lines += reduced(f"r{n}:{ROWS}xf32", given[n], 1)
    lines += [maps("add", f"s:{ROWS}xf32", "r0", "r1"), maps("add", f"t:{ROWS}xf32", "s", "r2")]
    module = main(" ".join(given), lines, " ".join([*made, f"t:{ROWS}xf32"]))
    priced = Priced(module, "a=2,b=2,c=2", GPU)
    columns = [((n + 3, 1), n) for n in axes]
    resolved = resolve(priced.evaluator, priced.state(*columns, *((X_ROWS, n) for n in axes)))
    (group,) = (action.group for action in priced.state((X_ROWS, 0)))
    assert resolved.orders[group].tolist() == sorted(axes, key=lambda n: widths[n])
    reordered = [one for one in resolved.collectives if one.reason is CollectiveReason.REORDERED]
    assert reordered


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_pinned_dimension_keeps_its_order_and_moves_pay_for_it(order: tuple[int, int]) -> None:
    """The product gathers a of the rows, which has to be the last axis on them."""
    line = product(P, X, U)
    analysis = analysed(main(f"{X} {U}", [line], P))
    pins = Pins(values={analysis.program.arguments[0].value: (order, ())})
    evaluator = Evaluator(analysis, Mesh.parse("a=2,b=2"), find(GPU), pins)
    columns = argument_group(analysis, 1, 1)
    rows = argument_group(analysis, 0, 0)
    state = tuple(Action(group=group, axis=axis) for group, axis in ((columns, 0), (rows, 1)))
    resolved = resolve(evaluator, state)
    argument = int(evaluator.layouts.value_tensor[analysis.program.arguments[0].value])
    assert resolved.layout(argument) == (order, ())
    kinds = [one.kind for one in resolved.collectives]
    permutes = [Kind.COLLECTIVE_PERMUTE] if order == (0, 1) else []
    assert kinds == [Kind.ALL_GATHER, *permutes]


def test_elementwise_work_needs_no_order() -> None:
    lines = [maps("tanh", f"t:{ROWS}x{WIDTH}xf32", "x")]
    priced = Priced(main(X, lines, f"t:{ROWS}x{WIDTH}xf32"), "a=2,b=2", TPU)
    assert priced.sent((X_ROWS, 0), (X_ROWS, 1)) == {}
