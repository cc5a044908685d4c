"""A batch that cannot run in parts exactly is refused, and the op in the way is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.toast.microbatch.steps import cut_at, lowered
from toast.microbatch.blocked import Blocked

X, W = jnp.ones((8, 4)), jnp.ones((4, 6))


def normed(w: Any, x: Any) -> Any:
    """Batch norm: each example needs the mean of all."""
    h = x @ w
    h = (h - h.mean(0)) / jnp.sqrt(h.var(0) + 1e-3)
    return (h**2).sum()


def largest(w: Any, x: Any) -> Any:
    h = x @ w
    return jnp.exp(h - lax.stop_gradient(h.max())).sum()


def ordered(w: Any, x: Any) -> Any:
    h = jnp.sort(x @ w, axis=0)
    return (h * jnp.arange(8.0)[:, None]).sum()


def running(w: Any, x: Any) -> Any:
    return (jnp.cumsum(x @ w, axis=0) ** 2).sum()


def contrasted(w: Any, x: Any) -> Any:
    h = x @ w
    return jax.nn.logsumexp(h @ h.T, axis=-1).sum()


def turned(w: Any, x: Any) -> Any:
    h = x @ w
    return (h * h[::-1]).sum()


def shifted(w: Any, x: Any) -> Any:
    h = x @ w
    return (h[1:] * h[:-1]).sum()


def balanced(w: Any, x: Any) -> Any:
    """A product of two batch means, as losses that balance experts have."""
    h = jax.nn.softmax(x @ w)
    return (h.mean(0) * (h**2).mean(0)).sum()


def until_small(w: Any, x: Any) -> Any:
    return lax.while_loop(lambda h: h.sum() > 1, lambda h: h * 0.5, x @ w).sum()


def normed_layers(w: Any, x: Any) -> Any:
    def layer(h: Any, scale: Any) -> Any:
        h = h @ w @ w.T
        return (h - h.mean(0)) * scale, None

    return lax.scan(layer, x, jnp.ones(3))[0].sum()


CASES: dict[str, tuple[Callable[..., Any], str, str]] = {
    "a batch statistic": (normed, "stablehlo.subtract", "reduce"),
    "a maximum over it": (largest, "stablehlo.reduce", "whole batch"),
    "a sort along it": (ordered, "stablehlo.sort", "whole batch"),
    "a running sum along it": (running, "stablehlo.", "whole batch"),
    "all pairs of it": (contrasted, "stablehlo.dot_general", "meets itself"),
    "its reverse": (turned, "stablehlo.reverse", "whole batch"),
    "its neighbours": (shifted, "stablehlo.slice", "whole batch"),
    "a product of two sums": (balanced, "stablehlo.", "stablehlo.reduce"),
    "a loop that it ends": (until_small, "stablehlo.while", "depends on the batch"),
    "a statistic in a loop": (normed_layers, "stablehlo.subtract", "a sum over all of it"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_exact_is_refused(name: str) -> None:
    loss, op, why = CASES[name]
    text = lowered(lambda w, x: w - 0.1 * jax.grad(loss)(w, x), W, X) if (
        name != "a loop that it ends"
    ) else lowered(loss, W, X)  # fmt: skip
    with pytest.raises(Blocked) as refused:
        cut_at(text, (1, 0))
    assert refused.value.op.startswith(op)
    assert "test_blocked.py" in refused.value.op, "the line of the user's program"
    assert why in refused.value.why
    assert refused.value.hint


def test_a_number_of_parts_that_does_not_divide_is_refused() -> None:
    from tests.toast.microbatch.steps import in_parts

    with pytest.raises(Blocked, match="3 parts do not divide it"):
        in_parts(lowered(lambda w, x: (x @ w).sum(), W, X), 3, (1, 0))
