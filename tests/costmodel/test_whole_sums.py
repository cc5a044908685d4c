"""Sums that compilers all-reduce though what reads them wants shards, as compiled programs show.

Figures are MB on the wire of one device in programs of these sizes that libtpu and XLA's GPU
compiler made of our modules: for TPU v5e, v5p, v3 and A100, on 8 devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.costmodel.texts import GPU, TPU, Priced

MESH = "data=2,model=4"
DATA, MODEL = 0, 1
ROWS, INNER, WIDTH, EDGES = 2048, 8192, 8192, 65536
X_ROWS, X_INNER = (0, 0), (0, 1)
OVER_ALL = ((X_INNER, DATA), (X_INNER, MODEL), (X_ROWS, DATA), (X_ROWS, MODEL))
TPUS = ("tpu-v3", TPU, "tpu-v5p")

Reads = Callable[[Any, Any], Any]


def quarters(y: Any) -> list[Any]:
    return [y[:, n : n + WIDTH // 4] for n in range(0, WIDTH, WIDTH // 4)]


def in_quarters(y: Any, n: Any) -> Any:
    parts = zip(quarters(y), quarters(n), strict=True)
    return [jnp.sin(part) * (k + 1) + old for k, (part, old) in enumerate(parts)]


def a_quarter_and_all(y: Any, n: Any) -> Any:
    return jnp.sin(y[:, : WIDTH // 4]), jnp.cos(y) + n


def where_told(y: Any, n: Any) -> Any:
    """Slices from a place that only the running program knows."""
    place = n.astype(jnp.int32).sum()
    cut = (jnp.zeros((), jnp.int32), place), (y.shape[0], WIDTH // 4)
    return jax.lax.dynamic_slice(y, *cut) * 2, jax.lax.dynamic_slice(n, *cut)


def elementwise(y: Any, n: Any) -> Any:
    return jnp.sin(y) + n


def behind_arithmetic(y: Any, n: Any) -> Any:
    return in_quarters(jnp.tanh(y), n)


def behind_an_addition(y: Any, n: Any) -> Any:
    return [jnp.sin(part) for part in quarters(y + n)]


def narrowed_first(y: Any, n: Any) -> Any:
    return in_quarters(y.astype(jnp.bfloat16), n)


def turned_first(y: Any, n: Any) -> Any:
    return [jnp.sin(y.T[: WIDTH // 4]), jnp.cos(y.T[WIDTH // 4 :]), n]


def product(reads: Reads, mesh: str = MESH, device: str = TPU) -> Priced:
    """What reads `y = x @ w`, and `n` that is laid out as y."""

    def step(x: Any, w: Any, n: Any) -> Any:
        return reads(x @ w, n)

    shapes = [(ROWS, INNER), (INNER, WIDTH), (ROWS, WIDTH)]
    return traced(step, shapes, mesh, device)


def segments(reads: Reads, width: int, mesh: str = MESH, device: str = TPU) -> Priced:
    """What reads sums of edges by node."""

    def step(edges: Any, nodes: Any, index: Any) -> Any:
        return reads(jax.ops.segment_sum(edges, index, nodes.shape[0]), nodes)

    return traced(step, [(EDGES, width), (ROWS, width)], mesh, device, index=(EDGES,))


def traced(
    step: Callable[..., Any],
    shapes: Sequence[tuple[int, ...]],
    mesh: str,
    device: str,
    index: tuple[int, ...] | None = None,
) -> Priced:
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    if index is not None:
        given.append(jax.ShapeDtypeStruct(index, jnp.int32))
    return Priced(str(jax.jit(step).lower(*given).as_text()).encode(), mesh, device)


def megabytes(priced: Priced, *actions: tuple[tuple[int, int], int]) -> dict[str, float]:
    """By kind, on the wire; scalars are left out."""
    found: dict[str, float] = {}
    for (kind, _), size in priced.sent(*actions).items():
        found[kind] = found.get(kind, 0.0) + size / 1e6
    return {kind: round(size, 2) for kind, size in found.items() if size > 0.01}


@pytest.mark.parametrize("reads", [in_quarters, a_quarter_and_all, where_told])
def test_a_tpu_sums_whole_what_slices_are_cut_of(reads: Reads) -> None:
    assert megabytes(product(reads), *OVER_ALL) == {"ALL_REDUCE": 117.44}


@pytest.mark.parametrize("device", TPUS)
def test_so_does_every_tpu(device: str) -> None:
    one_axis = (X_INNER, MODEL), (X_ROWS, MODEL)
    assert megabytes(product(in_quarters, device=device), *one_axis) == {"ALL_REDUCE": 100.66}
    scattered = megabytes(product(elementwise, device=device), *one_axis)
    assert scattered == {"REDUCE_SCATTER": 50.33}


@pytest.mark.parametrize("reads", [in_quarters, a_quarter_and_all])
def test_a_gpu_scatters_it(reads: Reads) -> None:
    assert megabytes(product(reads, device=GPU), *OVER_ALL) == {"REDUCE_SCATTER": 58.72}


@pytest.mark.parametrize(
    "reads", [elementwise, behind_arithmetic, behind_an_addition, narrowed_first, turned_first]
)
def test_a_tpu_scatters_what_something_else_reads_first(reads: Reads) -> None:
    assert megabytes(product(reads), *OVER_ALL) == {"REDUCE_SCATTER": 58.72}


def test_what_is_gathered_to_be_sliced_is_scattered_before() -> None:
    """Slices of columns, which are over the other axis: two moves, the sum is not cut at once."""
    actions = (X_INNER, DATA), (X_ROWS, DATA), ((1, 1), MODEL)
    assert megabytes(product(in_quarters), *actions) == {
        "REDUCE_SCATTER": 8.39,
        "ALL_GATHER": 25.17,
    }


def test_slices_of_a_scatter_keep_its_sums_whole_too() -> None:
    actions = ((0, 0), DATA), ((0, 0), MODEL), ((1, 0), DATA), ((1, 0), MODEL)
    edges = segments(in_quarters, WIDTH)
    assert megabytes(edges, *actions) == {"ALL_REDUCE": 117.44}
    assert megabytes(segments(elementwise, WIDTH), *actions) == {"REDUCE_SCATTER": 58.72}


@pytest.mark.parametrize("device", ["tpu-v3", TPU, GPU])
@pytest.mark.parametrize("taken", [((1, 0), MODEL), ((0, 1), DATA)])
def test_a_scatter_that_gives_up_some_axes_of_its_sums_is_summed_whole(
    taken: tuple[tuple[int, int], int], device: str
) -> None:
    """Edges over both axes; nodes, or features, over one."""
    priced = segments(elementwise, 2048, device=device)
    edges = ((0, 0), DATA), ((0, 0), MODEL)
    assert megabytes(priced, *edges, taken) == {"ALL_REDUCE": 29.36}


@pytest.mark.parametrize("left", [("x", "y"), ("z",)])
def test_so_it_is_with_three_axes(left: tuple[str, ...]) -> None:
    priced = segments(elementwise, 2048, "x=2,y=2,z=2")
    edges = [((0, 0), axis) for axis in range(3)]
    nodes = [((1, 0), "xyz".index(axis)) for axis in left]
    assert megabytes(priced, *edges, *nodes) == {"ALL_REDUCE": 29.36}


def test_a_product_scatters_over_some_axes_and_sums_over_the_others() -> None:
    actions = (X_INNER, DATA), (X_INNER, MODEL), (X_ROWS, MODEL)
    assert megabytes(product(elementwise, device=GPU), *actions) == {
        "REDUCE_SCATTER": 50.33,
        "ALL_REDUCE": 16.78,
    }


@pytest.mark.parametrize("device", [TPU, GPU])
def test_a_scatter_over_all_axes_of_its_sums_or_one_is_scattered(device: str) -> None:
    priced = segments(elementwise, 2048, device=device)
    both = ((0, 0), DATA), ((0, 0), MODEL), ((1, 0), DATA), ((1, 0), MODEL)
    assert megabytes(priced, *both) == {"REDUCE_SCATTER": 14.68}
    assert megabytes(priced, ((0, 0), MODEL), ((1, 0), MODEL)) == {"REDUCE_SCATTER": 12.58}
