"""What a loop sends: sums that it only adds up once behind it, all else in every iteration.

As XLA does for TPU v3, v5e, v5p and A100, found out by compiling such loops: the sums of
gradients leave a loop, and no gather does, because what is gathered is larger than what it is of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.costmodel.texts import GPU, TPU, Priced
from tests.modules import analysed
from toast.costmodel.explain import explain
from toast.costmodel.passes.while_loop_all_reduce_motion import HERE, summed_behind
from toast.costmodel.terms.journal import Entry

RUNS, ROWS, LEFT, RIGHT = 5, 64, 32, 16
WHOLE = LEFT * RIGHT * 4
SUM = 2 * WHOLE / 2
"""On each wire of an all-reduce of one gradient over two devices."""
BATCH, X_LEFT, W_RIGHT = (0, 1), (0, 2), (1, 2)
"""Dimensions of x[runs, rows, left] and w[runs, rows, right]; the gradient is `x.T @ w`."""

Body = Callable[[Any, Any, Any], tuple[Any, Any]]


def module(body: Body, *, dtype: str = "float32", outer: int = 0) -> bytes:
    """`body(carried, x, w)` gives what a scan carries on and what it stacks."""

    def step(x: Any, w: Any) -> Any:
        def inner(carried: Any, rows: Any) -> Any:
            return jax.lax.scan(lambda a, batch: body(a, *batch), carried, rows)

        start = jnp.zeros((LEFT, RIGHT), jnp.float32)
        if outer:
            return jax.lax.scan(lambda a, _: inner(a, (x, w)), start, None, length=outer)
        return inner(start, (x, w))

    shapes = [jax.ShapeDtypeStruct((RUNS, ROWS, n), jnp.dtype(dtype)) for n in (LEFT, RIGHT)]
    return str(jax.jit(step).lower(*shapes).as_text()).encode()


def gradient(x: Any, w: Any) -> Any:
    return jnp.einsum("bl,br->lr", x, w)


def added_up(carried: Any, x: Any, w: Any) -> Any:
    return carried + gradient(x, w), None


def turned(carried: Any, x: Any, w: Any) -> Any:
    return gradient(w, x).T + carried, None


def subtracted(carried: Any, x: Any, w: Any) -> Any:
    return carried - gradient(x, w), None


def scaled(carried: Any, x: Any, w: Any) -> Any:
    return carried + gradient(x, w) / 3.0, None


def in_two(carried: Any, x: Any, w: Any) -> Any:
    return carried + gradient(x, w) + gradient(jnp.sin(x), w), None


def looked_at(carried: Any, x: Any, w: Any) -> Any:
    return carried + gradient(x, w), jnp.max(carried)


def kept(carried: Any, x: Any, w: Any) -> Any:
    found = gradient(x, w)
    return carried + found, found


def reduced(x: Any, w: Any) -> Any:
    """The gradient by a sum in place of a product."""
    return jnp.sum(x[:, :, None] * w[:, None, :], axis=0)


def narrow(carried: Any, x: Any, w: Any) -> Any:
    return carried + gradient(x, w).astype(jnp.float32), None


@pytest.mark.parametrize("device", [TPU, GPU, "tpu-v3", "tpu-v5p"])
@pytest.mark.parametrize("body", [added_up, turned])
def test_sums_that_a_loop_only_adds_up_are_sent_once(body: Body, device: str) -> None:
    priced = Priced(module(body), "a=2", device)
    (row,) = priced.evaluator.collectives(priced.state((BATCH, 0)))
    assert (row.kind.name, row.count, row.bytes) == ("ALL_REDUCE", 1.0, SUM)


@pytest.mark.parametrize("body", [subtracted, scaled, in_two, looked_at, kept])
def test_other_sums_are_sent_in_every_iteration(body: Body) -> None:
    sent = Priced(module(body), "a=2", TPU).sent((BATCH, 0))
    assert sent[("ALL_REDUCE", (0,))] == (2 if body is in_two else 1) * RUNS * SUM


def test_sums_leave_one_loop_and_not_the_one_around_it() -> None:
    data = module(added_up, outer=3)
    assert Priced(data, "a=2", TPU).sent((BATCH, 0)) == {("ALL_REDUCE", (0,)): 3 * SUM}
    program = analysed(data).program
    (op,) = program.ops_named("stablehlo.dot_general")
    assert summed_behind(program)[op] == (RUNS, 1.0)


@pytest.mark.parametrize(("device", "part"), [(TPU, 1.0), (GPU, 0.5)])
def test_a_tpu_sums_what_is_carried_and_a_gpu_what_the_product_made(
    device: str, part: float
) -> None:
    priced = Priced(module(narrow, dtype="bfloat16"), "a=2", device)
    assert priced.sent((BATCH, 0)) == {("ALL_REDUCE", (0,)): part * SUM}


def test_what_is_scattered_stays_in_the_loop_and_the_rest_leaves_it() -> None:
    """Rows over a and b, the gradient's over a: what a scattered is summed over b once."""
    sent = Priced(module(added_up), "a=2,b=4", TPU).sent((BATCH, 0), (BATCH, 1), (X_LEFT, 0))
    assert sent[("REDUCE_SCATTER", (0,))] == RUNS * WHOLE / 2
    assert sent[("ALL_REDUCE", (1,))] == 2 * (WHOLE / 2) * 3 / 4


def test_sums_that_are_cut_afterwards_stay_in_the_loop() -> None:
    """Two dimensions want an axis each: the whole is summed, and only then cut."""
    actions = ((BATCH, 0), (BATCH, 1), (X_LEFT, 0), (W_RIGHT, 1))
    sent = Priced(module(added_up), "a=2,b=2", TPU).sent(*actions)
    assert sent[("ALL_REDUCE", (0, 1))] == RUNS * 2 * WHOLE * 3 / 4


def test_no_time_goes_into_summing_or_keeping_what_is_summed_behind_a_loop() -> None:
    """A sum is then an addition to what is carried, in one kernel that stores nothing else."""
    added = Priced(module(lambda c, x, w: (c + reduced(x, w), None)), "a=2", TPU)
    other = Priced(module(lambda c, x, w: (c - reduced(x, w), None)), "a=2", TPU)
    here = explain(added.evaluator, added.state((BATCH, 0)))
    there = explain(other.evaluator, other.state((BATCH, 0)))
    assert not [kernel for kernel in here.kernels if kernel.unfused]
    assert [kernel for kernel in there.kernels if kernel.unfused]
    (told,) = here.collectives
    assert (told.count, told.bytes) == (1.0, SUM)


def test_a_product_that_is_summed_behind_a_loop_is_not_stored() -> None:
    """It adds to what is carried inside itself; what is summed in the loop is stored for that."""
    one, other = (Priced(module(body), "a=2", TPU) for body in (added_up, scaled))
    one_sum, other_sum = (
        [h for h in explain(p.evaluator, p.state((BATCH, 0))).held if h.why is Entry.SUMMED]
        for p in (one, other)
    )
    assert [h.bytes for h in one_sum] == []
    assert [h.bytes for h in other_sum] == [WHOLE]


def test_what_is_added_to_a_carried_value_is_written_over_it() -> None:
    """One buffer holds the sum at all times; what reads the value elsewhere too needs another."""

    def held(body: Body) -> float:
        priced = Priced(module(body), "a=2", TPU)
        # what products read of the arguments in the loop is rounded to 16 bits before it
        return priced.made() - 2 * RUNS * ROWS * (LEFT + RIGHT)

    counters = 64
    assert WHOLE <= held(added_up) < WHOLE + counters
    assert WHOLE <= held(subtracted) < WHOLE + counters
    assert held(lambda c, x, w: (c[::-1] + gradient(x, w), None)) >= 2 * WHOLE
    assert held(lambda c, x, w: (jnp.maximum(c, 0.0) * 2.0 + gradient(x, w), c)) >= 2 * WHOLE


def test_what_no_loop_adds_up_is_summed_where_it_is_made() -> None:
    def step(x: Any, w: Any) -> Any:
        return gradient(x[0], w[0]) + 1.0

    shapes = [jax.ShapeDtypeStruct((RUNS, ROWS, n), jnp.float32) for n in (LEFT, RIGHT)]
    program = analysed(str(jax.jit(step).lower(*shapes).as_text()).encode()).program
    assert summed_behind(program) == {}
    assert HERE == (1.0, 1.0)


@pytest.mark.parametrize("device", [TPU, GPU])
def test_a_weight_that_every_iteration_reads_is_gathered_in_each(device: str) -> None:
    """Stored over the axis of the rows: a gather makes it larger, and so XLA leaves it in place."""

    def step(weight: Any, x: Any) -> Any:
        return jax.lax.scan(lambda h, _: (jnp.tanh(h @ weight), None), x, None, length=RUNS)[0]

    shapes = [jax.ShapeDtypeStruct((n, LEFT), jnp.float32) for n in (LEFT, ROWS)]
    data = str(jax.jit(step).lower(*shapes).as_text()).encode()
    stored, rows = (0, 0), (1, 0)
    priced = Priced(data, "a=2", device)
    (row,) = priced.evaluator.collectives(priced.state((rows, 0), (stored, 0)))
    width = 2 if device == TPU else 4
    assert (row.kind.name, row.count) == ("ALL_GATHER", RUNS)
    assert row.bytes == RUNS * LEFT * LEFT * width / 2
