"""WideResNet: a training step of MetaDist's WideResNet (appendix A.2, table 3).

A 50-layer ResNet of bottleneck blocks with `width` channels in the place of 64, batch norm with
running statistics, SGD with momentum as in the WideResNet paper (the appendix names no optimizer).

The table gives width 448 to the models of 0.63 billion parameters and 320 to those of 1.23. Both
counts and operations (0.58 and 1.13 TFLOPs an image of 224 x 224) fit the two the other way round:
0.60 billion with 320, 1.17 with 448. So that is what the presets have. With scan, the blocks of a
stage after its first, which are alike, are scanned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from examples.forms import Step
from examples.models.common import (
    EPSILON,
    Model,
    Tree,
    apply_dense,
    dense,
    layers_of,
    norm,
    of,
    through,
)

EXPANSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Sizes of the network and of one batch, and the settings of SGD."""

    width: int
    batch: int
    image: int
    classes: int
    blocks: tuple[int, ...] = (3, 4, 6, 3)
    scan: bool = False
    learning_rate: float = 0.1
    momentum: float = 0.9
    average: float = 0.9


_SMALL = Config(width=320, batch=64, image=224, classes=1000)
PRESETS = {
    "paper": replace(_SMALL, width=448, batch=256),
    "paper_4gpu": replace(_SMALL, width=448, batch=128),
    "paper_2gpu": replace(_SMALL, batch=128),
    "paper_1gpu": _SMALL,
    "tiny": Config(width=16, batch=8, image=32, classes=32, blocks=(2, 2)),
}


def conv(kernel: jax.Array, x: jax.Array, stride: int = 1) -> jax.Array:
    """A convolution; x: [batch, height, width, channels]."""
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def batch_norm(weights: Tree, x: jax.Array) -> tuple[jax.Array, Tree]:
    """Normalise over batch and pixels; returns the batch's own statistics beside the result."""
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.mean(jnp.square(x - mean), axis=(0, 1, 2))
    normed = (x - mean) * jax.lax.rsqrt(variance + EPSILON)
    return normed * weights["scale"] + weights["bias"], {"mean": mean, "variance": variance}


def bottleneck(x: jax.Array, weights: Tree, stride: int = 1) -> tuple[jax.Array, Tree]:
    """1 x 1, 3 x 3 and 1 x 1 convolutions around a shortcut; returns their statistics too."""
    seen: Tree = {}
    hidden = x
    for name, step in (("reduce", 1), ("middle", stride), ("expand", 1)):
        hidden, seen[name] = batch_norm(
            weights[name]["norm"], conv(weights[name]["kernel"], hidden, step)
        )
        if name != "expand":
            hidden = jax.nn.relu(hidden)
    if "shortcut" in weights:
        shortcut = conv(weights["shortcut"]["kernel"], x, stride)
        x, seen["shortcut"] = batch_norm(weights["shortcut"]["norm"], shortcut)
    return jax.nn.relu(hidden + x), seen


def classify(params: Tree, images: jax.Array) -> tuple[jax.Array, Tree]:
    """images: [batch, image, image, 3] -> logits [batch, classes] and all statistics."""
    stem = params["stem"]
    x, seen_stem = batch_norm(stem["norm"], conv(stem["kernel"], images, 2))
    x = jax.lax.reduce_window(
        jax.nn.relu(x), -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
    )
    seen: Tree = {"stem": seen_stem, "stages": []}
    for index, stage in enumerate(params["stages"]):
        x, first = bottleneck(x, stage["first"], 1 if index == 0 else 2)
        x, rest = through(bottleneck, x, stage["rest"])
        seen["stages"].append({"first": first, "rest": rest})
    return apply_dense(params["head"], jnp.mean(x, axis=(1, 2))), seen


def loss(params: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
    """Mean cross-entropy, and the batch's statistics; labels: int32 [batch]."""
    logits, seen = classify(params, batch["images"])
    chosen = batch["labels"][:, None] == jnp.arange(logits.shape[-1])
    picked = jnp.sum(jnp.where(chosen, logits, 0.0), axis=-1)
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked), seen


def param_shapes(config: Config) -> Tree:
    """Stem, stages and head."""
    stages = []
    inputs = config.width
    for index, blocks in enumerate(config.blocks):
        middle = config.width * 2**index
        rest = _block_shapes(middle * EXPANSION, middle)
        stages.append(
            {
                "first": _block_shapes(inputs, middle, shortcut=True),
                "rest": layers_of(blocks - 1, rest, scan=config.scan),
            }
        )
        inputs = middle * EXPANSION
    return {
        "stem": _conv_shapes(7, 3, config.width),
        "stages": stages,
        "head": dense(inputs, config.classes),
    }


def _conv_shapes(window: int, inputs: int, outputs: int) -> Tree:
    return {"kernel": of(window, window, inputs, outputs), "norm": norm(outputs)}


def _block_shapes(inputs: int, middle: int, *, shortcut: bool = False) -> Tree:
    outputs = middle * EXPANSION
    block = {
        "reduce": _conv_shapes(1, inputs, middle),
        "middle": _conv_shapes(3, middle, middle),
        "expand": _conv_shapes(1, middle, outputs),
    }
    return {**block, "shortcut": _conv_shapes(1, inputs, outputs)} if shortcut else block


def make_step(config: Config) -> Step:
    """The jitted training step, its state donated, and its arguments."""

    def train_step(state: Tree, batch: Tree) -> tuple[Tree, jax.Array]:
        (value, seen), grads = jax.value_and_grad(loss, has_aux=True)(state["params"], batch)
        speed = jax.tree.map(lambda v, g: config.momentum * v + g, state["momentum"], grads)
        params = jax.tree.map(lambda p, v: p - config.learning_rate * v, state["params"], speed)
        kept = config.average
        statistics = jax.tree.map(
            lambda old, new: kept * old + (1 - kept) * new, state["statistics"], seen
        )
        return {"params": params, "momentum": speed, "statistics": statistics}, value

    params = param_shapes(config)
    batch = {
        "images": of(config.batch, config.image, config.image, 3),
        "labels": of(config.batch, dtype=jnp.int32),
    }
    statistics = jax.eval_shape(loss, params, batch)[1]
    state = {"params": params, "momentum": params, "statistics": statistics}
    return Step(function=jax.jit(train_step, donate_argnums=(0,)), arguments=(state, batch))


MODEL = Model(
    name="wideresnet",
    summary="MetaDist's WideResNet-50, training with SGD and momentum",
    presets=PRESETS,
    params=param_shapes,
    make_step=make_step,
    published={"paper": 1.23e9, "paper_4gpu": 1.23e9, "paper_2gpu": 0.63e9, "paper_1gpu": 0.63e9},
    has_scan=True,
)
lower = MODEL.lower
