"""The gradient of pooling, split over batch and channels, in XLA on eight devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.laws.states import prepared
from tests.laws.xla import Xla, request_of
from tests.modules import argument_group
from toast.costmodel.evaluator import Action
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs

IMAGE = (8, 9, 9, 16)


def pooled(image: jax.Array) -> jax.Array:
    """Largest of overlapping windows of 3 by 3, as a ResNet begins with."""
    window, strides = (1, 3, 3, 1), (1, 2, 2, 1)
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    return jax.lax.reduce_window(image, -jnp.inf, jax.lax.max, window, strides, padding)


def gradient(image: jax.Array, weight: jax.Array) -> jax.Array:
    """Of a weighted sum of what is pooled, by the image."""
    return jax.grad(lambda x: jnp.sum(pooled(x) * weight))(image)


@pytest.mark.parametrize(
    ("mesh", "dims", "spec"),
    [
        ("x=8", [0], [["x"], [], [], []]),
        ("x=8", [3], [[], [], [], ["x"]]),
        ("x=2,y=4", [0, 3], [["x"], [], [], ["y"]]),
    ],
)
def test_it_is_the_unsharded_gradient(
    xla: Xla, mesh: str, dims: list[int], spec: list[list[str]]
) -> None:
    shapes = [IMAGE, (8, 5, 5, 16)]
    structs = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    module = jax.jit(gradient).lower(*structs).as_text()
    assert "select_and_scatter" in module
    source, evaluator = prepared(module, mesh)
    groups = [argument_group(evaluator.analysis, 0, dim) for dim in dims]
    state = tuple(Action(group=group, axis=axis) for axis, group in enumerate(groups))
    program, specs = evaluator.analysis.program, Specs(resolve(evaluator, state))
    (op,) = [op for op in range(program.ops) if program.kind(op).endswith("select_and_scatter")]
    assert specs.value(program.values_of(op)[0]) == spec
    assert evaluator.cost(state).communication == 0
    generator = np.random.default_rng(0)
    inputs = [generator.random(shape).astype(np.float32) for shape in shapes]
    reply = xla.run(request_of(module, source, evaluator, state, inputs))
    assert isinstance(reply, tuple), reply
    ((expected,), (actual,)) = reply
    assert np.count_nonzero(expected)
    assert np.array_equal(expected, actual)
