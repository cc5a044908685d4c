"""Language models in `flax.linen`, in the manner of flax's examples and of published ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.ad_checkpoint import checkpoint_name

from benchmarks.zoo.families.linen import shifted

SAVED = ("attended",)
"""The names that `save_only_these_names` keeps, and its opposite does not."""


def checkpointed(block: type[nn.Module], policy: str) -> type[nn.Module]:
    """The block recomputed in the backward pass, but for what the policy saves."""
    if not policy:
        return block
    chosen = getattr(jax.checkpoint_policies, policy)
    named = policy.endswith("names")
    return nn.remat(
        block, policy=chosen(*SAVED) if named else chosen, prevent_cse=False, static_argnums=(2,)
    )


class Mlp(nn.Module):
    """Up, a non-linearity, down, with dropout."""

    hidden: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        width = x.shape[-1]
        x = nn.relu(nn.Dense(self.hidden)(x))
        x = nn.Dropout(0.1, deterministic=not train)(x)
        return nn.Dense(width)(x)


class DecoderBlock(nn.Module):
    """Causal attention and an MLP; the carry of a scan over layers."""

    heads: int
    hidden: int
    decode: bool

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> tuple[jax.Array, None]:
        mask = None if self.decode else nn.make_causal_mask(jnp.ones(x.shape[:2]))
        attention = nn.MultiHeadDotProductAttention(
            self.heads, dropout_rate=0.1, deterministic=not train, decode=self.decode
        )
        x = x + checkpoint_name(attention(nn.LayerNorm()(x), mask=mask), "attended")
        return x + Mlp(self.hidden)(nn.LayerNorm()(x), train), None


class ScannedDecoder(nn.Module):
    """A language model whose layers are scanned over, as in flax's lm1b."""

    vocabulary: int
    width: int
    heads: int
    hidden: int
    layers: int
    policy: str = ""
    decode: bool = False

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        embed = nn.Embed(self.vocabulary, self.width)
        x = embed(ids if self.decode else shifted(ids))
        place = self.param("places", nn.initializers.normal(0.02), (2048, self.width))
        x = x + (place[:1] if self.decode else place[: ids.shape[1]])
        scanned = nn.scan(
            checkpointed(DecoderBlock, self.policy),
            variable_axes={"params": 0, "cache": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=nn.broadcast,
            length=self.layers,
        )
        x, _ = scanned(self.heads, self.hidden, self.decode)(x, train)
        return embed.attend(nn.LayerNorm()(x))


class CrossBlock(nn.Module):
    """A block of a decoder that also reads an encoder's output."""

    heads: int
    hidden: int

    @nn.compact
    def __call__(self, x: jax.Array, memory: jax.Array, train: bool) -> jax.Array:
        mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
        own = nn.MultiHeadDotProductAttention(self.heads, deterministic=not train)
        x = x + own(nn.LayerNorm()(x), mask=mask)
        cross = nn.MultiHeadDotProductAttention(self.heads, deterministic=not train)
        x = x + cross(nn.LayerNorm()(x), memory)
        return x + Mlp(self.hidden)(nn.LayerNorm()(x), train)


class Translator(nn.Module):
    """An encoder and a decoder that share one embedding, as in flax's wmt."""

    vocabulary: int
    width: int
    heads: int
    hidden: int
    layers: int

    @nn.compact
    def __call__(self, source: jax.Array, target: jax.Array, train: bool) -> jax.Array:
        embed = nn.Embed(self.vocabulary, self.width)
        x, present = embed(source), source > 0
        for _ in range(self.layers):
            attention = nn.MultiHeadDotProductAttention(self.heads, deterministic=not train)
            x = x + attention(nn.LayerNorm()(x), mask=nn.make_attention_mask(present, present))
            x = x + Mlp(self.hidden)(nn.LayerNorm()(x), train)
        memory, y = nn.LayerNorm()(x), embed(shifted(target))
        for _ in range(self.layers):
            y = CrossBlock(self.heads, self.hidden)(y, memory, train)
        return embed.attend(nn.LayerNorm()(y))


def rotated(x: jax.Array) -> jax.Array:
    """Rotary positions; x: [batch, seq, heads, size]."""
    half = x.shape[-1] // 2
    rates = 10_000.0 ** (-jnp.arange(half) / half)
    angles = jnp.arange(x.shape[1])[:, None] * rates
    sin, cos = jnp.sin(angles)[:, None, :], jnp.cos(angles)[:, None, :]
    one, other = x[..., :half], x[..., half:]
    return jnp.concatenate([one * cos - other * sin, other * cos + one * sin], -1).astype(x.dtype)


class GroupedBlock(nn.Module):
    """Grouped queries and a gated MLP, side by side behind one norm, in a sliding window."""

    heads: int
    groups: int
    size: int
    hidden: int
    window: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        normed = nn.RMSNorm()(x)
        query = rotated(nn.DenseGeneral((self.heads, self.size), use_bias=False)(normed))
        one, other = (
            nn.DenseGeneral((self.groups, self.size), use_bias=False)(normed) for _ in range(2)
        )
        query = query.reshape(*x.shape[:2], self.groups, -1, self.size)
        scores = jnp.einsum("bqgrd,bkgd->bgrqk", query, rotated(one)) / self.size**0.5
        place = jnp.arange(x.shape[1])
        apart = place[:, None] - place[None, :]
        seen = (apart >= 0) & (apart < self.window)
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e9).astype(jnp.float32), axis=-1)
        mixed = jnp.einsum("bgrqk,bkgd->bqgrd", weights.astype(x.dtype), other)
        mixed = mixed.reshape(*x.shape[:2], self.heads, self.size)
        out = nn.DenseGeneral(x.shape[-1], axis=(-2, -1), use_bias=False)(mixed)
        gate, up = (nn.Dense(self.hidden, use_bias=False)(normed) for _ in range(2))
        down = nn.Dense(x.shape[-1], use_bias=False)(nn.silu(gate) * up)
        return x + nn.Dropout(0.1, deterministic=not train)(out + down)


class GroupedDecoder(nn.Module):
    """A decoder of `GroupedBlock`s with its own output matrix."""

    vocabulary: int
    width: int
    heads: int
    groups: int
    size: int
    hidden: int
    window: int
    layers: int
    policy: str = ""

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        x = nn.Embed(self.vocabulary, self.width)(shifted(ids))
        block = checkpointed(GroupedBlock, self.policy)
        for _ in range(self.layers):
            x = block(self.heads, self.groups, self.size, self.hidden, self.window)(x, train)
        return nn.Dense(self.vocabulary, use_bias=False)(nn.RMSNorm()(x))


class Experts(nn.Module):
    """A mixture of experts: each token goes to its best one, as far as that has room."""

    experts: int
    hidden: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        rows, seq, width = x.shape
        room = 2 * seq // self.experts
        chances = jax.nn.softmax(nn.Dense(self.experts)(x).astype(jnp.float32))
        best = jax.nn.one_hot(jnp.argmax(chances, -1), self.experts)
        place = jnp.cumsum(best, axis=1) * best - 1
        sent = jax.nn.one_hot(place.astype(jnp.int32), room) * best[..., None]
        up = self.param(
            "up", nn.initializers.lecun_normal(), (self.experts, width, self.hidden)
        ).astype(x.dtype)
        down = self.param(
            "down", nn.initializers.lecun_normal(), (self.experts, self.hidden, width)
        ).astype(x.dtype)
        inside = jnp.einsum("bsec,bsd->ebcd", sent.astype(x.dtype), x)
        hidden = nn.gelu(jnp.einsum("ebcd,edh->ebch", inside, up))
        outside = jnp.einsum("ebch,ehd->ebcd", hidden, down)
        weighted = (sent * jnp.max(chances, -1)[..., None, None]).astype(x.dtype)
        return jnp.einsum("bsec,ebcd->bsd", weighted, outside).reshape(rows, seq, width)


class ExpertDecoder(nn.Module):
    """A decoder in which every second MLP is a mixture of experts."""

    vocabulary: int
    width: int
    heads: int
    hidden: int
    experts: int
    layers: int

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        embed = nn.Embed(self.vocabulary, self.width)
        x = embed(shifted(ids))
        for layer in range(self.layers):
            x, _ = DecoderBlock(self.heads, self.hidden, False)(x, train)
            if layer % 2:
                x = x + Experts(self.experts, self.hidden)(nn.LayerNorm()(x))
        return embed.attend(nn.LayerNorm()(x))


class Retention(nn.Module):
    """Linear attention in chunks: within a chunk by products, between chunks by a scan."""

    heads: int
    chunk: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        rows, seq, width = x.shape
        size = width // self.heads
        query, one, other = (
            nn.DenseGeneral((self.heads, size), use_bias=False)(x) for _ in range(3)
        )
        shape = (rows, seq // self.chunk, self.chunk, self.heads, size)
        parts = [jnp.moveaxis(y.reshape(shape), 1, 0) for y in (nn.elu(query) + 1, one, other)]
        seen = jnp.tril(jnp.ones((self.chunk, self.chunk), x.dtype))

        def step(state: jax.Array, part: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
            query, one, other = part
            near = jnp.einsum("bqhd,bkhd->bhqk", query, one) * seen
            out = jnp.einsum("bhqk,bkhd->bqhd", near, other)
            out = out + jnp.einsum("bqhd,bhde->bqhe", query, state)
            return 0.9 * state + jnp.einsum("bkhd,bkhe->bhde", one, other), out

        state = jnp.zeros((rows, self.heads, size, size), x.dtype)
        _, out = jax.lax.scan(step, state, parts)
        mixed = jnp.moveaxis(out, 0, 1).reshape(rows, seq, width)
        return nn.Dense(width)(nn.LayerNorm()(mixed))


class RetentiveDecoder(nn.Module):
    """A language model of `Retention` and gated MLPs."""

    vocabulary: int
    width: int
    heads: int
    chunk: int
    layers: int

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        x = nn.Embed(self.vocabulary, self.width)(shifted(ids))
        for _ in range(self.layers):
            x = x + Retention(self.heads, self.chunk)(nn.LayerNorm()(x))
            x = x + Mlp(4 * self.width)(nn.LayerNorm()(x), train)
        return nn.Dense(self.vocabulary)(nn.LayerNorm()(x))


class Perceiver(nn.Module):
    """A few latents read a long input by cross-attention, then attend to themselves."""

    latents: int
    width: int
    heads: int
    layers: int
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        x = nn.Dense(self.width)(x)
        start = self.param("latents", nn.initializers.normal(0.02), (self.latents, self.width))
        z = jnp.broadcast_to(start.astype(x.dtype), (x.shape[0], self.latents, self.width))
        read = nn.MultiHeadDotProductAttention(1, deterministic=not train)
        z = z + read(nn.LayerNorm()(z), nn.LayerNorm()(x))
        for _ in range(self.layers):
            attention = nn.MultiHeadDotProductAttention(self.heads, deterministic=not train)
            z = z + attention(nn.LayerNorm()(z))
            z = z + Mlp(4 * self.width)(nn.LayerNorm()(z), train)
        return nn.Dense(self.classes)(z.mean(axis=1))


class GatedMlpText(nn.Module):
    """Layers without attention: an MLP whose gate is a product over the positions (gMLP)."""

    vocabulary: int
    width: int
    hidden: int
    layers: int

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        del train
        x = nn.Embed(self.vocabulary, self.width)(ids)
        for _ in range(self.layers):
            y = nn.gelu(nn.Dense(self.hidden)(nn.LayerNorm()(x)))
            kept, gate = jnp.split(y, 2, axis=-1)
            gate = nn.Dense(ids.shape[1])(nn.LayerNorm()(gate).swapaxes(1, 2)).swapaxes(1, 2)
            x = x + nn.Dense(self.width)(kept * gate)
        return nn.Dense(self.vocabulary)(nn.LayerNorm()(x))


class Mixture(nn.Module):
    """Experts that all see all tokens; what the gate does not rate among its two best is zero."""

    hidden: int
    experts: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        gate = nn.softmax(nn.Dense(self.experts, use_bias=False)(x))
        best, _ = jax.lax.top_k(gate, 2)
        gate = jnp.where(gate >= best[..., 1:], gate, 0.0).astype(x.dtype)
        lecun, width = nn.initializers.lecun_normal(), x.shape[-1]
        up = self.param("up", lecun, (self.experts, width, self.hidden))
        down = self.param("down", lecun, (self.experts, self.hidden, width))
        hidden = nn.silu(jnp.einsum("bsd,edh->bseh", x, up.astype(x.dtype))) * gate[..., None]
        return jnp.einsum("bseh,ehd->bsd", hidden, down.astype(x.dtype))


class MixtureText(nn.Module):
    """A decoder whose MLPs are mixtures of experts."""

    vocabulary: int
    width: int
    heads: int
    hidden: int
    experts: int
    layers: int

    @nn.compact
    def __call__(self, ids: jax.Array, train: bool) -> jax.Array:
        x = nn.Embed(self.vocabulary, self.width)(ids)
        mask = nn.make_causal_mask(ids)
        for _ in range(self.layers):
            attention = nn.MultiHeadDotProductAttention(self.heads, deterministic=not train)
            x = x + attention(nn.RMSNorm()(x), mask=mask)
            x = x + Mixture(self.hidden, self.experts)(nn.RMSNorm()(x))
        return nn.Dense(self.vocabulary, use_bias=False)(nn.RMSNorm()(x))
