"""Which partial sums are reduce-scattered, and which are summed whole and cut afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Choice, Layout, cases_of, megabytes
from benchmarks.probes.probe import Probe
from benchmarks.probes.programs import lowered_of

MESH = "data=2,model=4"
DATA, MODEL = 0, 1
ROWS, INNER, WIDTH, EDGES = 2048, 8192, 8192, 65536
X_ROWS, X_INNER, W_COLUMNS = (0, 0), (0, 1), (1, 1)
OVER_ALL: tuple[Choice, ...] = (
    (X_INNER, DATA),
    (X_INNER, MODEL),
    (X_ROWS, DATA),
    (X_ROWS, MODEL),
)
EDGES_OVER_ALL: tuple[Choice, ...] = (((0, 0), DATA), ((0, 0), MODEL))

Reads = Callable[[Any, Any], Any]


def quarters(y: Any) -> list[Any]:
    """Slices of columns that make up the whole."""
    return [y[:, n : n + WIDTH // 4] for n in range(0, WIDTH, WIDTH // 4)]


def in_quarters(y: Any, n: Any) -> Any:
    """Slices alone read the sum."""
    parts = zip(quarters(y), quarters(n), strict=True)
    return [jnp.sin(part) * (k + 1) + old for k, (part, old) in enumerate(parts)]


def a_quarter_and_all(y: Any, n: Any) -> Any:
    """A slice reads the sum, and something else does."""
    return jnp.sin(y[:, : WIDTH // 4]), jnp.cos(y) + n


def where_told(y: Any, n: Any) -> Any:
    """Slices from a place that only the running program knows."""
    place = n.astype(jnp.int32).sum()
    cut = (jnp.zeros((), jnp.int32), place), (y.shape[0], WIDTH // 4)
    return jax.lax.dynamic_slice(y, *cut) * 2, jax.lax.dynamic_slice(n, *cut)


def elementwise(y: Any, n: Any) -> Any:
    """No slice."""
    return jnp.sin(y) + n


def behind_arithmetic(y: Any, n: Any) -> Any:
    """Slices of what is made of the sum."""
    return in_quarters(jnp.tanh(y), n)


def behind_an_addition(y: Any, n: Any) -> Any:
    """Slices of the sum and something else."""
    return [jnp.sin(part) for part in quarters(y + n)]


def narrowed_first(y: Any, n: Any) -> Any:
    """Slices of the sum in 16 bits."""
    return in_quarters(y.astype(jnp.bfloat16), n)


def turned_first(y: Any, n: Any) -> Any:
    """Slices of the sum transposed."""
    return [jnp.sin(y.T[: WIDTH // 4]), jnp.cos(y.T[WIDTH // 4 :]), n]


def product(reads: Reads) -> bytes:
    """What reads `y = x @ w`, and `n` that is laid out as y."""

    def step(x: Any, w: Any, n: Any) -> Any:
        return reads(x @ w, n)

    return _traced(step, [(ROWS, INNER), (INNER, WIDTH), (ROWS, WIDTH)])


def over_two() -> bytes:
    """A product that sums over two dimensions."""

    def step(x: Any, w: Any) -> Any:
        return jnp.sin(jnp.einsum("jki,jkl->il", x, w))

    return _traced(step, [(64, 64, ROWS), (64, 64, WIDTH)])


def segments(reads: Reads, width: int) -> bytes:
    """What reads sums of edges by node."""

    def step(edges: Any, nodes: Any, index: Any) -> Any:
        return reads(jax.ops.segment_sum(edges, index, nodes.shape[0]), nodes)

    return _traced(step, [(EDGES, width), (ROWS, width)], index=(EDGES,))


def lookup(*rows: int) -> bytes:
    """Rows of a table that are looked up."""

    def step(table: Any, index: Any) -> Any:
        return jnp.sin(table[index])

    return _traced(step, [(EDGES, 1024)], index=rows)


def decoded() -> bytes:
    """A product that is a matrix but for a dimension of 1."""

    def step(x: Any, w: Any) -> Any:
        return jnp.sin(jnp.einsum("bok,kn->bon", x, w))

    return _traced(step, [(512, 1, 4096), (4096, WIDTH)])


def _traced(
    step: Callable[..., Any],
    shapes: Sequence[tuple[int, ...]],
    index: tuple[int, ...] | None = None,
) -> bytes:
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    if index is not None:
        given.append(jax.ShapeDtypeStruct(index, jnp.int32))
    return lowered_of(step, *given)


def _product(reads: Reads, choices: tuple[Choice, ...], mesh: str = MESH) -> Layout:
    return Layout(program=partial(product, reads), mesh=mesh, choices=choices)


def _segments(
    reads: Reads, choices: tuple[Choice, ...], mesh: str = MESH, width: int = 2048
) -> Layout:
    return Layout(program=partial(segments, reads, width), mesh=mesh, choices=choices)


READS: tuple[Reads, ...] = (
    in_quarters,
    a_quarter_and_all,
    where_told,
    elementwise,
    behind_arithmetic,
    behind_an_addition,
    narrowed_first,
    turned_first,
)
ONE_AXIS: tuple[Choice, ...] = ((X_INNER, MODEL), (X_ROWS, MODEL))
THREE = "x=2,y=2,z=2"
EDGES_OVER_THREE: tuple[Choice, ...] = tuple(((0, 0), axis) for axis in range(3))
ROWS_OVER_ALL: tuple[Choice, ...] = (((0, 2), DATA), ((0, 2), MODEL))
IN_ORDER: tuple[Choice, ...] = (((0, 0), DATA), ((0, 1), MODEL))
OUT_OF_ORDER: tuple[Choice, ...] = (((0, 0), MODEL), ((0, 1), DATA))
TABLE_OVER_ALL: tuple[Choice, ...] = (((0, 0), DATA), ((0, 0), MODEL))
LAYOUTS = {reads.__name__: _product(reads, OVER_ALL) for reads in READS} | {
    "in_quarters over one axis": _product(in_quarters, ONE_AXIS),
    "elementwise over one axis": _product(elementwise, ONE_AXIS),
    "slices of columns over the other axis": _product(
        in_quarters, ((X_INNER, DATA), (X_ROWS, DATA), (W_COLUMNS, MODEL))
    ),
    "product over some of its axes": _product(
        elementwise, ((X_INNER, DATA), (X_INNER, MODEL), (X_ROWS, MODEL))
    ),
    "scatter in quarters": _segments(
        in_quarters, (*EDGES_OVER_ALL, ((1, 0), DATA), ((1, 0), MODEL)), width=WIDTH
    ),
    "scatter elementwise": _segments(
        elementwise, (*EDGES_OVER_ALL, ((1, 0), DATA), ((1, 0), MODEL)), width=WIDTH
    ),
    "scatter, nodes over one axis": _segments(elementwise, (*EDGES_OVER_ALL, ((1, 0), MODEL))),
    "scatter, features over one axis": _segments(elementwise, (*EDGES_OVER_ALL, ((0, 1), DATA))),
    "scatter, nodes over two of three axes": _segments(
        elementwise, (*EDGES_OVER_THREE, ((1, 0), 0), ((1, 0), 1)), THREE
    ),
    "scatter, nodes over one of three axes": _segments(
        elementwise, (*EDGES_OVER_THREE, ((1, 0), 2)), THREE
    ),
    "product over two dimensions in the mesh's order": Layout(
        program=over_two, mesh=MESH, choices=(*IN_ORDER, *ROWS_OVER_ALL)
    ),
    "product over two dimensions in another order": Layout(
        program=over_two, mesh=MESH, choices=(*OUT_OF_ORDER, *ROWS_OVER_ALL)
    ),
    "scatter over all of its axes": _segments(
        elementwise, (*EDGES_OVER_ALL, ((1, 0), DATA), ((1, 0), MODEL))
    ),
    "scatter over one axis": _segments(elementwise, (((0, 0), MODEL), ((1, 0), MODEL))),
    "scatter, nodes over the other axis too": _segments(
        elementwise, (((1, 0), MODEL), ((0, 0), DATA), ((1, 0), DATA))
    ),
    "lookup over all of its axes": Layout(
        program=partial(lookup, 8192),
        mesh=MESH,
        choices=(*TABLE_OVER_ALL, ((1, 0), DATA), ((1, 0), MODEL)),
    ),
    "lookup over one of its axes": Layout(
        program=partial(lookup, 8192), mesh=MESH, choices=(*TABLE_OVER_ALL, ((1, 0), MODEL))
    ),
    "lookup of one row each": Layout(
        program=partial(lookup, 8192, 1),
        mesh=MESH,
        choices=(((0, 0), MODEL), ((1, 0), MODEL)),
    ),
    "product of one row each, by rows": Layout(
        program=decoded,
        mesh=MESH,
        choices=(((0, 2), DATA), ((0, 2), MODEL), ((0, 0), DATA), ((0, 0), MODEL)),
    ),
    "product of one row each, by columns": Layout(
        program=decoded,
        mesh=MESH,
        choices=(((0, 2), DATA), ((0, 2), MODEL), ((1, 1), DATA), ((1, 1), MODEL)),
    ),
}
"""Sums over two axes of eight devices, or three, and what reads them."""

PROBE = Probe(
    name="reduce_scatter_creator",
    figures="MB on the wire of one device by kind of collective",
    targets=("tpu-v5e:2x4", "a100:8", "tpu-v3:2x2", "tpu-v5p:2x2x2"),
    cases=cases_of(LAYOUTS, megabytes),
)
