"""The two steps that are trained: DistIR's MLP of equal layers, and a small GPT-2."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from toast.analysis.forms import bytecode
from toast.stages.wiring import Layout

DATA, MODEL = "data", "model"
_RATE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A training step: `step` on arguments of these `shapes`, whose paths end as `split` says.

    `split` has the dimension of each weight that tensor parallelism cuts, by a pattern of its path.
    All that is not in `params` is data, whose dimension 0 is the batch.
    """

    step: Callable[..., Any]
    shapes: tuple[Any, ...]
    layers: int
    batch: int
    split: Mapping[str, int]

    @property
    def module(self) -> bytes:
        """The step as StableHLO."""
        return bytecode(jax.jit(self.step).lower(*self.shapes).compiler_ir("stablehlo"))

    def arguments(self) -> list[Any]:
        """Numbers for the leaves of the arguments, of a size at which nothing overflows."""
        chance = np.random.default_rng(0)
        leaves = jax.tree.leaves(self.shapes)
        return [_numbers(chance, leaf) for leaf in leaves]

    def layouts(self, data: int, tensor: int) -> list[Layout]:
        """The layout of each argument, as Megatron has them: data by rows, weights in pairs."""
        leaves = jax.tree_util.tree_leaves_with_path(self.shapes)
        found = [self._layout(jax.tree_util.keystr(path), leaf.ndim) for path, leaf in leaves]
        there = {DATA: data > 1, MODEL: tensor > 1}
        return [
            tuple(tuple(axis for axis in axes if there[axis]) for axes in layout)
            for layout in found
        ]

    def _layout(self, path: str, rank: int) -> Layout:
        if path.startswith("[0]"):
            patterns = (dim for end, dim in self.split.items() if re.search(end, path))
            cut, axis = next(patterns, None), MODEL
        else:
            cut, axis = 0, DATA
        return tuple((axis,) if dim == cut else () for dim in range(rank))


def _numbers(chance: np.random.Generator, leaf: Any) -> Any:
    if jnp.issubdtype(leaf.dtype, jnp.integer):
        return chance.integers(0, 16, leaf.shape, dtype=np.int32)
    return (chance.standard_normal(leaf.shape) / leaf.shape[0] ** 0.5).astype(np.float32)


def _weights(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _trained(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The step that trains with plain gradient descent, as DistIR's optimizer does."""

    def step(params: Any, *data: Any) -> tuple[Any, Any]:
        value, gradients = jax.value_and_grad(loss)(params, *data)
        changed = jax.tree.map(lambda one, change: one - _RATE * change, params, gradients)
        return value, changed

    return step


def mlp(*, layers: int, width: int, batch: int) -> Program:
    """Equal layers of a product and a ReLU; every second one is cut by rows, others by columns."""

    def loss(params: Any, x: jax.Array, y: jax.Array) -> Any:
        for layer in params["layers"]:
            x = jax.nn.relu(x @ layer["even"])
            x = jax.nn.relu(x @ layer["odd"])
        return jnp.mean((x - y) ** 2)

    weight = _weights(width, width)
    layer = {"even": weight, "odd": weight}
    data = _weights(batch, width)
    return Program(
        step=_trained(loss),
        shapes=(
            {"layers": [layer] * (layers // 2)},
            data,
            data,
        ),
        layers=layers // 2,
        batch=batch,
        split={"even": 1, "odd": 0},
    )


def gpt2(*, layers: int, width: int, heads: int, batch: int, sequence: int, words: int) -> Program:
    """GPT-2's blocks with learned positions, trained to tell the next word."""
    part = width // heads

    def block(x: Any, layer: Any) -> Any:
        query, key, value = jnp.einsum("bsd,dchk->cbhsk", _norm(x, layer["first"]), layer["qkv"])
        scores = jnp.einsum("bhsk,bhtk->bhst", query, key) / part**0.5
        seen = jnp.tril(jnp.ones((sequence, sequence), bool))
        chances = jax.nn.softmax(jnp.where(seen, scores, -1e9))
        x += jnp.einsum("bhst,bhtk,hkd->bsd", chances, value, layer["out"])
        return x + jax.nn.gelu(_norm(x, layer["second"]) @ layer["up"]) @ layer["down"]

    def loss(params: Any, words: jax.Array, following: jax.Array) -> Any:
        x = params["embed"][words] + params["places"]
        for layer in params["layers"]:
            x = block(x, layer)
        chances = jax.nn.log_softmax(_norm(x, params["last"]) @ params["head"])
        return -jnp.take_along_axis(chances, following[..., None], -1).mean()

    layer = {
        "first": _weights(width),
        "qkv": _weights(width, 3, heads, part),
        "out": _weights(heads, part, width),
        "second": _weights(width),
        "up": _weights(width, 4 * width),
        "down": _weights(4 * width, width),
    }
    params = {
        "embed": _weights(words, width),
        "head": _weights(width, words),
        "last": _weights(width),
        "layers": [layer] * layers,
        "places": _weights(sequence, width),
    }
    tokens = jax.ShapeDtypeStruct((batch, sequence), jnp.int32)
    return Program(
        step=_trained(loss),
        shapes=(params, tokens, tokens),
        layers=layers,
        batch=batch,
        split={"qkv": 2, "out": 0, "up": 1, "down": 0, "head": 1},
    )


def _norm(x: Any, scale: Any) -> Any:
    middle = x - x.mean(-1, keepdims=True)
    return middle * jax.lax.rsqrt((middle**2).mean(-1, keepdims=True) + 1e-5) * scale


def programs() -> dict[str, Program]:
    """The steps by name."""
    deep = {"layers": 16, "width": 512}
    small = {"layers": 8, "width": 192, "heads": 8, "sequence": 64, "words": 512}
    return {
        **{f"MLP, batch {batch}": mlp(**deep, batch=batch) for batch in (256, 1024, 4096)},
        "GPT-2, batch 32": gpt2(**small, batch=32),
    }
