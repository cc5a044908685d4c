"""A training step of the Flax U-Net in `diffusers`: predict the noise in latents."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from examples.forms import Step
from examples.libraries.common import Builder, Tree, adamw, key, of, tokens, training


def unet(batch: int, words: int, **settings: Any) -> Step:
    """Latents [batch, 4, size, size], conditioned on [batch, words, cross_attention_dim]."""
    import diffusers

    model = diffusers.FlaxUNet2DConditionModel(**settings)
    params = jax.eval_shape(model.init_weights, key())
    latents = of(batch, model.in_channels, model.sample_size, model.sample_size)

    def loss(params: Tree, batch: Tree, dropout_key: jax.Array) -> jax.Array:
        predicted = model.apply(
            {"params": params},
            batch["noisy"],
            batch["timesteps"],
            batch["text"],
            train=True,
            rngs={"dropout": dropout_key},
        ).sample
        return jnp.mean(jnp.square(predicted - batch["noise"]))

    data = {
        "noisy": latents,
        "noise": latents,
        "timesteps": tokens(batch),
        "text": of(batch, words, model.cross_attention_dim),
    }
    return training(loss, params, data, adamw())


_TINY = {
    "sample_size": 16,
    "block_out_channels": (32, 64),
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "layers_per_block": 1,
    "attention_head_dim": 8,
    "cross_attention_dim": 48,
}
BUILDERS = (
    Builder(
        name="diffusers_unet",
        summary="the U-Net of Stable Diffusion, training",
        needs=("diffusers", "flax", "optax"),
        presets={"tiny": partial(unet, 8, 12, **_TINY), "default": partial(unet, 16, 77)},
    ),
)
