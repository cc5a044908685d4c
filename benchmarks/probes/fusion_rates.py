"""Cycles of programs of a fusion or two: what elements, bytes and copies of them take.

Arguments are fetched ahead to the chip where they fit, so small programs show the vector unit and
large ones the main memory. What one fusion makes for the next stays on the chip, so passes in turn
show what elements take that never leave it.
"""

from __future__ import annotations

import functools
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


PASSES = 4
"""How many passes run in turn."""


def total(*given: Any) -> Any:
    """All added up: an element of each for one element."""
    return sum(given[1:], 2.0 * given[0])


def momentum(w: Any, m: Any, g: Any) -> tuple[Any, ...]:
    """Three operands, two results."""
    new = 0.9 * m + g
    return w - 0.1 * new, new, g


def adam(w: Any, m: Any, v: Any, g: Any) -> tuple[Any, ...]:
    """Four operands, three results."""
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return w - 0.1 * m / (jnp.sqrt(v) + 1e-6), m, v, g


def over_rows(x: Any, row: Any) -> tuple[Any, ...]:
    """A row with every row."""
    return 2.0 * x + row, row


def held(step: Callable[..., Any], *given: Any) -> tuple[Any, ...]:
    """What a step makes of these, stored before anything reads it, and the other operands."""
    made = step(*given)
    made = made if isinstance(made, tuple) else (made,)
    found: tuple[Any, ...] = jax.lax.optimization_barrier((*made, *given[len(made) :]))
    return found


def in_turn(step: Callable[..., Any], *given: Any) -> Any:
    """Passes in turn, each over what the last one has made."""
    for _ in range(PASSES):
        given = held(step, *given)
    return given[0]


def row_sums(*given: Any) -> Any:
    """Sums over rows of the product of all, which is stored nowhere."""
    return jnp.sum(functools.reduce(jnp.multiply, given), axis=-1)


def column_sums(*given: Any) -> Any:
    """Sums over columns of the product of all, which is stored nowhere."""
    return jnp.sum(functools.reduce(jnp.multiply, given), axis=0)


def stored_and_summed(axis: int, *given: Any) -> tuple[Any, Any]:
    """The product of all, which is a result itself, and its sums."""
    made = functools.reduce(jnp.multiply, given)
    return made, jnp.sum(made, axis=axis)


def summed(axes: tuple[int, ...], x: Any) -> Any:
    """Sums of squares of what lies in main memory; a sum alone is no fusion, and takes longer."""
    return jnp.sum(x * x, axis=axes)


def on_chip(step: Callable[..., Any], *given: Any) -> Any:
    """A step over what a pass has made, and a pass over its result."""
    given = held(lambda *each: tuple(2 * x for x in each), *given)
    return 2 * held(step, *given)[0]


def and_more(x: Any, w: Any, *more: Any) -> Any:
    """A product to which more operands are added."""
    return sum(more, x @ w)


def of_sums(w: Any, *given: Any) -> Any:
    """A product of a sum that is computed in its fusion."""
    return total(*given) @ w


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
TALL, FLAT = (WIDTH, 128), (128, WIDTH)
TALLER = (2**15, 512)
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
    **{
        f"passes over {count} of 1 Mi": one(partial(in_turn, total), *[SQUARE] * count)
        for count in (1, 2, 3, 5)
    },
    **{
        f"passes over {count} of 1 Mi in 16 bits": one(
            partial(in_turn, total), *[SQUARE] * count, dtype="bfloat16"
        )
        for count in (1, 3)
    },
    "passes over rows of 1 Mi": one(partial(in_turn, over_rows), SQUARE, (WIDTH,)),
    "updates by momentum of 1 Mi": one(partial(in_turn, momentum), *[SQUARE] * 3),
    "updates by Adam of 1 Mi": one(partial(in_turn, adam), *[SQUARE] * 4),
    **{
        f"sums over rows of {count} of 1 Mi": one(partial(on_chip, row_sums), *[SQUARE] * count)
        for count in (1, 2, 3)
    },
    **{
        f"squares of 64 Mi over {name}": one(partial(summed, axes), (WIDE, WIDE))
        for name, axes in (("rows", (1,)), ("columns", (0,)), ("both", (0, 1)))
    },
    "addition by itself": one(jnp.add, TALLER, TALLER),
    "exponential by itself": one(jnp.exp, TALLER),
    **{
        f"sums over columns of {count} of 16 Mi": one(column_sums, *[TALLER] * count)
        for count in (2, 3)
    },
    **{
        f"{count} of 16 Mi stored and summed over {name}": one(
            partial(stored_and_summed, axis), *[TALLER] * count
        )
        for count, axis, name in ((2, 0, "columns"), (2, 1, "rows"), (3, 0, "columns"))
    },
    **{
        f"product of 1 Mi and {count} more": one(
            partial(on_chip, and_more), TALL, FLAT, *[SQUARE] * count
        )
        for count in (0, 1, 2, 3)
    },
    **{
        f"product of 1 Mi and {count} more in 16 bits": one(
            partial(on_chip, and_more), TALL, FLAT, *[SQUARE] * count, dtype="bfloat16"
        )
        for count in (0, 1)
    },
    **{
        f"product of a sum of {count} of 1 Mi": one(
            partial(on_chip, of_sums), (WIDTH, 8), *[SQUARE] * count
        )
        for count in (1, 3)
    },
}
"""Of 32 bits, unsharded where nothing else is said."""


def cycles(compiled: Compiled) -> dict[str, int]:
    """Those that the compiler estimates, by what they are spent on."""
    return {kind: int(spent) for kind, spent in sorted(compiled.verdict.cycles.items())}


PROBE = Probe(
    name="fusion_rates",
    figures="cycles by what they are spent on",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "tpu-v6e:2x4", "tpu-v7x:2x2x1"),
    cases=cases_of(LAYOUTS, cycles),
)
