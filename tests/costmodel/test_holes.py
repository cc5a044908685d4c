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

from benchmarks.probes.programs import lowered
from tests.costmodel.texts import GPU, TPU, Priced
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.kernels.holes import extent

MIB = 2**20


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


def read_in_order(layers: int) -> bytes:
    """Layers of which each makes 2 MiB in 16 bits, and 4 MiB of each of these in the same order."""

    def step(x: jax.Array, w: jax.Array, up: jax.Array, down: jax.Array) -> list[jax.Array]:
        kept = []
        for _ in range(layers):
            x = jnp.tanh(x @ w)
            kept.append(x)
        return [jnp.tanh(one @ up) @ down for one in kept] + [x]

    return lowered(step, (1024, 1024), (1024, 1024), (1024, 1536), (1536, 1024))


def buffers_of(layers: int) -> list[Buffer]:
    """All of them by hand: what is kept, the last of it a result, and two for each of these."""
    end, made = 3 * layers, []
    for n in range(layers):
        read = layers + 1 + 2 * n
        made.append(Buffer(n + 1, read, 2 * MIB) if n < layers - 1 else Buffer(n + 1, end, 4 * MIB))
        made.append(Buffer(read, read + 1, 3 * MIB))
        made.append(Buffer(min(read + 1, end), end, 4 * MIB))
    return sorted(made, key=lambda one: (one.first, -one.size))


@pytest.mark.parametrize("device", [TPU, GPU])
@pytest.mark.parametrize("layers", [2, 4, 8])
def test_a_tpu_lays_out_the_part_of_the_holes_that_its_profile_counts(
    device: str, layers: int
) -> None:
    """Those of all layers, though equal layers are priced together where plans are searched."""
    evaluator = Priced(read_in_order(layers), "a=2", device).evaluator
    buffers, counted = buffers_of(layers), evaluator.profile.buffer_assignment.holes
    holes = reached(*buffers) - alive(buffers)
    assert holes > 0
    assert (counted > 0) == (device == TPU)
    assert evaluator.room_bytes(()) == evaluator.cost(()).room + counted * holes


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
