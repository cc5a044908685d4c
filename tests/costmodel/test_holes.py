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


ROWS, COLUMNS, WIDE = 4096, 64, 1024


def split_step() -> bytes:
    """A product whose elementwise end comes behind another large value in the program."""

    def step(
        x: jax.Array, y: jax.Array, up: jax.Array, down: jax.Array, square: jax.Array
    ) -> jax.Array:
        first = jnp.tanh(x @ up)
        product = first @ down
        second = jnp.tanh(y @ up)
        return jnp.sin(jnp.sin(product) @ square) + jnp.sin(second @ down) @ square

    images, weights = [(ROWS, COLUMNS)] * 2, [(COLUMNS, WIDE), (WIDE, COLUMNS)]
    shapes = [*images, *weights, (COLUMNS, COLUMNS)]
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return jax.jit(step).lower(*given).as_text(debug_info=True).encode()


def test_a_product_inside_a_later_fusion_is_made_when_it_can_be() -> None:
    """What it is made of is let go of before the other is made, both in 16 bits for products."""
    evaluator = Priced(split_step(), "a=2", "tpu-v3").evaluator
    rules = replace(evaluator.profile.buffer_assignment, multiplies_at_once=False)
    profile = replace(evaluator.profile, buffer_assignment=rules)
    late = Evaluator(evaluator.analysis, evaluator.mesh, evaluator.device, profile=profile)
    spared = late.cost(()).peak - evaluator.cost(()).peak
    assert spared == ROWS * (WIDE - COLUMNS) * 2
