"""What a program is for, and which held-out programs speak for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from toast.analysis.load import load
from toast.costmodel.bands.kinds import kind_of
from toast.costmodel.bands.spreads import held_out, read_spreads
from toast.costmodel.hardware.devices import find


def of(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _infer(w: Any, x: Any) -> Any:
    return jnp.argmax(x @ w, axis=-1)


def _train(w: Any, m: Any, x: Any) -> Any:
    gradient = jax.grad(lambda w: jnp.mean(jnp.square(x @ w)))(w)
    m = 0.9 * m + gradient
    return w - 0.1 * m, m, jnp.sum(x)


def _cached(cache: Any, w: Any, x: Any, at: Any) -> Any:
    cache = jax.lax.dynamic_update_slice(cache, x @ w, (0, at, 0))
    return cache, jnp.sum(cache, axis=1)


def _cached_by_layer(cache: Any, w: Any, x: Any, at: Any) -> Any:
    def layer(x: Any, row: Any) -> Any:
        made, _ = _cached(row, w, x, at)
        return x + made[:, :1] * w[0, 0], made

    _, cache = jax.lax.scan(layer, x, cache)
    return cache


def _half(a: Any, b: Any, c: Any) -> Any:
    return a + 1.0, jnp.sum(b @ c)


AT = jax.ShapeDtypeStruct((), jnp.int32)
PROGRAMS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("infer", _infer, (of(8, 16), of(4, 8))),
    ("train", _train, (of(8, 16), of(8, 16), of(4, 8))),
    ("decode", _cached, (of(2, 32, 8), of(8, 8), of(2, 1, 8), AT)),
    ("prefill", _cached, (of(2, 32, 8), of(8, 8), of(2, 5, 8), AT)),
    ("decode", _cached_by_layer, (of(3, 2, 32, 8), of(8, 8), of(2, 1, 8), AT)),
    ("unknown", _half, (of(4), of(5, 6), of(6, 5))),
]


@pytest.mark.parametrize(("kind", "program", "arguments"), PROGRAMS)
def test_the_kind_follows_from_the_module(
    kind: str, program: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    text = jax.jit(program).lower(*arguments).as_text().encode()
    assert kind_of(load(text).program) == kind


TABLE = """
least_bytes = 1000
[chips.tpu-v5e.train.room]
cases = 50
programs = 40
low = 0.9
high = 1.2
[chips.tpu-v5e.all.room]
cases = 60
programs = 45
low = 0.8
high = 1.3
[chips.tpu.train.room]
cases = 70
programs = 50
low = 0.7
high = 1.4
[chips.all.all.room]
cases = 90
programs = 60
low = 0.5
high = 2.0
"""


@pytest.mark.parametrize(
    ("chip", "kind", "chips", "spoken"),
    [
        ("tpu-v5e", "train", "tpu-v5e", "train"),
        ("tpu-v5e", "decode", "tpu-v5e", "all"),
        ("tpu-v4", "train", "tpu", "train"),
        ("tpu-v4", "unknown", "all", "all"),
        ("h200", "train", "all", "all"),
    ],
)
def test_the_narrowest_group_with_enough_cases_speaks(
    chip: str, kind: str, chips: str, spoken: str
) -> None:
    found = read_spreads(TABLE).find("room", find(chip), kind)
    assert found is not None
    assert (found.chips, found.kind) == (chips, spoken)


def test_a_figure_that_nobody_measured_has_no_band() -> None:
    assert read_spreads(TABLE).find("step", find("tpu-v5e"), "train") is None


def test_the_shipped_bands_can_be_read() -> None:
    table = held_out()
    assert all(0 < row.low <= row.high for row in table.spreads.values())
    assert table.find("room", find("tpu-v5e"), "train") is not None
