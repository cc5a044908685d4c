"""Sums that XLA combines are priced as one; others wait for the network one by one."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.probes.all_reduce_combiner import LAYOUTS
from benchmarks.probes.all_reduce_reassociate import LAYOUTS as ADDED
from benchmarks.probes.figures import golden
from benchmarks.probes.programs import lowered
from tests.costmodel import profiles
from tests.costmodel.texts import GPU, TPU, Dim, Priced, main, maps, product
from tests.modules import analysed
from toast.costmodel.explain import explain
from toast.costmodel.network.collectives import Kind
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.all_reduce_combiner import ALONE, combine_sums
from toast.costmodel.resolved import CollectiveTotal, resolve

ROWS, WIDTH = 64, 32
X, Y = f"x:{ROWS}x{WIDTH}xf32", f"y:{ROWS}x{WIDTH}xf32"
W, V = f"w:{WIDTH}x{WIDTH}xf32", f"v:{WIDTH}x{WIDTH}xf32"
G, H = f"g:{WIDTH}x{WIDTH}xf32", f"h:{WIDTH}x{WIDTH}xf32"
GRADIENTS = main(f"{X} {Y}", [product(G, X, Y, (0, 0)), product(H, Y, X, (0, 0))], f"{G} {H}")
"""Two sums over rows that nothing else needs."""
P, Q = f"p:{ROWS}x{WIDTH}xf32", f"q:{ROWS}x{WIDTH}xf32"
R, U = f"r:{ROWS}x{WIDTH}xf32", f"u:{WIDTH}x{WIDTH}xf32"
CHAIN = main(f"{X} {W} {V} {U}", [product(P, X, W), product(R, X, U), product(Q, P, V)], f"{R} {Q}")
"""Two sums over the columns of x, of which a third product waits for the first."""
X_ROWS, X_COLUMNS = (0, 0), (0, 1)
BYTES = WIDTH * WIDTH * 4


def summed(priced: Priced, *actions: tuple[Dim, int]) -> list[CollectiveTotal]:
    rows = resolve(priced.evaluator, priced.state(*actions)).totals()
    return [row for row in rows if row.kind in (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER)]


def alone(priced: Priced, size: float) -> float:
    """Seconds of one all-reduce over the first axis."""
    t = priced.evaluator.tables
    lines = t.mesh.alpha[Kind.ALL_REDUCE, 1] + t.mesh.beta[Kind.ALL_REDUCE, 1] * size
    return float(lines.min() + t.chip.launched)


@pytest.mark.parametrize("device", [TPU, GPU])
def test_gradients_are_sent_together(device: str) -> None:
    priced = Priced(GRADIENTS, "a=4", device)
    (row,) = summed(priced, (X_ROWS, 0))
    assert row.count == pytest.approx(1.0)
    assert row.bytes == 2 * BYTES * 2 * 3 / 4, "what is sent is sent all the same"
    assert row.seconds == pytest.approx(alone(priced, 2 * BYTES))
    assert row.seconds < 2 * alone(priced, BYTES)


@pytest.mark.parametrize("device", [TPU, GPU])
def test_a_sum_that_a_product_waits_for_is_sent_by_itself(device: str) -> None:
    priced = Priced(CHAIN, "a=4", device)
    (row,) = summed(priced, (X_COLUMNS, 0))
    whole = ROWS * WIDTH * 4
    assert (row.kind, row.count) == (Kind.ALL_REDUCE, 2.0)
    assert row.seconds == pytest.approx(2 * alone(priced, whole))


def test_sums_over_other_axes_are_sent_by_themselves() -> None:
    u = f"u:{ROWS}x{WIDTH}xf32"
    lines = [product(G, X, Y, (0, 0)), product(H, u, u, (0, 0))]
    priced = Priced(main(f"{X} {Y} {u}", lines, f"{G} {H}"), "a=2,b=2", TPU)
    rows = summed(priced, (X_ROWS, 0), ((2, 0), 1))
    assert [(row.axes, row.count) for row in rows] == [((0,), 1.0), ((1,), 1.0)]


LOOP = f"""
func.func @main(%x: tensor<{ROWS}x{WIDTH}xf32>, %g: tensor<4x{WIDTH}x{WIDTH}xf32>)
    -> (tensor<{ROWS}x{WIDTH}xf32>, tensor<4x{WIDTH}x{WIDTH}xf32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %x, %s = %g)
      : tensor<i32>, tensor<{ROWS}x{WIDTH}xf32>, tensor<4x{WIDTH}x{WIDTH}xf32>
    cond {{
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    }} do {{
      %o = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0]
        : (tensor<{ROWS}x{WIDTH}xf32>, tensor<{ROWS}x{WIDTH}xf32>) -> tensor<{WIDTH}x{WIDTH}xf32>
      %e = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0]
        : (tensor<{ROWS}x{WIDTH}xf32>, tensor<{ROWS}x{WIDTH}xf32>) -> tensor<{WIDTH}x{WIDTH}xf32>
      %n = stablehlo.dot_general %a, %e, contracting_dims = [1] x [0]
        : (tensor<{ROWS}x{WIDTH}xf32>, tensor<{WIDTH}x{WIDTH}xf32>) -> tensor<{ROWS}x{WIDTH}xf32>
      %b = stablehlo.reshape %o : (tensor<{WIDTH}x{WIDTH}xf32>) -> tensor<1x{WIDTH}x{WIDTH}xf32>
      %t = stablehlo.dynamic_update_slice %s, %b, %i, %zero, %zero
        : (tensor<4x{WIDTH}x{WIDTH}xf32>, tensor<1x{WIDTH}x{WIDTH}xf32>, tensor<i32>, tensor<i32>,
           tensor<i32>) -> tensor<4x{WIDTH}x{WIDTH}xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %n, %t
        : tensor<i32>, tensor<{ROWS}x{WIDTH}xf32>, tensor<4x{WIDTH}x{WIDTH}xf32>
    }}
  return %r#1, %r#2 : tensor<{ROWS}x{WIDTH}xf32>, tensor<4x{WIDTH}x{WIDTH}xf32>
}}
""".encode()


def test_what_a_later_run_of_a_loop_multiplies_is_sent_by_itself() -> None:
    """`o` is only stacked; `e` is multiplied, and what comes of that in the next run."""
    program = analysed(LOOP).program
    loop, runs = combine_sums(program, profiles.TPU.all_reduce_combiner)
    stacked, needed, product_of_it = program.ops_named("stablehlo.dot_general")
    assert runs.tolist() == [1.0, 4.0]
    assert [loop[op] for op in (stacked, needed, product_of_it)] == [1, ALONE, ALONE]
    assert loop[program.ops_named("return")[0]] in (0, ALONE)


def test_sums_of_a_loop_are_sent_in_each_of_its_runs() -> None:
    priced = Priced(LOOP, "a=4", GPU)
    (row,) = summed(priced, (X_ROWS, 0))
    assert row.count == 8.0, "one stacked, one needed, four times"


def norms(layers: int) -> bytes:
    """Layers of a product, added to what it is made of, and a norm over the rows."""

    def step(x: Any, *weights: Any) -> Any:
        for w in weights:
            y = x + x @ w
            mean = y.mean(0)
            x = (y - mean) / jnp.sqrt((y * y).mean(0) - mean**2 + 1.0)
        return x @ weights[0]

    return lowered(step, (ROWS, WIDTH), *[(WIDTH, WIDTH)] * layers)


def test_moments_of_equal_layers_are_one_kind() -> None:
    """Two sums at each of three places: one row of twice three sums in the tables, not three."""
    priced = Priced(norms(LAYERS), "a=4", TPU)
    (row,) = summed(priced, (X_ROWS, 0))
    assert row.count == LAYERS
    sums = priced.evaluator.tables.partial_sums
    assert (sums.loop_runs[sums.loops :] == [LAYERS]).all()
    assert (sums.combined_loop == sums.loops).sum() == 1


LAYERS = 3
DEEP_X = f"x:{ROWS}x{WIDTH}xf32"
STATES = st.lists(
    st.tuples(st.tuples(st.integers(0, LAYERS), st.integers(0, 1)), st.integers(0, 1)), max_size=4
)


def deep() -> bytes:
    """A chain of products and the gradient of each of its weights."""
    shape, weight = f"{ROWS}x{WIDTH}xf32", f"{WIDTH}x{WIDTH}xf32"
    weights = [f"w{n}:{weight}" for n in range(LAYERS)]
    lines, last = [], DEEP_X
    for n, given_weight in enumerate(weights):
        lines += [
            product(f"h{n}:{shape}", last, given_weight),
            maps("tanh", f"a{n}:{shape}", f"h{n}"),
        ]
        lines.append(product(f"g{n}:{weight}", last, f"a{n}:{shape}", (0, 0)))
        last = f"a{n}:{shape}"
    made = " ".join(f"g{n}:{weight}" for n in range(LAYERS))
    return main(" ".join([DEEP_X, *weights]), lines, f"{made} {last}")


@given(STATES, st.sampled_from([TPU, GPU]))
@settings(max_examples=25)
def test_sending_together_never_takes_longer_and_sends_as_much(
    actions: list[tuple[Dim, int]], device: str
) -> None:
    priced = Priced(deep(), "a=2,b=2", device)
    evaluator, state = priced.evaluator, priced.state(*actions)
    together = resolve(evaluator, state).totals()
    cost = evaluator.cost(state)
    assert sum(row.seconds for row in together) == pytest.approx(cost.communication)
    told = explain(resolve(evaluator, state)).collectives
    assert sum(row.seconds for row in told) == pytest.approx(cost.communication)
    none = np.zeros(0, dtype=np.int64)
    sums = evaluator.tables.partial_sums._replace(combined=none, combined_loop=none)
    apart = evaluator.tables._replace(partial_sums=sums)
    evaluator.tables = evaluator.folded = apart
    alone = evaluator.cost(state)
    assert cost.communication <= alone.communication * (1 + 1e-12)
    sent = {(row.kind, row.axes): row.bytes for row in resolve(evaluator, state).totals()}
    assert {(row.kind, row.axes): row.bytes for row in together} == pytest.approx(sent)
    assert (cost.peak, cost.compute) == (alone.peak, alone.compute)


def test_the_gradients_of_layers_are_one_collective() -> None:
    (row,) = summed(Priced(deep(), "a=4", TPU), (X_ROWS, 0))
    assert row.kind is Kind.ALL_REDUCE
    assert row.count == pytest.approx(1.0)
    assert row.bytes == LAYERS * BYTES * 2 * 3 / 4


CLOSED = "libtpu keeps a message below 128 MiB: two sums of 64 MiB go one by one"
SMALLER = "the GPU compiler closes a message at some 30 MiB"
SIDE_BY_SIDE = "sums at one place of a layer are combined too"
NOT_MODELLED = {
    ("2 of 64 MiB", TPU): CLOSED,
    ("3 of 64 MiB", TPU): CLOSED,
    ("5 of 64 MiB", TPU): CLOSED,
    ("8 of 16 MiB", TPU): CLOSED,
    ("waited for by a product", TPU): SIDE_BY_SIDE,
    ("40 of 4 MiB", GPU): SMALLER,
    ("2 of 64 MiB", GPU): SMALLER,
    ("3 of 64 MiB", GPU): SMALLER,
    ("5 of 64 MiB", GPU): SMALLER,
    ("8 of 16 MiB", GPU): SMALLER,
    ("waited for by a product", GPU): SIDE_BY_SIDE,
}
"""Where the price counts other messages than the compiled program has."""


@pytest.mark.parametrize(
    ("case", "device"),
    [
        pytest.param(
            case,
            device,
            marks=pytest.mark.xfail(reason=NOT_MODELLED[case, device])
            if (case, device) in NOT_MODELLED
            else (),
        )
        for case in LAYOUTS
        for device in (TPU, GPU)
    ],
)
def test_there_are_as_many_messages_as_in_the_compiled_program(case: str, device: str) -> None:
    layout = LAYOUTS[case]
    (row,) = summed(Priced(layout.program(), layout.mesh, device), *layout.choices)
    messages, mebibytes = golden("all_reduce_combiner", case, device)[row.kind.name.lower()]
    devices = Mesh.parse(layout.mesh).devices
    assert row.bytes == pytest.approx(2 * mebibytes * 2**20 * (devices - 1) / devices, abs=2**14)
    assert round(row.count) == messages


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize(
    "case", [case for case in ADDED if not case.endswith((", whole", ", scattered"))]
)
def test_products_that_are_only_added_up_are_sent_once(case: str, device: str) -> None:
    layout = ADDED[case]
    (row,) = summed(Priced(layout.program(), layout.mesh, device), *layout.choices)
    compiled = golden("all_reduce_reassociate", case, device)
    assert {row.kind.name.lower(): round(row.bytes / 1e6, 2)} == compiled
