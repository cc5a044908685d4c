"""Products of which the program reads a part: whether the whole is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp

from benchmarks.probes.launches import PRODUCTS
from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.probe import Compiled, Figure, Probe
from benchmarks.probes.programs import lowered

PROMPT, TABLE = (512, 1536), (1536, 8192)


def last_row(x: Any, w: Any) -> Any:
    """What the last token of a prompt is worth."""
    return (x @ w)[:, -1:]


def most_rows(x: Any, w: Any) -> Any:
    """All tokens that have one behind them."""
    return (x @ w)[:, :-1]


def columns(x: Any, w: Any) -> Any:
    """Some features."""
    return (x @ w)[:, :, :128]


def last_row_and_sum(x: Any, w: Any) -> Any:
    """Another op reads the whole."""
    made = x @ w
    return made[:, -1:], jnp.sum(made)


def two_rows(x: Any, w: Any) -> Any:
    """Two slices read it."""
    made = x @ w
    return made[:, -1:], made[:, :1]


def last_row_of_sum(x: Any, w: Any) -> Any:
    """The slice reads what is made of the product."""
    return (x @ w + 1.0)[:, -1:]


def head_mask() -> bytes:
    """Attention by a number for each head: a product of a batch that sums over nothing."""
    step = partial(jnp.einsum, "bhqk,h->bhqk")
    return lowered(step, (8, 16, 512, 512), (16,))


def sizes(compiled: Compiled) -> Figure:
    """The sizes of what products of matrices make."""
    shapes = [one.shapes[0] for one in compiled.instructions() if one.opcode in PRODUCTS]
    return ["x".join(map(str, shape.dims)) for shape in shapes]


def one(step: Callable[..., Any], examples: int = 8) -> Layout:
    """A program on one device."""
    return Layout(program=partial(lowered, step, (examples, *PROMPT), TABLE), mesh="a=2,b=2")


def one_each(step: Callable[..., Any]) -> Layout:
    """A program of four examples on four devices."""
    return replace(one(step, 4), choices=(((0, 0), 0), ((0, 0), 1)))


LAYOUTS = {
    "last row": one(last_row),
    "most rows": one(most_rows),
    "columns": one(columns),
    "last row, and the sum of all": one(last_row_and_sum),
    "two rows": one(two_rows),
    "last row of a sum": one(last_row_of_sum),
    "last row of one example": one(last_row, 1),
    "last row of an example each": one_each(last_row),
    "a mask of heads": Layout(program=head_mask, mesh="a=2,b=2"),
}
PROBE = Probe(
    name="algebraic_simplifier",
    figures="sizes of what products make",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "a100:8"),
    cases=cases_of(LAYOUTS, sizes),
)
