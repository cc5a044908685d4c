"""What a loop makes of what it never changes: made once where the compiler moves it out.

As XLA does for TPU v3, v5e and v5p, found out by compiling such loops; for A100 it moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.while_loop_invariant_code_motion import ASKED, PROBE, RUNS, SENT, SIZE
from tests.costmodel.texts import GPU, TPU, Priced
from toast.analysis.load import load
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import find
from toast.costmodel.passes.while_loop_invariant_code_motion import move_out
from toast.costmodel.resolved import resolve


def made_runs(data: bytes, device: str) -> float:
    """How often what is asked about is made: of its ops the one that runs most often.

    Constants count only where it is made of nothing else: each use makes one anew.
    """
    source = load(data)
    program = source.program
    rules = profile_of(find(device)).while_loop_invariant_code_motion
    named: list[bool] = []
    for place, call in source.locations:  # a call comes before what is within it
        named.append(ASKED in str(place) or (call >= 0 and named[call]))
    asked = np.array(named)[source.places]
    constant = np.zeros(program.ops, dtype=np.bool_)
    constant[program.value_op[program.constant]] = True
    counted = asked & ~constant if (asked & ~constant).any() else asked
    return float(move_out(program, rules).op_trips[counted].max())


@pytest.mark.parametrize("device", [TPU, GPU, "tpu-v3", "tpu-v5p"])
@pytest.mark.parametrize("case", [name for name in PROBE.cases if name not in SENT])
def test_a_loop_makes_it_as_often_as_the_compiled_one(case: str, device: str) -> None:
    data = PROBE.cases[case].module(device)
    assert made_runs(data, device) == golden(PROBE.name, case, device)


def looped(body: Callable[..., Any], *given: jax.ShapeDtypeStruct) -> bytes:
    """A scan of `RUNS` runs of `body(carried, *rest)`, which carries the first of what is given."""

    def step(carried: Any, *rest: Any) -> Any:
        run = jax.lax.scan(lambda c, _: (body(c, *rest), None), carried, None, length=RUNS)
        return run[0]

    return str(jax.jit(step).lower(*given).as_text()).encode()


MATRIX = jax.ShapeDtypeStruct((SIZE, SIZE), jnp.float32)


def runs_of(data: bytes, kind: str) -> list[float]:
    """How often the fusions that such an op is the first of run, on a TPU."""
    evaluator = Priced(data, "a=2", TPU).evaluator
    program = evaluator.analysis.program
    return [
        fusion.runs
        for fusion in explain(resolve(evaluator, ())).fusions
        if any(program.kind(ops[0]) == f"stablehlo.{kind}" for ops, _ in fusion.sources)
    ]


def test_what_moved_out_is_priced_once_and_what_reads_it_in_every_run() -> None:
    data = looped(lambda x, w, v: x @ (w @ v), MATRIX, MATRIX, MATRIX)
    assert sorted(runs_of(data, "dot_general")) == [1.0, float(RUNS)]


def test_what_moved_out_is_kept_while_the_loop_runs() -> None:
    """Rounded to the 16 bits in which products read it, whatever else the loop holds."""
    by_loop, before = (
        Priced(looped(body, MATRIX, MATRIX, MATRIX), "a=2", TPU).made()
        for body in (
            lambda x, w, v: jnp.sin((x @ (w + v)) @ w) @ v,
            lambda x, w, v: jnp.sin((x @ w) @ w) @ v,
        )
    )
    assert by_loop - before == pytest.approx(SIZE * SIZE * 2, rel=0.01)


def test_what_stays_is_computed_inside_what_moved_and_inside_what_did_not() -> None:
    """A softmax of what is masked: its sums leave, and the loop divides by them."""
    data = PROBE.cases["masked softmax"].module(TPU)
    program = load(data).program
    moved = move_out(program, profile_of(find(TPU)).while_loop_invariant_code_motion)
    by_kind = {
        kind: {float(moved.op_trips[op]) for op in program.ops_named(f"stablehlo.{kind}")}
        for kind in ("reduce", "exponential", "divide")
    }
    assert by_kind == {"reduce": {1.0}, "exponential": {RUNS}, "divide": {RUNS}}
    assert set(runs_of(data, "reduce")) == {1.0}


@pytest.mark.parametrize("device", [TPU, GPU, "tpu-v3", "tpu-v5p"])
@pytest.mark.parametrize("case", SENT)
def test_devices_send_it_as_often_as_those_of_the_compiled_one(case: str, device: str) -> None:
    layout = SENT[case]
    priced = Priced(layout.program(), layout.mesh, device)
    rows = resolve(priced.evaluator, priced.state(*layout.choices)).totals()
    sent = {row.kind.name.lower(): row.count for row in rows}
    assert sent == golden(PROBE.name, case, device)


def test_no_loop_that_runs_once_moves_anything() -> None:
    def step(x: Any, w: Any) -> Any:
        return jax.lax.fori_loop(0, 1, lambda _, x: x @ jnp.sin(w), x)

    program = load(str(jax.jit(step).lower(MATRIX, MATRIX).as_text()).encode()).program
    assert move_out(program, profile_of(find(TPU)).while_loop_invariant_code_motion) is program
