"""Cycles of programs of a fusion or two: what elements, bytes and copies of them take.

Arguments are fetched ahead to the chip where they fit, so small programs show the vector unit and
large ones the main memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Choice, Layout, cases_of
from benchmarks.probes.probe import Compiled, Probe
from benchmarks.probes.programs import lowered

ROWS, WIDTH, WIDE = 4096, 1024, 8192


def product(x: Any, w: Any) -> Any:
    """Nothing but a product."""
    return x @ w


def of_exponentials(x: Any, w: Any) -> Any:
    """A product of what is computed in its own fusion."""
    return jnp.exp(x) @ w


def turned_and_added(x: Any, w: Any) -> Any:
    """What is transposed, in the memory layout of something else."""
    return w.T + x


def added(x: Any, w: Any) -> Any:
    """One element of each for one element."""
    return x + w


def rounded(x: Any, w: Any) -> Any:
    """Both in 16 bits, in a fusion of their own."""
    return jax.lax.optimization_barrier((x.astype(jnp.bfloat16), w.astype(jnp.bfloat16)))


def updated(x: Any, w: Any, m: Any) -> Any:
    """A gradient in the layout of its product, added to what lies in another."""
    return jnp.einsum("bij,bk->kij", x, w) + m


def one(
    step: Callable[..., Any],
    *shapes: tuple[int, ...],
    choices: tuple[Choice, ...] = (),
    dtype: str = "float32",
    mesh: str = "a=2,b=2",
) -> Layout:
    """A program of arrays of these shapes."""
    return Layout(program=partial(lowered, step, *shapes, dtype=dtype), mesh=mesh, choices=choices)


SQUARE, LONG = (WIDTH, WIDTH), (ROWS, WIDTH)
COLUMNS_AND_ROWS: tuple[Choice, ...] = (((0, 0), 0), ((1, 1), 0))
LAYOUTS = {
    "add 1 Ki": one(added, (8, 128), (8, 128)),
    "add 1 Mi": one(added, SQUARE, SQUARE),
    "add 4 Mi": one(added, LONG, LONG),
    "add 256 Mi": one(added, (2**18, WIDTH), (2**18, WIDTH)),
    "round 2 Mi": one(rounded, SQUARE, SQUARE),
    "transpose and add 64 Mi": one(turned_and_added, (WIDE, WIDE), (WIDE, WIDE)),
    "product": one(product, LONG, SQUARE),
    "product, columns gathered": one(product, LONG, SQUARE, choices=COLUMNS_AND_ROWS),
    "product, columns over two axes": one(
        product, LONG, SQUARE, choices=(((0, 0), 0), ((0, 0), 1), ((1, 1), 0))
    ),
    "product, gathered along two dimensions": one(
        product, LONG, SQUARE, choices=(((0, 0), 0), ((0, 0), 1), ((1, 1), 0), ((1, 0), 1))
    ),
    "narrow product": one(product, (4096, 4096), (4096, 8)),
    "narrow product of exponentials": one(of_exponentials, (4096, 4096), (4096, 8)),
    "product of a stream of 1 GiB": one(product, (128, 2**15), (2**15, 2**14), dtype="bfloat16"),
    "update in another layout": one(updated, (8, 64, 16), (8, 2**18), (2**18, 64, 16), mesh="a=2"),
}
"""Of 32 bits, unsharded where nothing else is said."""


def cycles(compiled: Compiled) -> dict[str, int]:
    """Those that the compiler estimates, by what they are spent on."""
    return {kind: int(spent) for kind, spent in sorted(compiled.verdict.cycles.items())}


PROBE = Probe(
    name="fusion_rates",
    figures="cycles by what they are spent on",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases=cases_of(LAYOUTS, cycles),
)
