"""Recurrent nets: many small products in turn, whose weights a TPU may keep on the chip.

Each device has all texts. Gates have weights of their own, as in `flax.linen`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Probe, cycles
from benchmarks.probes.programs import lowered_of

Weights = list[tuple[jax.Array, jax.Array]]
"""For each gate those of what is read and of what is carried."""
Net = Callable[[Weights, jax.Array], jax.Array]
TEXTS, LENGTH, WIDTHS = 8, 64, (512, 768)


def lstm(gates: Weights, x: jax.Array) -> jax.Array:
    """What an LSTM carries behind its last step. x: [length, texts, width]."""

    def step(
        carried: tuple[jax.Array, jax.Array], x: jax.Array
    ) -> tuple[tuple[jax.Array, ...], None]:
        cell, hidden = carried
        read, forget, write, new = (x @ a + hidden @ b for a, b in gates)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(read) * jnp.tanh(new)
        return (cell, jax.nn.sigmoid(write) * jnp.tanh(cell)), None

    start = jnp.zeros_like(x[0])
    return jax.lax.scan(step, (start, start), x)[0][1]


def gru(gates: Weights, x: jax.Array) -> jax.Array:
    """What a GRU carries behind its last step. x: [length, texts, width]."""

    def step(hidden: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        (reset, a), (update, b), (new, c) = gates
        kept = jax.nn.sigmoid(x @ update + hidden @ b)
        made = jnp.tanh(x @ new + jax.nn.sigmoid(x @ reset + hidden @ a) * (hidden @ c))
        return kept * hidden + (1 - kept) * made, None

    return jax.lax.scan(step, jnp.zeros_like(x[0]), x)[0]


NETS: dict[str, tuple[Net, int]] = {"LSTM": (lstm, 4), "GRU": (gru, 3)}
"""Each net and its gates."""


def trained(net: Net, gates: Weights, x: jax.Array) -> Weights:
    """The gradients of the weights."""
    return jax.grad(lambda gates: jnp.sum(jnp.square(net(gates, x))))(gates)


def _case(name: str, width: int, *, training: bool) -> Case:
    net, gates = NETS[name]
    weight = jax.ShapeDtypeStruct((width, width), jnp.float32)
    x = jax.ShapeDtypeStruct((LENGTH, TEXTS, width), jnp.float32)
    step = partial(trained, net) if training else net
    return Case.of(partial(lowered_of, step, [(weight, weight)] * gates, x), cycles)


PROBE = Probe(
    name="recurrent",
    figures="cycles of a recurrent net over 64 steps of 8 texts",
    targets=("tpu-v5e:2x4",),
    cases={
        f"{name} of {width}, {word}": _case(name, width, training=word == "gradients")
        for name in NETS
        for width in WIDTHS
        for word in ("forward", "gradients")
    },
)
