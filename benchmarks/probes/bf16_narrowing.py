"""Element types of what loops carry: stacks that products alone read are kept in 16 bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered_of

LAYERS, ROWS, NARROW, WIDE = 8, 64, 16, 32
Layer = Callable[[Any, Any], Any]
_WHILE = re.compile(r"= \((.*)\) while\(")
_STACK = re.compile(rf"([a-z]+\d+)\[({LAYERS},\d+,\d+)\]")


def relu(x: Any, w: Any) -> Any:
    """Of a relu the gradient needs what it was given, by its sign."""
    return x + jax.nn.relu(x @ w["a"]) @ w["b"]


def tanh(x: Any, w: Any) -> Any:
    """The gradient of a tanh needs what it made, and so does that of the weights behind it."""
    return x + jnp.tanh(x @ w["a"]) @ w["b"]


def scaled(x: Any, w: Any) -> Any:
    """Weights that something else than a product reads too."""
    return x + jax.nn.relu(x @ (w["a"] * w["a"].sum())) @ w["b"]


def training(layer: Layer, dtype: str = "float32") -> bytes:
    """A step of a scan over layers with gradients."""

    def loss(ws: Any, x: Any) -> Any:
        y, _ = jax.lax.scan(lambda x, w: (layer(x, w), None), x, ws)
        return (y**2).mean()

    def step(ws: Any, x: Any) -> Any:
        gradients = jax.grad(loss)(ws, x)
        return jax.tree.map(lambda w, g: w - g * 1e-3, ws, gradients)

    shape, of = jax.ShapeDtypeStruct, jnp.dtype(dtype)
    ws = {"a": shape((LAYERS, NARROW, WIDE), of), "b": shape((LAYERS, WIDE, NARROW), of)}
    return lowered_of(step, ws, shape((ROWS, NARROW), of))


def returned() -> bytes:
    """A loop whose stack is a result."""

    def step(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda x, w: (relu(x, w), x), x, w)

    shape = jax.ShapeDtypeStruct
    w = {"a": shape((LAYERS, NARROW, WIDE), jnp.float32)}
    w["b"] = shape((LAYERS, WIDE, NARROW), jnp.float32)
    return lowered_of(step, shape((ROWS, NARROW), jnp.float32), w)


PROGRAMS: dict[str, Callable[[], bytes]] = {
    "relu": lambda: training(relu),
    "tanh": lambda: training(tanh),
    "scaled": lambda: training(scaled),
    "relu in 16 bits": lambda: training(relu, "bfloat16"),
    "returned": returned,
}


def carried(compiled: Compiled) -> dict[str, list[str]]:
    """The element types of the stacks that loops carry, by shape."""
    found: dict[str, set[str]] = {}
    for loop in _WHILE.findall(compiled.text):
        for dtype, shape in _STACK.findall(loop):
            found.setdefault(shape, set()).add(dtype)
    return {shape: sorted(dtypes) for shape, dtypes in sorted(found.items())}


PROBE = Probe(
    name="bf16_narrowing",
    figures="element types of the stacks that loops carry, by shape",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "a100:8"),
    cases={name: Case.of(make, carried) for name, make in PROGRAMS.items()},
)
