"""Steps of the Flax models in Hugging Face `transformers` before version 5, at published sizes.

The models are made with `_do_init=False`, so no weights are made or downloaded. `transformers`
4.57 calls `jnp.clip` by keywords that jax has since dropped; `clip_by_keyword` puts them back
while a step is traced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from examples.forms import Step
from examples.libraries.common import (
    Tree,
    adamw,
    cross_entropy,
    key,
    of,
    tokens,
    training,
)

Settings = Mapping[str, Any]


@contextmanager
def clip_by_keyword() -> Iterator[None]:
    """Let `jnp.clip` take `a_min` and `a_max`."""
    clip = jnp.clip

    def old(x: Any, min: Any = None, max: Any = None, **bounds: Any) -> jax.Array:  # noqa: A002
        return clip(x, bounds.get("a_min", min), bounds.get("a_max", max))

    jnp.clip = old  # type: ignore[assignment]
    try:
        yield
    finally:
        jnp.clip = clip


@dataclass(frozen=True, slots=True)
class Shimmed:
    """A jitted function that is lowered with `clip_by_keyword`."""

    function: Any

    def lower(self, *arguments: Any) -> jax.stages.Lowered:
        """What `jax.jit(...).lower` returns."""
        with clip_by_keyword():
            lowered: jax.stages.Lowered = self.function.lower(*arguments)
            return lowered


def make(model: str, config: str, shape: tuple[int, ...], settings: Settings) -> tuple[Any, Tree]:
    """A model by the names of its classes, and the shapes of its parameters."""
    import transformers

    kind, settled = getattr(transformers, model), getattr(transformers, config)(**settings)
    with clip_by_keyword():
        made = kind(settled, input_shape=shape, _do_init=False)
        return made, jax.eval_shape(partial(made.init_weights, input_shape=shape), key())


def _train(loss: Any, params: Tree, batch: Tree, optimizer: Any = None) -> Step:
    step = training(loss, params, batch, optimizer or adamw())
    return Step(function=Shimmed(step.function), arguments=step.arguments)


def causal(
    model: str, config: str, batch: int, seq: int, settings: Settings, extras: bool = False
) -> Step:
    """Training of a causal language model on `seq` + 1 tokens, of which the first `seq` go in."""
    made, params = make(model, config, (1, 8), settings)

    def loss(params: Tree, batch: Tree, dropout_key: jax.Array) -> jax.Array:
        ids = batch["input_ids"]
        more = {"dropout_rng": dropout_key, "train": True} if not extras else {}
        logits = made(ids[:, :-1], params=params, **more).logits
        return cross_entropy(logits, ids[:, 1:])

    return _train(loss, params, {"input_ids": tokens(batch, seq + 1)})


def gpt2(batch: int, seq: int, **settings: Any) -> Step:
    """GPT-2 with dropout."""
    return causal("FlaxGPT2LMHeadModel", "GPT2Config", batch, seq, settings)


def llama(batch: int, seq: int, **settings: Any) -> Step:
    """Llama; it has no dropout."""
    return causal("FlaxLlamaForCausalLM", "LlamaConfig", batch, seq, settings, extras=True)


def llama_decode(batch: int, cache: int, **settings: Any) -> Step:
    """One token of Llama against a cache of `cache` positions."""
    made, params = make("FlaxLlamaForCausalLM", "LlamaConfig", (1, 8), settings)
    past = jax.eval_shape(partial(made.init_cache, batch, cache))

    def decode(params: Tree, past: Tree, ids: jax.Array, position: jax.Array) -> Any:
        mask = (jnp.arange(cache)[None, :] <= position).astype(jnp.int32)
        out = made(
            ids,
            attention_mask=jnp.broadcast_to(mask, (batch, cache)),
            position_ids=jnp.broadcast_to(position, (batch, 1)),
            params=params,
            past_key_values=past,
        )
        return jnp.argmax(out.logits[:, -1], axis=-1), out.past_key_values

    return Step(
        function=jax.jit(decode, donate_argnums=(1,)),
        arguments=(params, past, tokens(batch, 1), tokens()),
    )


def gpt2_generate(batch: int, prompt: int, new: int, **settings: Any) -> Step:
    """`generate` of GPT-2: the prompt, then a loop that ends when all sequences have."""
    made, params = make("FlaxGPT2LMHeadModel", "GPT2Config", (1, 8), settings)

    def generate(params: Tree, ids: jax.Array) -> jax.Array:
        return made.generate(
            ids, params=params, max_new_tokens=new, do_sample=False, pad_token_id=0
        ).sequences

    return Step(function=jax.jit(generate), arguments=(params, tokens(batch, prompt)))


def bert(batch: int, seq: int, **settings: Any) -> Step:
    """BERT on masked language modelling; positions with label -100 do not count."""
    made, params = make("FlaxBertForMaskedLM", "BertConfig", (1, 8), settings)

    def loss(params: Tree, batch: Tree, dropout_key: jax.Array) -> jax.Array:
        import optax

        logits = made(
            batch["input_ids"],
            attention_mask=batch["attention_mask"],
            params=params,
            dropout_rng=dropout_key,
            train=True,
        ).logits
        masked = batch["labels"] >= 0
        each = optax.softmax_cross_entropy_with_integer_labels(
            logits, jnp.where(masked, batch["labels"], 0)
        )
        return (each * masked).sum() / masked.sum()

    names = ("input_ids", "attention_mask", "labels")
    return _train(loss, params, {name: tokens(batch, seq) for name in names})


def t5(batch: int, seq: int, target: int, **settings: Any) -> Step:
    """T5 with Adafactor, as it was trained."""
    import optax

    made, params = make("FlaxT5ForConditionalGeneration", "T5Config", (1, 8), settings)

    def loss(params: Tree, batch: Tree, dropout_key: jax.Array) -> jax.Array:
        logits = made(
            **{name: value for name, value in batch.items() if name != "labels"},
            params=params,
            dropout_rng=dropout_key,
            train=True,
        ).logits
        return cross_entropy(logits, batch["labels"])

    data = {
        "input_ids": tokens(batch, seq),
        "attention_mask": tokens(batch, seq),
        "decoder_input_ids": tokens(batch, target),
        "labels": tokens(batch, target),
    }
    return _train(loss, params, data, optax.adafactor(1e-3))


def whisper(batch: int, target: int, frames: int = 3000, **settings: Any) -> Step:
    """Whisper on log-mel features [batch, mels, frames] and transcripts [batch, target]."""
    mels = int(settings.get("num_mel_bins", 80))
    made, params = make(
        "FlaxWhisperForConditionalGeneration", "WhisperConfig", (1, mels, frames), settings
    )

    def loss(params: Tree, batch: Tree, dropout_key: jax.Array) -> jax.Array:
        logits = made(
            batch["input_features"],
            decoder_input_ids=batch["decoder_input_ids"],
            params=params,
            dropout_rng=dropout_key,
            train=True,
        ).logits
        return cross_entropy(logits, batch["labels"])

    data = {
        "input_features": of(batch, mels, frames),
        "decoder_input_ids": tokens(batch, target),
        "labels": tokens(batch, target),
    }
    return _train(loss, params, data)


def vit(batch: int, labels: int = 1000, **settings: Any) -> Step:
    """ViT on images [batch, height, width, 3]."""
    size = int(settings.get("image_size", 224))
    made, params = make(
        "FlaxViTForImageClassification",
        "ViTConfig",
        (1, size, size, 3),
        {**settings, "num_labels": labels},
    )

    def loss(params: Tree, batch: Tree, dropout_key: jax.Array) -> jax.Array:
        # The model wants channels first, as its image processor makes them.
        logits = made(
            jnp.transpose(batch["pixel_values"], (0, 3, 1, 2)),
            params=params,
            dropout_rng=dropout_key,
            train=True,
        ).logits
        return cross_entropy(logits, batch["labels"])

    return _train(loss, params, {"pixel_values": of(batch, size, size, 3), "labels": tokens(batch)})


def resnet(batch: int, size: int = 224, labels: int = 1000, **settings: Any) -> Step:
    """ResNet with batch normalisation, SGD with momentum and weight decay."""
    import optax

    made, variables = make(
        "FlaxResNetForImageClassification",
        "ResNetConfig",
        (1, size, size, 3),
        {**settings, "num_labels": labels},
    )
    optimizer = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(0.1, 0.9, nesterov=True))

    def loss(params: Tree, statistics: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
        out, changed = made(
            jnp.transpose(batch["pixel_values"], (0, 3, 1, 2)),
            params={"params": params, "batch_stats": statistics},
            train=True,
        )
        return cross_entropy(out.logits, batch["labels"]), changed["batch_stats"]

    def train_step(state: Tree, batch: Tree) -> tuple[Tree, jax.Array]:
        params = state["params"]
        (value, statistics), grads = jax.value_and_grad(loss, has_aux=True)(
            params, state["batch_stats"], batch
        )
        updates, opt_state = optimizer.update(grads, state["opt_state"], params)
        params = optax.apply_updates(params, updates)
        return {"params": params, "batch_stats": statistics, "opt_state": opt_state}, value

    params = variables["params"]
    state = {**variables, "opt_state": jax.eval_shape(optimizer.init, params)}
    data = {"pixel_values": of(batch, size, size, 3), "labels": tokens(batch)}
    return Step(function=jax.jit(train_step, donate_argnums=(0,)), arguments=(state, data))
