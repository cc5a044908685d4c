"""Memory of constants: of weights that no argument gives, and of lookups at known places."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.nets_of_images import mebibytes
from benchmarks.probes.probe import Probe
from benchmarks.probes.programs import lowered

POSITIONS, WIDTH = 512, 512
TEXTS = {"none": 0, "64 texts": 64, "256 texts": 256}
"""How many texts have their positions looked up."""


def module(texts: int) -> bytes:
    """Positions added to eight texts and more, which are multiplied three times."""

    def run(x: jax.Array, w: jax.Array) -> jax.Array:
        if texts:
            table = np.sin(np.arange(POSITIONS * WIDTH)).reshape(POSITIONS, WIDTH)
            places = jnp.broadcast_to(jnp.arange(POSITIONS), x.shape[:2])
            x = x + jnp.take(jnp.asarray(table, jnp.float32), places, axis=0)
        for _ in range(3):
            x = jnp.tanh(x @ w)
        return x

    return lowered(run, (texts or 64, POSITIONS, WIDTH), (WIDTH, WIDTH))


SIDE = 4096
CLOSED = {"a weight for a product": False, "a weight for a product and a sum": True}
"""What a function closes over, and whether it adds that as well."""


def closed_over(added: bool) -> bytes:
    """A product with a weight of 64 MiB that is no argument, and another with one that is."""

    def run(x: jax.Array, w: jax.Array) -> jax.Array:
        numbers = jnp.asarray(np.sin(np.arange(SIDE * SIDE)).reshape(SIDE, SIDE), jnp.float32)
        x = jnp.tanh(x @ numbers)
        return (x + numbers if added else x) @ w

    return lowered(run, (SIDE, SIDE), (SIDE, SIDE))


PROBE = Probe(
    name="constant_folding",
    figures="MiB of main memory on each of eight devices, which have an eighth of the texts",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "a100:8"),
    cases=cases_of(
        {
            name: Layout(program=partial(module, texts), mesh="data=8", choices=(((0, 0), 0),))
            for name, texts in TEXTS.items()
        }
        | {
            name: Layout(program=partial(closed_over, of), mesh="data=8", choices=(((0, 0), 0),))
            for name, of in CLOSED.items()
        },
        mebibytes,
    ),
)
