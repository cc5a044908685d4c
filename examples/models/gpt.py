"""GPT: a training step of MetaDist's GPT (appendix A.2, table 2), with Adam.

Four sizes, one for each number of GPUs. The published counts are those of the layers alone (12 d^2
each), so there is no embedding and no head: the model maps hidden states to hidden states. The
published operations fit a sequence of 512 exactly: 31.18 TFLOPs for each further layer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp

from examples.forms import Step
from examples.models.common import (
    Model,
    Tree,
    apply_dense,
    apply_norm,
    attend,
    dense,
    layers_of,
    merge_heads,
    norm,
    of,
    split_heads,
    through,
    training,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Sizes of the model and of one batch; the MLP is four times as wide as `d_model`."""

    layers: int
    d_model: int
    heads: int
    batch: int
    seq: int
    scan: bool = False


_FOUR = Config(layers=4, d_model=10240, heads=40, batch=8, seq=512)
PRESETS = {
    "paper": replace(_FOUR, d_model=14336, heads=56),
    "paper_4gpu": _FOUR,
    "paper_2gpu": replace(_FOUR, layers=2),
    "paper_1gpu": replace(_FOUR, layers=1),
    "tiny": Config(layers=2, d_model=64, heads=8, batch=8, seq=32),
}


def layer(heads: int, x: jax.Array, weights: Tree) -> tuple[jax.Array, None]:
    """One pre-norm layer; x: [batch, seq, d_model]."""
    normed = apply_norm(weights["attention_norm"], x)
    query, key, value = (
        split_heads(apply_dense(weights[name], normed), heads) for name in ("query", "key", "value")
    )
    position = jnp.arange(x.shape[1])
    mixed = attend(query, key, value, position[:, None] >= position[None, :])
    x = x + apply_dense(weights["output"], merge_heads(mixed))
    hidden = jax.nn.gelu(apply_dense(weights["up"], apply_norm(weights["mlp_norm"], x)))
    return x + apply_dense(weights["down"], hidden), None


def loss(config: Config, params: Tree, batch: Tree) -> jax.Array:
    """Mean squared error of the last hidden states; inputs and targets: [batch, seq, d_model]."""
    x, _ = through(partial(layer, config.heads), batch["inputs"], params["layers"])
    return jnp.mean(jnp.square(x - batch["targets"]))


def param_shapes(config: Config) -> Tree:
    """The layers, and nothing else."""
    d = config.d_model
    one = {
        "attention_norm": norm(d),
        "query": dense(d, d),
        "key": dense(d, d),
        "value": dense(d, d),
        "output": dense(d, d),
        "mlp_norm": norm(d),
        "up": dense(d, 4 * d),
        "down": dense(4 * d, d),
    }
    return {"layers": layers_of(config.layers, one, scan=config.scan)}


def make_step(config: Config) -> Step:
    """The jitted training step, its state donated, and its arguments."""
    states = of(config.batch, config.seq, config.d_model)
    batch = {"inputs": states, "targets": states}
    return training(partial(loss, config), param_shapes(config), batch)


MODEL = Model(
    name="gpt",
    summary="MetaDist's GPT, training with Adam",
    presets=PRESETS,
    params=param_shapes,
    make_step=make_step,
    published={
        "paper": 10.07e9,
        "paper_4gpu": 5.03e9,
        "paper_2gpu": 2.52e9,
        "paper_1gpu": 1.26e9,
    },
    has_scan=True,
)
lower = MODEL.lower
