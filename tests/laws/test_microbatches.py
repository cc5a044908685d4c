"""A program whose batch runs in parts gives what it gave, whichever dimension is cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from jax import lax

from tests.laws import loops
from tests.laws.chains import Text
from tests.laws.examples import few, many
from tests.laws.executor import same
from tests.laws.layout import Array
from tests.laws.programs import programs
from tests.laws.xla import Xla
from tests.laws.xla_child import PairRequest
from toast.analysis.forms import bytecode, decode
from toast.microbatch.blocked import Blocked
from toast.microbatch.time_axis import Cut, TimeAxis

FEW, MANY = few(40), many(2000)


def cuts(module: str) -> list[Callable[[], bytes]]:
    """The program with each leaf of its arguments cut, in two parts or as many as there are."""
    axis = TimeAxis(decode(module.encode()).module)

    def written(cut: Cut, count: int) -> bytes:
        made = axis.write(cut, count)
        with made.context:
            return bytecode(made)

    found: list[Callable[[], bytes]] = []
    for leaf in axis.leaves_of_arguments():
        try:
            cut = axis.cut(leaf)
        except Blocked:
            continue
        least = next(count for count in range(2, cut.size + 1) if cut.size % count == 0)
        found += [partial(written, cut, count) for count in sorted({least, cut.size})]
    return found


def check(xla: Xla, module: str, made: bytes, inputs: list[Array]) -> None:
    reply = xla.run(PairRequest(one=module.encode(), other=made, inputs=inputs))
    assert isinstance(reply, tuple), reply
    expected, actual = reply
    assert same(expected, actual), decode(made).module


@FEW
@given(text=programs(), which=st.integers(0, 100))
def test_a_program_in_microbatches_gives_the_same(xla: Xla, text: Text, which: int) -> None:
    ways = cuts(text.module())
    event("cut" if ways else "not cut")
    if ways:
        made = ways[which % len(ways)]()
        check(xla, text.module(), made, text.inputs(in_bounds=True))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@MANY
@given(text=programs(most=10))
def test_a_long_program_in_microbatches_gives_the_same(xla: Xla, text: Text) -> None:
    for way in cuts(text.module()):
        check(xla, text.module(), way(), text.inputs(in_bounds=True))


def small(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(np.float32)


def gradient(x: Any, first: Any, second: Any) -> Any:
    """The layers' gradients, whose sum over the batch a loop backwards makes."""

    def loss(weights: Any) -> Any:
        h, _ = lax.scan(lambda h, w: (jnp.clip(h @ w, -2, 2), None), x, weights)
        return (h * h).sum()

    return jax.grad(loss)(first), jax.grad(loss)(second)


LOOPS: dict[str, tuple[Callable[..., Any], list[Array], int]] = {
    "scanned layers": (loops.scanned_layers, [small(8, 4), small(3, 4, 4), small(3, 4, 4)], 2),
    "a gradient": (gradient, [small(8, 4), small(3, 4, 4), small(2, 4, 4)], 2),
    "nested scans": (loops.nested_scans, [small(8, 4), small(2, 3, 4, 4)], 0),
    "a branch": (loops.one_of_two, [small(8, 8), small(8, 8), np.asarray(np.int32(1))], 0),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_in_microbatches_give_the_same(xla: Xla, name: str) -> None:
    function, inputs, least = LOOPS[name]
    module = loops.lowered(function, inputs)
    ways = cuts(module)
    assert len(ways) >= least
    for way in ways:
        check(xla, module, way(), inputs)
