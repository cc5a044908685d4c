"""A scatter of one element into each row is a select, and is not stored."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.modules import analysed
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.scatter_expander import expanded_scatters, is_one_a_row

ROWS, CLASSES = 4096, 32768


def lowered(function: Any, *shapes: tuple[tuple[int, ...], Any]) -> bytes:
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    return jax.jit(function).lower(*structs).as_text().encode()


def loss(logits: Any, labels: Any) -> Any:
    scores = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(scores, labels[..., None], axis=-1).sum()


def test_a_loss_with_labels_stores_no_gradient_of_its_lookup() -> None:
    """The logits, and their gradient: on a TPU there is no third tensor of that size."""
    data = lowered(jax.grad(loss), ((ROWS, CLASSES), jnp.float32), ((ROWS,), jnp.int32))
    analysis, size = analysed(data), ROWS * CLASSES * 4
    peak = Evaluator(analysis, Mesh.parse("a=2"), find("tpu-v5e")).cost(()).room
    assert 2 * size <= peak < 2.5 * size


@pytest.mark.parametrize("shape", [(64, 128), (4, 16, 128)])
def test_lookups_of_one_element_a_row_are_found(shape: tuple[int, ...]) -> None:
    data = lowered(jax.grad(loss), (shape, jnp.float32), (shape[:-1], jnp.int32))
    assert expanded_scatters(analysed(data).program).sum() == 1


def test_sums_of_rows_stay_scatters() -> None:
    """The gradient of an embedding, and messages that are added up by node."""

    def embedded(table: Any, tokens: Any) -> Any:
        return jnp.sin(table[tokens]).sum()

    def gathered(edges: Any, nodes: Any) -> Any:
        return jax.ops.segment_sum(edges, nodes, 64)

    for data in (
        lowered(jax.grad(embedded), ((64, 16), jnp.float32), ((8, 32), jnp.int32)),
        lowered(gathered, ((256, 16), jnp.float32), ((256,), jnp.int32)),
    ):
        assert not expanded_scatters(analysed(data).program).any()


@pytest.mark.parametrize(
    ("operand", "updates", "one"),
    [
        ((8, 32), (8,), True),
        ((8, 32), (8, 1), True),
        ((4, 8, 32), (4, 8, 1), True),
        ((8, 32), (32,), True),
        ((8, 32), (8, 2), False),
        ((64, 16), (8, 32, 16), False),
        ((64,), (), False),
        ((64,), (1,), False),
    ],
)
def test_one_a_row_is_a_matter_of_shapes(
    operand: tuple[int, ...], updates: tuple[int, ...], *, one: bool
) -> None:
    assert is_one_a_row(operand, updates) == one
    if one:
        assert np.prod(operand) % np.prod(updates) == 0
