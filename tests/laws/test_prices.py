"""Laws that no price breaks, on random programs: what is moved, what is held, and more work."""

from __future__ import annotations

import dataclasses
from copy import deepcopy
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from benchmarks.zoo.laws import Bounds, breaches, cheaper
from tests.laws.chains import Text
from tests.laws.examples import few, many
from tests.laws.programs import EVERY, FOUR_TO_EIGHT, picks, programs
from tests.laws.states import state_of
from tests.modules import analysed, argument_group
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.hardware.devices import Device, find
from toast.costmodel.network.mesh import Mesh

CHIPS = ("tpu-v5e", "tpu-v3", "a100-40gb")
FEW, MANY = few(40), many(3000)


@cache
def slow_memory(chip: str) -> Device:
    """A chip of which only the main memory counts: small programs then wait for nothing else."""
    return dataclasses.replace(find(chip), bandwidth=1.0)


def evaluator(data: bytes, mesh: str, chip: str, **changes: Any) -> Evaluator:
    return Evaluator(analysed(data), Mesh.parse(mesh), slow_memory(chip), **changes)


def check(text: Text, mesh: str, chip: str, chosen: list[int]) -> None:
    module = text.module()
    found = evaluator(module.encode(), mesh, chip)
    state = state_of(found, chosen)
    note(f"{module}\n{state}")
    assert breaches(found, state) == []


@FEW
@given(
    text=programs(),
    mesh=st.sampled_from(FOUR_TO_EIGHT),
    chip=st.sampled_from(CHIPS),
    chosen=picks,
)
def test_a_step_moves_and_holds_at_least_what_it_has_to(
    text: Text, mesh: str, chip: str, chosen: list[int]
) -> None:
    check(text, mesh, chip, chosen)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@MANY
@given(
    text=programs(most=12),
    mesh=st.sampled_from(FOUR_TO_EIGHT),
    chip=st.sampled_from(CHIPS),
    chosen=picks,
)
def test_long_chains_move_and_hold_at_least_what_they_have_to(
    text: Text, mesh: str, chip: str, chosen: list[int]
) -> None:
    check(text, mesh, chip, chosen)


@st.composite
def with_one_more(draw: Any) -> tuple[str, str]:
    """A program, and the same with one more op, whose result is a result as well."""
    text = draw(programs(most=5))
    longer = deepcopy(text)
    before = set(text.used)
    draw(st.sampled_from(EVERY))(draw, longer, draw(st.sampled_from(longer.values)))
    longer.used = {name for name in longer.used if name in before or _is_new(name, text)}
    return text.module(), longer.module()


def _is_new(name: str, text: Text) -> bool:
    return name not in {value.name for value in text.values}


@FEW
@given(pair=with_one_more(), chip=st.sampled_from(CHIPS))
def test_one_more_op_is_never_cheaper(pair: tuple[str, str], chip: str) -> None:
    note("\n".join(pair))
    fewer, more = (
        Evaluator(analysed(text.encode()), Mesh.parse("x=2"), find(chip)) for text in pair
    )
    assert cheaper(fewer, (), more, ()) == []


def layered(layers: int, batch: int) -> bytes:
    """The gradient of so many layers, of so many rows."""

    def loss(weights: Any, x: Any) -> Any:
        for number in range(layers):
            x = jnp.tanh(x @ weights[number]) + x
        return jnp.sum(x * x)

    shapes = [jax.ShapeDtypeStruct((512, 512), jnp.float32)] * layers
    x = jax.ShapeDtypeStruct((batch, 512), jnp.float32)
    return jax.jit(jax.grad(loss)).lower(shapes, x).as_text().encode()


def batched(data: bytes, chip: str, layers: int) -> tuple[Evaluator, tuple[Action, ...]]:
    found = Evaluator(analysed(data), Mesh.parse("x=4"), find(chip))
    return found, (Action(group=argument_group(found.analysis, layers, 0), axis=0),)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_another_layer_is_never_cheaper(chip: str, layers: int) -> None:
    fewer, one = batched(layered(layers, 256), chip, layers)
    more, other = batched(layered(layers + 1, 256), chip, layers + 1)
    assert cheaper(fewer, one, more, other) == []
    assert cheaper(fewer, (), more, ()) == []


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("batch", [8, 64, 96, 1000, 4096])
def test_a_larger_batch_is_never_cheaper(chip: str, batch: int) -> None:
    fewer, one = batched(layered(2, batch), chip, 2)
    more, other = batched(layered(2, batch + 4), chip, 2)
    assert cheaper(fewer, one, more, other) == []
    assert cheaper(fewer, (), more, ()) == []


def decode(cache: Any, w: Any, x: Any, at: Any) -> Any:
    """A token is written to a cache, and all of it is read."""
    cache = jax.lax.dynamic_update_slice(cache, (x @ w)[:, None], (0, at, 0))
    return cache, jnp.einsum("bd,bkd->bk", x, cache)


@cache
def decoding() -> Evaluator:
    f32, i32 = jnp.float32, jnp.int32
    shapes = [((8, 64, 32), f32), ((32, 32), f32), ((8, 32), f32), ((), i32)]
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    text = jax.jit(decode, donate_argnums=0).lower(*structs).as_text()
    return evaluator(text.encode(), "x=2", "tpu-v5e")


def test_the_bound_has_what_is_read_behind_an_update() -> None:
    """Of the cache all but the new row, once; the row and the scores are written."""
    whole, part = 8 * 64 * 32 * 4, 8 * 32 * 4
    weights, scores = 32 * 32 * 4, 8 * 64 * 4
    moved = Bounds(decoding(), ()).moved_bytes()
    index = 4
    assert moved == whole - part + weights + part + part + scores + index
    assert breaches(decoding(), ()) == []


def test_what_is_donated_is_held_once() -> None:
    held = Bounds(decoding(), ()).held_bytes()
    assert held == (8 * 64 * 32 + 32 * 32 + 8 * 32 + 8 * 64) * 4 + 4


def test_a_price_that_ignores_what_is_read_breaks_the_law() -> None:
    found = decoding()
    free = Evaluator(found.analysis, found.mesh, slow_memory("tpu-v5e"), floored=False)
    assert [one.law for one in breaches(free, ())] == ["what is moved once"]
    assert 0.0 < breaches(free, ())[0].share < 1.0
