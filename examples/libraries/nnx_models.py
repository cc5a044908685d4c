"""A transformer in `flax.nnx`, trained with `nnx.Optimizer` under `nnx.jit`."""

from __future__ import annotations

from functools import partial
from typing import Any

from examples.forms import Step
from examples.libraries.common import Builder, adamw, cross_entropy, tokens


def make_classes() -> Any:
    """The model's class; made in a function, for `flax` may not be there."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    class Block(nnx.Module):
        """Attention and an MLP, each behind a norm; x: [batch, seq, d_model]."""

        def __init__(self, d_model: int, heads: int, rngs: Any) -> None:
            self.norm = nnx.LayerNorm(d_model, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(
                heads, d_model, dropout_rate=0.1, decode=False, rngs=rngs
            )
            self.mlp_norm = nnx.LayerNorm(d_model, rngs=rngs)
            self.up = nnx.Linear(d_model, 4 * d_model, rngs=rngs)
            self.down = nnx.Linear(4 * d_model, d_model, rngs=rngs)
            self.dropout = nnx.Dropout(0.1, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            mask = nnx.make_causal_mask(jnp.ones(x.shape[:2]))
            x = x + self.attention(self.norm(x), mask=mask)
            hidden = jax.nn.gelu(self.up(self.mlp_norm(x)))
            return x + self.dropout(self.down(hidden))

    class Transformer(nnx.Module):
        """Token ids [batch, seq] to logits [batch, seq, vocabulary]."""

        def __init__(
            self, vocabulary: int, d_model: int, heads: int, layers: int, rngs: Any
        ) -> None:
            self.embed = nnx.Embed(vocabulary, d_model, rngs=rngs)
            self.blocks = nnx.List([Block(d_model, heads, rngs) for _ in range(layers)])
            self.norm = nnx.LayerNorm(d_model, rngs=rngs)

        def __call__(self, ids: jax.Array) -> jax.Array:
            x = self.embed(ids)
            for block in self.blocks:
                x = block(x)
            return self.embed.attend(self.norm(x))

    return Transformer


def transformer(batch: int, seq: int, **sizes: int) -> Step:
    """The training step (model, optimizer, ids) -> loss; both change in place."""
    from flax import nnx

    made = make_classes()

    def build() -> tuple[Any, Any]:
        model = made(**sizes, rngs=nnx.Rngs(0))
        model.train()
        return model, nnx.Optimizer(model, adamw(), wrt=nnx.Param)

    model, optimizer = nnx.eval_shape(build)

    def loss(model: Any, ids: Any) -> Any:
        return cross_entropy(model(ids[:, :-1]), ids[:, 1:])

    def train_step(model: Any, optimizer: Any, ids: Any) -> Any:
        value, grads = nnx.value_and_grad(loss)(model, ids)
        optimizer.update(model, grads)
        return value

    return Step(
        function=nnx.jit(train_step, donate_argnums=(0, 1)),
        arguments=(model, optimizer, tokens(batch, seq + 1)),
    )


BUILDERS = (
    Builder(
        name="nnx_transformer",
        summary="a transformer in flax.nnx with nnx.Optimizer",
        needs=("flax", "optax"),
        presets={
            "tiny": partial(transformer, 8, 32, vocabulary=256, d_model=64, heads=8, layers=2),
            "default": partial(
                transformer, 16, 512, vocabulary=32000, d_model=1024, heads=16, layers=8
            ),
        },
    ),
)
