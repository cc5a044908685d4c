"""What a loop makes of what it never changes: which of it is made once, before the loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.probe import Case, Compiled, Probe
from toast.aot.run_counts import runs

RUNS, SIZE = 64, 512
ASKED = "asked_for"
"""The name of what each case asks about, in the program."""


class Given(NamedTuple):
    """What the loop never changes: two matrices and a row."""

    w: Any
    v: Any
    r: Any


Made = Callable[[Given], Any]


def _waves(*shape: int) -> Any:
    return jnp.sin(jax.lax.broadcasted_iota(jnp.float32, shape, 0))


def _masked(w: Any) -> Any:
    return jnp.where(jnp.tri(SIZE, dtype=bool), w, -1e9)


def _added_up(g: Given) -> Any:
    """Rows of one matrix, added to those of another."""
    return g.w.at[g.r.astype(jnp.int32)].add(g.v)


MADE: dict[str, Made] = {
    "cast": lambda g: g.w.astype(jnp.bfloat16),
    "sine": lambda g: jnp.sin(g.w),
    "joined": lambda g: jnp.concatenate([g.w, g.v], axis=1),
    "multiplied": lambda g: g.w @ g.v,
    "two added": lambda g: g.w + g.v,
    "summed": lambda g: jnp.sum(g.w * g.v, axis=0),
    "sorted": lambda g: jnp.sort(g.w, axis=0),
    "rows looked up": lambda g: g.w[g.r.astype(jnp.int32)],
    "rows added up": _added_up,
    "written into": lambda g: jax.lax.dynamic_update_slice(g.w, g.v[:8], (8, 0)),
    "a number added": lambda g: g.w + 3.0,
    "a row added": lambda g: g.w + g.r,
    "a row added, summed": lambda g: jnp.sum(jnp.sin(g.w + g.r), axis=1),
    "a row added, multiplied": lambda g: jnp.sin(g.w + g.r) @ g.v,
    "a row added, looked up": lambda g: (g.w + g.r)[g.r.astype(jnp.int32)],
    "row by row": lambda g: g.r[:, None] * g.r[None],
    "row by row, multiplied": lambda g: jnp.sin(g.r[:, None] * g.r[None]) @ g.v,
    "repeated": lambda g: jnp.broadcast_to(jnp.sin(g.r), (SIZE, SIZE)),
    "masked": lambda g: _masked(g.w),
    "masked softmax": lambda g: jax.nn.softmax(_masked(g.w)),
    "waves": lambda _: _waves(SIZE, SIZE),
    "waves, summed": lambda _: jnp.sum(_waves(SIZE, SIZE) * _waves(SIZE), axis=1),
}
"""The loop uses all elements of what is made."""


def module(made: Made, *, outer: int = 0, adds: bool = False) -> bytes:
    """A loop of which every run multiplies with what is made, or `adds` it.

    It always adds a row. Where there is an `outer` loop, that runs so often.
    """

    def step(x: Any, w: Any, v: Any, r: Any) -> Any:
        def body(x: Any, _: Any) -> tuple[Any, None]:
            with jax.named_scope(ASKED):
                found = made(Given(w, v, r))
            read = found.astype(jnp.float32)
            adding = adds or read.ndim == 1
            return jnp.tanh(x + read if adding else (x @ read)[:, :SIZE]), None

        def loop(x: Any, _: Any) -> tuple[Any, None]:
            return jax.lax.scan(body, x, None, length=RUNS)

        return jax.lax.scan(loop, x, None, length=outer)[0] if outer else loop(x, None)[0]

    matrix = jax.ShapeDtypeStruct((SIZE, SIZE), jnp.float32)
    row = jax.ShapeDtypeStruct((SIZE,), jnp.float32)
    lowered = jax.jit(step).lower(matrix, matrix, matrix, row)
    return str(lowered.as_text(debug_info=True)).encode()


def made_runs(compiled: Compiled) -> float:
    """How often what is asked about is made: of its ops the one that runs most often."""
    return max(
        (
            run.trips
            for run in runs(compiled.module)
            for one in run.computation.instructions
            if ASKED in one.tail
        ),
        default=0.0,
    )


SENT: dict[str, Layout] = {
    "multiplied, over devices": Layout(
        program=partial(module, MADE["multiplied"]), mesh="a=2", choices=(((2, 0), 0),)
    ),
    "rows added up, over devices": Layout(
        program=partial(module, _added_up), mesh="a=2", choices=(((2, 0), 0),)
    ),
    "rows added up and added, over devices": Layout(
        program=partial(module, _added_up, adds=True), mesh="a=2", choices=(((2, 0), 0),)
    ),
    "sine, over devices": Layout(
        program=partial(module, MADE["sine"]), mesh="a=2", choices=(((0, 0), 0), ((1, 1), 0))
    ),
}
"""What devices make a part of each: sums of parts and gathers."""


def sent_runs(compiled: Compiled) -> dict[str, float]:
    """How often a device sends what is larger than a number, by kind of collective."""
    large = [row for row in compiled.verdict.collectives if row.wire_bytes > 64 * row.count]
    return {kind: sum(r.count for r in large if r.kind == kind) for kind in {r.kind for r in large}}


PROBE = Probe(
    name="while_loop_invariant_code_motion",
    figures=f"how often a loop of {RUNS} runs makes something of what it never changes",
    targets=("tpu-v5e:2x4", "a100:8", "tpu-v3:2x2", "tpu-v5p:2x2x2"),
    cases={
        **{name: Case.of(partial(module, made), made_runs) for name, made in MADE.items()},
        "joined, in two loops": Case.of(partial(module, MADE["joined"], outer=3), made_runs),
        "rows added up and added": Case.of(partial(module, _added_up, adds=True), made_runs),
        **cases_of(SENT, sent_runs),
    },
)
