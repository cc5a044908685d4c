"""What a loop sends: sums that it only adds up once behind it, all else in every iteration.

As XLA does for TPU v3, v5e, v5p and A100, found out by compiling such loops: the sums of
gradients leave a loop, and no gather does, because what is gathered is larger than what it is of.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.while_loop_all_reduce_motion import (
    BATCH,
    LAYOUTS,
    LEFT,
    RIGHT,
    ROWS,
    RUNS,
    Body,
    added_up,
    gradient,
    module,
    scaled,
    subtracted,
)
from tests.costmodel.profiles import TPU as PROFILE
from tests.costmodel.texts import GPU, TPU, Priced
from tests.modules import analysed
from toast.costmodel.explain import explain
from toast.costmodel.passes.while_loop_all_reduce_motion import HERE, move_sums
from toast.costmodel.resolved import resolve
from toast.costmodel.terms.journal import Entry

PROBE = "while_loop_all_reduce_motion"
WHOLE = LEFT * RIGHT * 4
SUM = 2 * WHOLE / 2
"""On each wire of an all-reduce of one gradient over two devices."""


def reduced(x: Any, w: Any) -> Any:
    """The gradient by a sum in place of a product."""
    return jnp.sum(x[:, :, None] * w[:, None, :], axis=0)


def sent(case: str, device: str) -> dict[str, dict[str, float]]:
    """Runs and bytes of what a layout of the probe sends, by kind and axes."""
    layout = LAYOUTS[case]
    priced = Priced(layout.program(), layout.mesh, device)
    names = [axis.name for axis in priced.evaluator.mesh.axes]
    return {
        f"{row.kind.name.lower()} {','.join(names[axis] for axis in row.axes)}": {
            "runs": row.count,
            "bytes": row.bytes,
        }
        for row in resolve(priced.evaluator, priced.state(*layout.choices)).totals()
    }


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize("case", LAYOUTS)
def test_a_loop_sends_what_the_compiled_one_sends(case: str, device: str) -> None:
    assert sent(case, device) == golden(PROBE, case, device)


@pytest.mark.parametrize("device", ["tpu-v3", "tpu-v5p"])
@pytest.mark.parametrize("case", ["added_up", "turned"])
def test_every_tpu_sends_once_what_a_loop_only_adds_up(case: str, device: str) -> None:
    assert sent(case, device) == golden(PROBE, case, device)


def test_a_sum_over_dimensions_of_one_is_in_no_ones_way() -> None:
    """As what is made of every row alone, and summed over the rows behind."""

    def twice(carried: Any, x: Any, w: Any) -> tuple[Any, None]:
        return carried + jnp.sum(reduced(x, w).reshape(1, LEFT, RIGHT), axis=0), None

    priced = Priced(module(twice), "a=2", TPU)
    assert priced.sent((BATCH, 0)) == {("ALL_REDUCE", (0,)): SUM}


def test_sums_leave_one_loop_and_not_the_one_around_it() -> None:
    program = analysed(module(added_up, outer=3)).program
    (op,) = program.ops_named("stablehlo.dot_general")
    assert move_sums(program, PROFILE.while_loop_all_reduce_motion)[op] == (RUNS, 1.0)


def test_no_time_goes_into_summing_or_keeping_what_is_summed_behind_a_loop() -> None:
    """A sum is then an addition to what is carried, in one fusion that stores nothing else."""
    added = Priced(module(lambda c, x, w: (c + reduced(x, w), None)), "a=2", TPU)
    other = Priced(module(lambda c, x, w: (c - reduced(x, w), None)), "a=2", TPU)
    here = explain(resolve(added.evaluator, added.state((BATCH, 0))))
    there = explain(resolve(other.evaluator, other.state((BATCH, 0))))
    assert not [fusion for fusion in here.fusions if fusion.unfused]
    assert [fusion for fusion in there.fusions if fusion.unfused]
    (told,) = here.collectives
    assert (told.count, told.bytes) == (1.0, SUM)


def test_a_product_that_is_summed_behind_a_loop_is_not_stored() -> None:
    """It adds to what is carried inside itself; what is summed in the loop is stored for that."""
    one, other = (Priced(module(body), "a=2", TPU) for body in (added_up, scaled))
    one_sum, other_sum = (
        [
            h
            for h in explain(resolve(p.evaluator, p.state((BATCH, 0)))).held
            if h.why is Entry.SUMMED
        ]
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


def test_parts_leave_a_loop_together_or_not_at_all() -> None:
    def moved(body: Body, parts: int) -> dict[int, tuple[float, float]]:
        def step(x: Any, w: Any) -> Any:
            start = (jnp.zeros((LEFT // 4, RIGHT)),) * parts
            return jax.lax.scan(lambda sums, batch: body(sums, *batch), start, (x, w))

        shapes = [jax.ShapeDtypeStruct((RUNS, ROWS, n), jnp.float32) for n in (LEFT, RIGHT)]
        program = analysed(str(jax.jit(step).lower(*shapes).as_text()).encode()).program
        return move_sums(program, PROFILE.while_loop_all_reduce_motion)

    def added(sums: Any, x: Any, w: Any) -> tuple[Any, None]:
        parts = jnp.split(gradient(x, w), 4)
        return tuple(one + part for one, part in zip(sums, parts, strict=True)), None

    def one_kept(sums: Any, x: Any, w: Any) -> tuple[Any, Any]:
        first, *parts = jnp.split(gradient(x, w), 4)
        return tuple(one + part for one, part in zip(sums, parts, strict=True)), first

    def some(sums: Any, x: Any, w: Any) -> tuple[Any, None]:
        made, rows = gradient(x, w), LEFT // 4
        return (sums[0] + made[:rows], sums[1] + made[-rows:]), None

    assert list(moved(added, 4).values()) == [(RUNS, 1.0)]
    assert list(moved(some, 2).values()) == [(RUNS, 0.5)]
    assert moved(one_kept, 3) == {}


def test_what_no_loop_adds_up_is_summed_where_it_is_made() -> None:
    def step(x: Any, w: Any) -> Any:
        return gradient(x[0], w[0]) + 1.0

    shapes = [jax.ShapeDtypeStruct((RUNS, ROWS, n), jnp.float32) for n in (LEFT, RIGHT)]
    program = analysed(str(jax.jit(step).lower(*shapes).as_text()).encode()).program
    assert move_sums(program, PROFILE.while_loop_all_reduce_motion) == {}
    assert HERE == (1.0, 1.0)
