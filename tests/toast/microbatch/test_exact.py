"""Steps in microbatches give what the whole step gives, but for the order of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.toast.microbatch.steps import close, drawn, in_parts, lowered, run

X, Y, W = jnp.ones((8, 4)), jnp.zeros(8, jnp.int32), jnp.ones((4, 6))
TOKENS, TABLE, PICTURES = jnp.zeros((8, 5), jnp.int32), jnp.ones((6, 4)), jnp.ones((8, 6, 6, 4))


def sgd(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A step with a clipped gradient, whose norm is no linear function of it."""

    def step(w: Any, *batch: Any) -> Any:
        value, grad = jax.value_and_grad(loss)(w, *batch)
        norm = jnp.sqrt((grad.astype(jnp.float32) ** 2).sum())
        return (w - 0.1 * grad / jnp.maximum(norm, 1).astype(grad.dtype)), value

    return step


def mean_square(w: Any, x: Any) -> Any:
    return (jnp.tanh(x @ w) ** 2).mean()


def masked(w: Any, x: Any, y: Any) -> Any:
    """The mean over what a mask leaves: how much that is has to be known first."""
    mask = (y > 0).astype(jnp.float32)
    return (mask * (jnp.tanh(x @ w) ** 2).sum(-1)).sum() / mask.sum()


def dropped(w: Any, x: Any, key: Any) -> Any:
    """A mask of random numbers is the same whole or in parts."""
    kept = jax.random.bernoulli(key, 0.7, (8, 6))
    return (jnp.where(kept, x @ w, 0.0) ** 2).sum()


def penalised(w: Any, x: Any) -> Any:
    """Weight decay in the loss counts once, not for each part."""
    return mean_square(w, x) + 0.01 * (w**2).sum()


def tied(table: Any, tokens: Any) -> Any:
    """A table that is read and multiplied with: one sum of a scatter and a product."""
    h = table[tokens]
    logits = jnp.einsum("bsd,vd->bsv", h, table)
    flat = logits.reshape(-1, logits.shape[-1])
    picked = jnp.take_along_axis(flat, tokens.reshape(-1, 1), axis=1)[:, 0]
    return (jax.nn.logsumexp(flat, axis=-1) - picked).mean()


def indexed(w: Any, x: Any, y: Any) -> Any:
    return -jax.nn.log_softmax(x @ w)[jnp.arange(8), y].mean()


def convolved(w: Any, x: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    h = lax.conv_general_dilated(
        x, w.reshape(3, 3, 4, 2), (1, 1), "SAME", dimension_numbers=numbers
    )
    return (lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()


def depthwise(w: Any, x: Any) -> Any:
    h = lax.conv_general_dilated(
        x,
        w.reshape(3, 3, 1, 4),
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=4,
    )
    return (h**3).sum()


def scanned(ws: Any, x: Any) -> Any:
    h, _ = lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)
    return (h**2).mean()


def checkpointed(ws: Any, x: Any) -> Any:
    layer = jax.checkpoint(lambda h, w: (jnp.tanh(h @ w), None))
    return (lax.scan(layer, x, ws)[0] ** 2).mean()


def recurrent(w: Any, x: Any) -> Any:
    """A scan along time, with the batch in the middle of what it is over."""
    _, outputs = lax.scan(
        lambda h, one: ((h := jnp.tanh(h @ w + one[:, :1])), h), jnp.zeros((8, 4)), x
    )
    return (outputs**2).mean()


SQUARES = jnp.ones((3, 4, 4)) * 0.3
KEY = jax.random.key_data(jax.random.key(0))
LOSSES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a mean": (mean_square, (W, X)),
    "a masked mean": (masked, (W, X, Y)),
    "dropout": (lambda w, x, key: dropped(w, x, jax.random.wrap_key_data(key)), (W, X, KEY)),
    "weight decay": (penalised, (W, X)),
    "tied embeddings": (tied, (TABLE, TOKENS)),
    "examples picked by number": (indexed, (W, X, Y)),
    "a convolution and pooling": (convolved, (jnp.ones((72,)), PICTURES)),
    "a depthwise convolution": (depthwise, (jnp.ones((36,)), PICTURES)),
    "a scan": (scanned, (SQUARES, X)),
    "a checkpointed scan": (checkpointed, (SQUARES, X)),
    "a recurrent network": (recurrent, (jnp.ones((4, 4)), jnp.ones((5, 8, 4)))),
}


def test_random_bits_are_made_part_by_part() -> None:
    """Nothing before the loop, and nothing that it carries, has the bits of the whole batch."""
    loss, arguments = LOSSES["dropout"]
    text = lowered(sgd(loss), *arguments)
    parts, _ = in_parts(text, 4, (1, 0))
    assert "8x6xui32" in text
    assert "2x6xui32" in parts
    assert "8x6xui32" not in parts
    assert "8x6xi1" not in parts


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("name", LOSSES)
def test_a_step_in_parts_gives_the_same(name: str, count: int) -> None:
    loss, arguments = LOSSES[name]
    dimension = (1, 1) if name == "a recurrent network" else (1, 0)
    text = lowered(sgd(loss), *arguments)
    parts, cut = in_parts(text, count, dimension)
    assert f"dense<{count}> : tensor<i32>" in parts
    assert "stablehlo.while" in parts
    assert cut.needs.sums, "the gradient is added up"
    inputs = drawn(text)
    assert close(run(text, inputs), run(parts, inputs))


def test_what_has_the_batch_is_written_in_place() -> None:
    """Results along the batch, alone and as a minor part of a dimension."""

    def outputs(w: Any, x: Any) -> Any:
        h = jnp.tanh(x @ w)
        return h, h.T, h.T.reshape(-1), (h > 0.5).sum()

    text = lowered(outputs, W, X)
    parts, cut = in_parts(text, 4, (1, 0))
    assert {one.shape for one in cut.stacks()} == {(8, 6), (6, 8), (48,)}
    inputs = drawn(text)
    assert close(run(text, inputs), run(parts, inputs), 1e-6)


def test_a_batch_flattened_with_the_sequence_is_cut() -> None:
    def loss(w: Any, x: Any) -> Any:
        flat = jnp.swapaxes(x, 0, 1).reshape(-1, 4) @ w  # the sequence comes first
        return (jnp.tanh(flat) * jnp.arange(40.0)[:, None]).sum()

    text = lowered(sgd(loss), W, jnp.ones((8, 5, 4)))
    parts, _ = in_parts(text, 4, (1, 0))
    inputs = drawn(text)
    assert close(run(text, inputs), run(parts, inputs))


def test_the_optimizer_runs_once() -> None:
    text = lowered(sgd(mean_square), W, X)
    parts, _ = in_parts(text, 4)
    loop = parts[parts.index("stablehlo.while") : parts.rindex("stablehlo.return")]
    assert "sqrt" in text
    assert "sqrt" not in loop
    assert parts.count("stablehlo.sqrt") == 1


@pytest.mark.parametrize(("dtype", "carried"), [("program", "bf16"), ("f32", "f32")])
def test_sums_of_bf16_are_kept_in_the_type_asked_for(dtype: Any, carried: str) -> None:
    text = lowered(sgd(mean_square), W.astype(jnp.bfloat16), X.astype(jnp.bfloat16))
    parts, cut = in_parts(text, 8, None, dtype)
    assert {one.dtype for one in cut.sums(dtype) if one.shape} == {carried}
    inputs = drawn(text)
    expected, actual = run(text, inputs), run(parts, inputs)
    assert [one.dtype for one in expected] == [one.dtype for one in actual]
    assert close(expected, actual, 2e-2)


def test_a_wider_sum_is_closer() -> None:
    """Of 256 parts in bf16 the late ones are lost; in f32 they are not."""

    def total(x: Any) -> Any:
        return lax.reduce(x, jnp.zeros((), x.dtype), lax.add, (0,))

    text = lowered(total, jnp.ones((512, 2), jnp.bfloat16))
    inputs = [np.asarray(jnp.full((512, 2), 1.0, jnp.bfloat16))]
    found = {
        dtype: float(np.asarray(run(in_parts(text, 512, (0, 0), dtype)[0], inputs)[0]).max())
        for dtype in ("program", "f32")
    }
    assert found == {"program": 256.0, "f32": 512.0}


def test_the_program_keeps_its_face() -> None:
    """Names, donation and results are those of the program."""
    step = jax.jit(sgd(mean_square), donate_argnums=0)
    text = step.lower(W, X).as_text(debug_info=True)
    parts, _ = in_parts(text, 2)
    for line in ("tf.aliasing_output = 0", 'jax.result_info = "result[0]"', "@main("):
        assert line in parts
    from toast.analysis.load import load

    assert [one.name for one in load(text.encode()).program.arguments] == ["w", "batch[0]"]
