"""U-Net: a training step of a diffusion U-Net with Adam (TOAST section 5.1).

9 residual down-sampling blocks (three on each of three resolutions), a residual block, a 32-head
attention layer and a residual block in the middle, 12 residual up-sampling blocks (four on each
resolution, each with a skip connection), group norm, and the noise prediction loss of diffusion.

The paper states 3.6 billion parameters and no widths: 896 channels, doubled at each resolution,
give 3.66 billion. Images of 64 x 64 and a batch of 64 are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from examples.forms import Step
from examples.models.common import (
    EPSILON,
    Model,
    Tree,
    apply_dense,
    attend,
    dense,
    merge_heads,
    norm,
    of,
    split_heads,
    training,
)

TIMESTEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Sizes; level i has `channels * widen[i]` channels at `image / 2**i` pixels a side."""

    channels: int
    batch: int
    image: int
    colours: int = 3
    widen: tuple[int, ...] = (1, 2, 4)
    down_blocks: int = 3
    up_blocks: int = 4
    groups: int = 32
    heads: int = 32


PRESETS = {
    "paper": Config(channels=896, batch=64, image=64),
    "tiny": Config(
        channels=16,
        batch=8,
        image=16,
        colours=4,
        widen=(1, 2),
        down_blocks=2,
        up_blocks=3,
        groups=8,
        heads=8,
    ),
}


def conv(weights: Tree, x: jax.Array, stride: int = 1) -> jax.Array:
    """A convolution with bias; x: [batch, height, width, channels]."""
    out = jax.lax.conv_general_dilated(
        x,
        weights["kernel"],
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return out + weights["bias"]


def group_norm(groups: int, weights: Tree, x: jax.Array) -> jax.Array:
    """Normalise over the pixels and channels of each group; x: [batch, h, w, channels]."""
    batch, height, width, channels = x.shape
    grouped = x.reshape(batch, height, width, groups, channels // groups)
    mean = jnp.mean(grouped, axis=(1, 2, 4), keepdims=True)
    variance = jnp.mean(jnp.square(grouped - mean), axis=(1, 2, 4), keepdims=True)
    normed = ((grouped - mean) * jax.lax.rsqrt(variance + EPSILON)).reshape(x.shape)
    return normed * weights["scale"] + weights["bias"]


def residual(groups: int, weights: Tree, x: jax.Array, time: jax.Array) -> jax.Array:
    """Two convolutions around the embedding of the time step; time: [batch, 4 * channels]."""
    hidden = conv(weights["first"], jax.nn.silu(group_norm(groups, weights["norm1"], x)))
    hidden = hidden + apply_dense(weights["time"], jax.nn.silu(time))[:, None, None, :]
    hidden = conv(weights["second"], jax.nn.silu(group_norm(groups, weights["norm2"], hidden)))
    return hidden + (apply_dense(weights["skip"], x) if "skip" in weights else x)


def attention(config: Config, weights: Tree, x: jax.Array) -> jax.Array:
    """Every pixel attends to every other; x: [batch, h, w, channels]."""
    normed = group_norm(config.groups, weights["norm"], x)
    flat = normed.reshape(x.shape[0], -1, x.shape[-1])
    query, key, value = (
        split_heads(apply_dense(weights[name], flat), config.heads)
        for name in ("query", "key", "value")
    )
    mixed = merge_heads(attend(query, key, value))
    return x + apply_dense(weights["output"], mixed).reshape(x.shape)


def enlarge(x: jax.Array) -> jax.Array:
    """Twice as many pixels a side, by the nearest one."""
    batch, height, width, channels = x.shape
    x = jnp.broadcast_to(x[:, :, None, :, None, :], (batch, height, 2, width, 2, channels))
    return x.reshape(batch, 2 * height, 2 * width, channels)


def embed_time(config: Config, params: Tree, time: jax.Array) -> jax.Array:
    """Sines and cosines of the time step, through two layers; time: int32 [batch]."""
    half = config.channels // 2
    frequency = 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = time.astype(jnp.float32)[:, None] * frequency[None, :]
    waves = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
    return apply_dense(params["time2"], jax.nn.silu(apply_dense(params["time1"], waves)))


def predict(config: Config, params: Tree, x: jax.Array, time: jax.Array) -> jax.Array:
    """The noise in x: [batch, image, image, colours]."""
    time = embed_time(config, params, time)
    block = partial(residual, config.groups)
    x = conv(params["inputs"], x)
    skips = [x]
    for level in params["down"]:
        for weights in level["blocks"]:
            x = block(weights, x, time)
            skips.append(x)
        if "resample" in level:
            x = conv(level["resample"], x, stride=2)
            skips.append(x)
    x = block(params["middle1"], x, time)
    x = attention(config, params["attention"], x)
    x = block(params["middle2"], x, time)
    for level in params["up"]:
        for weights in level["blocks"]:
            x = block(weights, jnp.concatenate([x, skips.pop()], axis=-1), time)
        if "resample" in level:
            x = conv(level["resample"], enlarge(x))
    x = jax.nn.silu(group_norm(config.groups, params["norm"], x))
    return conv(params["outputs"], x)


def loss(config: Config, params: Tree, batch: Tree) -> jax.Array:
    """Mean squared error of the predicted noise under a cosine schedule."""
    progress = batch["time"].astype(jnp.float32) / TIMESTEPS
    kept = jnp.square(jnp.cos(progress * (jnp.pi / 2)))[:, None, None, None]
    noisy = jnp.sqrt(kept) * batch["images"] + jnp.sqrt(1.0 - kept) * batch["noise"]
    return jnp.mean(jnp.square(predict(config, params, noisy, batch["time"]) - batch["noise"]))


def conv_shapes(inputs: int, outputs: int) -> Tree:
    """A 3 x 3 convolution's kernel and bias."""
    return {"kernel": of(3, 3, inputs, outputs), "bias": of(outputs)}


def residual_shapes(inputs: int, outputs: int, time: int) -> Tree:
    """A residual block's parameters."""
    block = {
        "norm1": norm(inputs),
        "first": conv_shapes(inputs, outputs),
        "time": dense(time, outputs),
        "norm2": norm(outputs),
        "second": conv_shapes(outputs, outputs),
    }
    return block if inputs == outputs else {**block, "skip": dense(inputs, outputs)}


def param_shapes(config: Config) -> Tree:
    """The parameters, level by level in the order in which they run."""
    time = 4 * config.channels
    widths = [config.channels * factor for factor in config.widen]
    down, skips = _down_shapes(config, widths, time)
    top = widths[-1]
    attention_shapes = {name: dense(top, top) for name in ("query", "key", "value", "output")}
    return {
        "time1": dense(config.channels, time),
        "time2": dense(time, time),
        "inputs": conv_shapes(config.colours, config.channels),
        "down": down,
        "middle1": residual_shapes(top, top, time),
        "attention": {"norm": norm(top), **attention_shapes},
        "middle2": residual_shapes(top, top, time),
        "up": _up_shapes(config, widths, time, skips),
        "norm": norm(config.channels),
        "outputs": conv_shapes(config.channels, config.colours),
    }


def _down_shapes(config: Config, widths: list[int], time: int) -> tuple[list[Tree], list[int]]:
    """The levels on the way down, and the channels of every skip connection."""
    levels: list[Tree] = []
    inputs = config.channels
    skips = [inputs]
    for width in widths:
        blocks = []
        for _ in range(config.down_blocks):
            blocks.append(residual_shapes(inputs, width, time))
            inputs = width
            skips.append(width)
        levels.append({"blocks": blocks})
        if len(levels) < len(widths):
            levels[-1]["resample"] = conv_shapes(width, width)
            skips.append(width)
    return levels, skips


def _up_shapes(config: Config, widths: list[int], time: int, skips: list[int]) -> list[Tree]:
    levels: list[Tree] = []
    inputs, left = widths[-1], list(skips)
    for width in reversed(widths):
        blocks = []
        for _ in range(config.up_blocks):
            blocks.append(residual_shapes(inputs + left.pop(), width, time))
            inputs = width
        levels.append({"blocks": blocks})
        if len(levels) < len(widths):
            levels[-1]["resample"] = conv_shapes(width, width)
    return levels


def make_step(config: Config) -> Step:
    """The jitted training step, its state donated, and its arguments."""
    images = of(config.batch, config.image, config.image, config.colours)
    time = of(config.batch, dtype=jnp.int32)
    batch = {"images": images, "noise": images, "time": time}
    return training(partial(loss, config), param_shapes(config), batch)


MODEL = Model(
    name="unet",
    summary="diffusion U-Net, training with Adam",
    presets=PRESETS,
    params=param_shapes,
    make_step=make_step,
    published={"paper": 3.6e9},
    has_scan=False,
)
lower = MODEL.lower
