"""Partial sums that are only added to each other: whether they are sent one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of, megabytes
from benchmarks.probes.probe import Probe
from benchmarks.probes.programs import lowered, lowered_of

ROWS, INNER, WIDTH = 2048, 2048, 2048
FLOATS = {"f32": jnp.float32, "bf16": jnp.bfloat16}


def products(count: int, *, between: bool = False) -> bytes:
    """Products that are added up, or what is made of each is."""

    def step(x: Any, *weights: Any) -> Any:
        made = [x @ weight for weight in weights]
        return reduce(add, map(jnp.tanh, made) if between else made)

    return lowered(step, (ROWS, INNER), *[(INNER, WIDTH)] * count)


def gradients(terms: str, width: int = 1024, made: str = "f32", added: str = "f32") -> bytes:
    """Gradients of a table of so many columns that are added up one after the other.

    `s` is that of a lookup, `p` that of a product, `x` something else. Each is `made` of one type
    and `added` as another, as gradients are of weights that a step rounds first.
    """

    def step(table: Any, index: Any, rows: Any, hidden: Any) -> Any:
        terms_of: dict[str, Callable[[int], Any]] = {
            "s": lambda place: jnp.zeros_like(table).at[index + place].add(rows),
            "p": lambda place: jnp.roll(hidden, place, 1).T @ rows,
            "x": lambda place: table * (place + 0.1),
        }
        each = [terms_of[term](place) for place, term in enumerate(terms)]
        total = reduce(add, [one.astype(FLOATS[added]) for one in each])
        return jnp.sin(total), hidden[:8].sum(), table[:8].sum()

    shapes = (WORDS, width), (ROWS, width), (ROWS, WORDS)
    given = [jax.ShapeDtypeStruct(shape, FLOATS[made]) for shape in shapes]
    index = jax.ShapeDtypeStruct((ROWS,), jnp.int32)
    return lowered_of(step, given[0], index, *given[1:])


WORDS = 4096
BY_ROWS, BY_COLUMNS = ((2, 0), 0), ((0, 1), 0)
GRADIENTS = ("ssx", "psx", "pssx", "pspx", "sxs", "psxs")
SUMMED = (((0, 1), 0),)
LAYOUTS = {
    "one product": Layout(program=partial(products, 1), mesh="a=8", choices=SUMMED),
    "two added": Layout(program=partial(products, 2), mesh="a=8", choices=SUMMED),
    "four added": Layout(program=partial(products, 4), mesh="a=8", choices=SUMMED),
    "two, arithmetic between": Layout(
        program=partial(products, 2, between=True), mesh="a=8", choices=SUMMED
    ),
}
LAYOUTS |= {
    f"{terms}, {kept}": Layout(program=partial(gradients, terms), mesh="a=8", choices=choices)
    for terms in GRADIENTS
    for kept, choices in (("whole", (BY_ROWS,)), ("scattered", (BY_ROWS, BY_COLUMNS)))
}
LAYOUTS |= {
    f"{terms} of 768 columns, scattered": Layout(
        program=partial(gradients, terms, 768), mesh="a=8", choices=(BY_ROWS, BY_COLUMNS)
    )
    for terms in ("ssx", "psx", "pssx")
}
LAYOUTS |= {
    f"{terms} of {made} added as {added}, whole": Layout(
        program=partial(gradients, terms, made=made, added=added), mesh="a=8", choices=(BY_ROWS,)
    )
    for terms in ("ps", "pp", "ss")
    for made, added in (("f32", "bf16"), ("bf16", "f32"))
}
LAYOUTS["ssx of 768 columns over 4, scattered"] = Layout(
    program=partial(gradients, "ssx", 768),
    mesh="a=4,b=2",
    choices=(BY_ROWS, BY_COLUMNS),
)

PROBE = Probe(
    name="all_reduce_reassociate",
    figures="MB on the wire of one device by kind of collective",
    targets=("tpu-v5e:2x4", "a100:8"),
    cases=cases_of(LAYOUTS, megabytes),
)
