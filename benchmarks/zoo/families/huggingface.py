"""Flax models of Hugging Face's `transformers`, any of them by the names of its classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.zoo.model import Cached, Model, class_labels, class_loss
from benchmarks.zoo.variant import Variant
from examples.libraries.common import Tree, cross_entropy, key, of, tokens
from examples.libraries.huggingface import clip_by_keyword

Settings = Mapping[str, Any]
Inputs = Mapping[str, tuple[int, ...] | jax.ShapeDtypeStruct]
_OUTPUTS = (
    *("logits", "prediction_logits", "sop_logits", "seq_relationship_logits"),
    *("start_logits", "end_logits", "logits_per_image", "logits_per_text", "pooler_output"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFace:
    """A model by its classes. `inputs` are shapes, of ids where no type is given.

    `parts` are the configurations of the models that a pair of models is made of; `depth` are the
    settings that say how many layers there are in a published one. `loss` is `classes`, `next` (of
    the token after each) or `ctc`; `prompt` and `length` are of the cache that it may have.
    """

    model: str
    config: str
    inputs: Inputs
    settings: Settings = field(default_factory=dict)
    parts: tuple[tuple[str, Settings], ...] = ()
    depth: Settings = field(default_factory=dict)
    loss: str = "classes"
    outputs: tuple[str, ...] = _OUTPUTS
    initialised: bool = False
    prompt: int = 512
    length: int = 1024

    def make(self, variant: Variant) -> Model:
        """The model for a variant."""
        made, variables = self._made(variant)
        stateful = "batch_stats" in variables
        losses = {"classes": class_loss, "next": _next_loss, "ctc": _ctc_loss}
        labels = {"classes": class_labels, "next": class_labels, "ctc": _ctc_labels}
        inputs = {
            name: tokens(*shape) if isinstance(shape, tuple) else shape
            for name, shape in self.inputs.items()
        }
        cached = "past_key_values" in inspect.signature(made.__call__).parameters
        seq2seq = hasattr(made, "decode")
        return Model(
            variables=variables if stateful else {"params": variables},
            inputs=inputs,
            apply=partial(_apply, made, stateful, self.outputs),
            loss=losses[self.loss],
            labels=labels[self.loss],
            prefill=partial(self._cached, made, variables, inputs, self.prompt) if cached else None,
            decode=partial(self._decoded if seq2seq else self._cached, made, variables, inputs, 1),
        )

    def _made(self, variant: Variant) -> tuple[Any, Tree]:
        import transformers

        settings = {**self.settings, **(self.depth if variant.deep else {})}
        config = _config(self.config, settings, self.parts)
        dtype = jnp.bfloat16 if variant.bf16 else jnp.float32
        kind = getattr(transformers, self.model)
        with clip_by_keyword():
            if self.initialised:
                return _made_of_parts(kind, config, dtype)
            made = kind(config, _do_init=False, dtype=dtype)
            if variant.policy:
                made.enable_gradient_checkpointing()
            init = partial(made.init_weights, input_shape=made.input_shape)
            return made, jax.eval_shape(init, key())

    def _cached(self, made: Any, params: Tree, inputs: Tree, count: int) -> Cached:
        """`count` tokens against a cache of `length` positions."""
        del params
        rows = inputs["input_ids"].shape[0]
        with clip_by_keyword():
            cache = jax.eval_shape(partial(made.init_cache, rows, self.length))

        def apply(variables: Tree, cache: Tree, inputs: Tree) -> tuple[Tree, Tree]:
            at = inputs["position"] + jnp.arange(count)
            mask = (jnp.arange(self.length)[None, :] < inputs["position"] + count).astype(jnp.int32)
            given = _accepted(
                made.__call__,
                input_ids=inputs["input_ids"],
                attention_mask=jnp.broadcast_to(mask, (rows, self.length)),
                position_ids=jnp.broadcast_to(at[None, :], (rows, count)),
            )
            with clip_by_keyword():
                out = made(**given, params=variables["params"], past_key_values=cache)
            return out.logits, out.past_key_values

        ids = {"input_ids": tokens(rows, count), "position": tokens()}
        return Cached(cache=cache, inputs=ids, apply=apply)

    def _decoded(self, made: Any, params: Tree, inputs: Tree, count: int) -> Cached:
        """`count` tokens of the decoder, for inputs that are encoded already."""
        given = {name: value for name, value in inputs.items() if "decoder" not in name}
        rows = next(iter(given.values())).shape[0]

        def encode(params: Tree, given: Tree) -> Tree:
            return made.encode(**_accepted(made.encode, **given), params=params)

        with clip_by_keyword():
            encoded = jax.eval_shape(encode, params, given)
            cache = jax.eval_shape(lambda out: made.init_cache(rows, self.length, out), encoded)

        def apply(variables: Tree, cache: Tree, inputs: Tree) -> tuple[Tree, Tree]:
            at = jnp.broadcast_to(inputs["position"][None, None], (rows, count))
            mask = (jnp.arange(self.length)[None, :] <= inputs["position"]).astype(jnp.int32)
            extra = _accepted(
                made.decode,
                decoder_attention_mask=jnp.broadcast_to(mask, (rows, self.length)),
                decoder_position_ids=at,
            )
            with clip_by_keyword():
                out = made.decode(
                    inputs["decoder_input_ids"],
                    inputs["encoded"],
                    **extra,
                    params=variables["params"],
                    past_key_values=cache,
                )
            return out.logits, out.past_key_values

        ids = {"decoder_input_ids": tokens(rows, count), "position": tokens(), "encoded": encoded}
        return Cached(cache=cache, inputs=ids, apply=apply)


def _made_of_parts(kind: Any, config: Any, dtype: Any) -> tuple[Any, Tree]:
    """A pair of models, which has to be made with its parameters; they are shapes here."""
    made = []

    def make() -> Tree:
        made.append(kind(config, dtype=dtype))
        return made[0].params

    variables = jax.eval_shape(make)
    return made[0], variables


def _config(name: str, settings: Settings, parts: tuple[tuple[str, Settings], ...]) -> Any:
    import transformers

    kind = getattr(transformers, name)
    if not parts:
        return kind(**settings)
    made = [getattr(transformers, part)(**own) for part, own in parts]
    joins = ("from_encoder_decoder_configs", "from_vision_text_configs", "from_text_vision_configs")
    join = next(getattr(kind, join) for join in joins if hasattr(kind, join))
    return join(*made, **settings)


def _apply(
    made: Any,
    stateful: bool,
    names: tuple[str, ...],
    variables: Tree,
    inputs: Tree,
    dropout: jax.Array | None,
) -> tuple[Tree, Tree]:
    params = variables if stateful else variables["params"]
    training = {"train": True, "dropout_rng": dropout} if dropout is not None else {}
    drawn = jax.random.PRNGKey(0) if dropout is None else dropout
    more = _accepted(made.__call__, indices_rng=drawn, **training)
    with clip_by_keyword():
        out = made(**inputs, params=params, **more)
    out, changed = out if stateful and dropout is not None else (out, {})
    found = {name: out[name] for name in names if name in out and out[name] is not None}
    return found, {name: changed[name] for name in changed if name != "params"}


def _accepted(function: Callable[..., Any], **given: Any) -> dict[str, Any]:
    """The arguments that a function takes; models differ in that."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in given.items() if name in known}


def _next_loss(outputs: Tree, labels: Tree) -> jax.Array:
    """As the scripts for language models do: the last position has no next token."""
    return cross_entropy(outputs["logits"][:, :-1], labels["logits"][:, 1:])


def _ctc_loss(outputs: Tree, labels: Tree) -> jax.Array:
    import optax

    logits = outputs["logits"]
    return jnp.mean(
        optax.ctc_loss(
            logits, jnp.zeros(logits.shape[:2]), labels, jnp.zeros(labels.shape, jnp.float32)
        )
    )


def _ctc_labels(outputs: Tree) -> Tree:
    return tokens(outputs["logits"].shape[0], 128)


def pixels(batch: int, size: int, channels: int = 3) -> jax.ShapeDtypeStruct:
    """Images with their channels first, as image processors make them."""
    return of(batch, channels, size, size)
