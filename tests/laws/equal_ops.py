"""Stacks of layers, scanned and unrolled: the same arguments, the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Layer = Callable[[Any, Any], Any]
Step = Callable[..., Any]

LAYERS = 3
BATCH, SEQUENCE, MODEL, HIDDEN, HEADS = 64, 128, 256, 1024, 8


def mlp_layer(x: Any, weights: Any) -> Any:
    """For x [batch, model], with weights up [model, hidden] and down [hidden, model]."""
    return x + jax.nn.gelu(x @ weights["up"]) @ weights["down"]


def attention_layer(x: Any, weights: Any) -> Any:
    """For x [batch, sequence, model]: self attention with heads."""
    query, key, value = (jnp.einsum("bsm,mhd->bshd", x, weights[name]) for name in "qkv")
    scores = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", query, key))
    mixed = jnp.einsum("bhst,bthd->bshd", scores, value)
    return x + jnp.einsum("bshd,hdm->bsm", mixed, weights["o"])


def _float(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


MLP = {
    "up": _float(LAYERS, MODEL, HIDDEN),
    "down": _float(LAYERS, HIDDEN, MODEL),
}
ATTENTION = {
    **{name: _float(LAYERS, MODEL, HEADS, MODEL // HEADS) for name in "qkv"},
    "o": _float(LAYERS, HEADS, MODEL // HEADS, MODEL),
}
STACKS: dict[str, tuple[Layer, dict[str, Any], Any]] = {
    "mlp": (mlp_layer, MLP, _float(BATCH, MODEL)),
    "attention": (attention_layer, ATTENTION, _float(BATCH, SEQUENCE, MODEL)),
}


def scanned(layer: Layer) -> Step:
    """A forward pass over stacked weights with `lax.scan`."""

    def step(weights: Any, x: Any) -> Any:
        x, _ = lax.scan(lambda h, w: (layer(h, w), None), x, weights)
        return x

    return step


def unrolled(layer: Layer) -> Step:
    """The same with a Python loop."""

    def step(weights: Any, x: Any) -> Any:
        for index in range(LAYERS):
            x = layer(x, jax.tree.map(lambda w, i=index: w[i], weights))
        return x

    return step


def training(step: Step) -> Step:
    """Loss gradients and an update by them."""

    def train(weights: Any, x: Any) -> Any:
        gradients = jax.grad(lambda w: (step(w, x) ** 2).mean())(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    return train


def text_of(step: Step, weights: Any, x: Any) -> str:
    """The module of a step."""
    text: str = jax.jit(step).lower(weights, x).as_text(debug_info=True)
    return text
