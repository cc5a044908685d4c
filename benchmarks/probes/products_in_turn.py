"""Two products in turn: whether a TPU runs the first inside the second, and their cycles."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.launches import PRODUCTS, launched
from benchmarks.probes.probe import Case, Compiled, Probe, cycles
from benchmarks.probes.programs import lowered

ROWS, BATCH = 16384, 32


def layer(x: Any, w: Any, v: Any) -> Any:
    """What a product makes, computed with and multiplied again."""
    return jax.nn.gelu(x @ w) @ v


def regrouped(x: Any, w: Any, v: Any) -> Any:
    """The same, whose rows are put together between the two."""
    return jax.nn.gelu(x @ w).reshape(-1, w.shape[1]) @ v


def twice(x: Any, w: Any, v: Any) -> tuple[Any, Any]:
    """The same, read by a second product."""
    made = jax.nn.gelu(x @ w)
    return made @ v, made @ v[:, ::-1]


def returned(x: Any, w: Any, v: Any) -> tuple[Any, Any]:
    """The same, which is a result itself."""
    made = jax.nn.gelu(x @ w)
    return made @ v, made


def of_a_batch(q: Any, k: Any, v: Any) -> Any:
    """A product of matrices in batches, and another of what it makes."""
    return jnp.einsum("bqk,bkd->bqd", jax.nn.relu(jnp.einsum("bqd,bkd->bqk", q, k)), v)


def figures(compiled: Compiled) -> dict[str, float]:
    """The most products in one launch, and all cycles."""
    most = max(sum(opcode in PRODUCTS for opcode in opcodes) for _, opcodes in launched(compiled))
    return {"together": most, "cycles": cycles(compiled)}


def _layer(width: int, hidden: int, rows: tuple[int, ...] = (ROWS,)) -> Case:
    shapes = ((*rows, width), (width, hidden), (hidden, width))
    return Case.of(partial(lowered, layer, *shapes), figures)


def _of(function: Any, rows: tuple[int, ...] = (ROWS,)) -> Case:
    shapes = ((*rows, 256), (256, 1024), (1024, 256))
    return Case.of(partial(lowered, function, *shapes), figures)


WIDTHS = ((64, 256), (128, 512), (256, 1024), (512, 512), (512, 2048), (1024, 1024))
"""Of a layer: what its first product adds up for each element, and what it makes of that."""

PROBE = Probe(
    name="products_in_turn",
    figures="the most products in one launch, and all cycles",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={f"{width} to {hidden}": _layer(width, hidden) for width, hidden in WIDTHS}
    | {
        "192 columns, a batch": _layer(192, 256, (BATCH, 512)),
        "196 columns, a batch": _layer(196, 256, (BATCH, 512)),
        "regrouped": _of(regrouped, (BATCH, ROWS // BATCH)),
        "read twice": _of(twice),
        "returned": _of(returned),
        "matrices": Case.of(
            partial(lowered, of_a_batch, *[(BATCH, 256, 64)] * 3),
            figures,
        ),
    },
)
