"""Holes between buffers: each is put where it fits best when it is made, and stays there."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costmodel.texts import GPU, TPU, Priced, main, product
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.holes import hole_bytes
from toast.costmodel.kernels.holes import extent

XL, L, S = "4096x1024xf32", "1024x1024xf32", "512x1024xf32"


class Buffer(NamedTuple):
    """Made at an event, there until another one, so large."""

    first: int
    last: int
    size: int


def reached(*buffers: Buffer) -> float:
    """How far buffers reach that are made in this order."""
    first, last, size = (np.array([one[k] for one in buffers]) for k in range(3))
    room = np.empty(len(size)), np.empty(len(size)), np.empty(len(size), dtype=np.int64)
    return extent(first, last, size.astype(np.float64), *room)


def alive(buffers: list[Buffer]) -> int:
    """The most bytes that are there at once."""
    return max(sum(b.size for b in buffers if b.first <= e <= b.last) for e in range(40))


def test_what_fits_no_hole_is_put_behind_all() -> None:
    # 3 is let go of below 1, and 4 fits there no more
    assert reached(Buffer(0, 1, 3), Buffer(1, 9, 1), Buffer(2, 3, 4)) == 8


def test_what_fits_a_hole_is_put_there() -> None:
    assert reached(Buffer(0, 1, 3), Buffer(1, 9, 1), Buffer(2, 3, 3)) == 4


def test_the_smallest_hole_that_is_large_enough_is_taken() -> None:
    # holes of 4 (at 0) and of 2 (at 5) are left; 2 takes the latter, so that 4 fits too
    made = [Buffer(0, 1, 4), Buffer(0, 9, 1), Buffer(0, 1, 2), Buffer(0, 9, 1)]
    assert reached(*made, Buffer(2, 9, 2), Buffer(3, 9, 4)) == 8


def test_what_is_let_go_of_last_in_first_out_leaves_no_holes() -> None:
    made = [Buffer(n, 20 - n, 2 + n) for n in range(8)]
    assert reached(*made) == alive(made)


BUFFERS = st.lists(
    st.tuples(st.integers(0, 19), st.integers(0, 19), st.integers(1, 50)).map(
        lambda row: Buffer(row[0], row[0] + row[1], row[2])
    ),
    min_size=1,
    max_size=30,
).map(sorted)


@given(BUFFERS)
def test_buffers_reach_as_far_as_what_is_alive_and_no_further_than_all(
    buffers: list[Buffer],
) -> None:
    assert alive(buffers) <= reached(*buffers) <= sum(one.size for one in buffers)


def holed(device: str) -> Priced:
    """Two products are let go of below a result, and two that are larger are made then."""
    lines = [
        product(f"a:{S}", f"y:{S}", f"w:{L}"),
        product(f"p:{S}", f"a:{S}", f"w:{L}"),
        product(f"b:{S}", f"p:{S}", f"w:{L}"),
        product(f"c:{XL}", f"x:{XL}", f"w:{L}"),
        product(f"e:{XL}", f"c:{XL}", f"w:{L}"),
        product(f"f:{XL}", f"e:{XL}", f"w:{L}"),
    ]
    return Priced(main(f"x:{XL} y:{S} w:{L}", lines, f"f:{XL} b:{S}"), "a=2", device)


@pytest.mark.parametrize("device", [TPU, GPU])
def test_a_tpu_lays_out_the_part_of_the_holes_that_its_profile_counts(device: str) -> None:
    evaluator = holed(device).evaluator
    room, cost = evaluator.room_bytes(()), evaluator.cost(())
    holes = hole_bytes(evaluator.folded, evaluator._scratches[0])
    assert holes > 0
    counted = evaluator.profile.buffer_assignment.holes
    assert (counted > 0) == (device == TPU)
    assert room == cost.room + counted * holes


WEIGHTS, ROWS, COLUMNS = 4, 4096, 64


def momentum_step() -> bytes:
    """Layers of one activation each, far larger than their weights, trained with momentum."""

    def step(
        weights: list[jax.Array], moments: list[jax.Array], x: jax.Array
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        def loss(weights: list[jax.Array]) -> jax.Array:
            made = x
            for weight in weights:
                made = jnp.tanh(made @ weight)
            return (made * made).sum()

        gradients = jax.grad(loss)(weights)
        moments = [0.9 * old + new for old, new in zip(moments, gradients, strict=True)]
        return [w - 0.1 * m for w, m in zip(weights, moments, strict=True)], moments

    weights = [jax.ShapeDtypeStruct((COLUMNS, COLUMNS), jnp.float32)] * WEIGHTS
    x = jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32)
    lowered = jax.jit(step, donate_argnums=(0, 1)).lower(weights, weights, x)
    return lowered.as_text(debug_info=True).encode()


def test_a_gradient_that_its_update_computes_is_made_when_it_can_be() -> None:
    """The gradient of an activation that it is made of is let go of then: one activation less."""
    evaluator = Priced(momentum_step(), "a=2", TPU).evaluator
    rules = replace(evaluator.profile.buffer_assignment, multiplies_at_once=False)
    profile = replace(evaluator.profile, buffer_assignment=rules)
    late = Evaluator(evaluator.analysis, evaluator.mesh, evaluator.device, profile=profile)
    spared = late.cost(()).peak - evaluator.cost(()).peak
    assert spared == ROWS * COLUMNS * 4
