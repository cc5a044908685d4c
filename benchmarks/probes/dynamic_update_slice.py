"""Updates of a buffer whose rows are over an axis: of what they write, or of the whole buffer."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.layouts import Layout, cases_of
from benchmarks.probes.probe import Probe, cycles


def update(rows: int, part: int, *, known: bool = False) -> bytes:
    """A buffer of `rows` rows, of which `part` are written at a place that is given or `known`."""
    whole, some, place = f"tensor<{rows}x64x64xf32>", f"tensor<{part}x64x64xf32>", "tensor<i32>"
    at = "%z" if known else "%i"
    return f"""
func.func @main(%b: {whole} {{tf.aliasing_output = 0 : i32}}, %u: {some}, %i: {place}) -> {whole} {{
  %z = stablehlo.constant dense<0> : {place}
  %r = stablehlo.dynamic_update_slice %b, %u, {at}, %z, %z
    : ({whole}, {some}, {place}, {place}, {place}) -> {whole}
  return %r : {whole}
}}
""".encode()


def caches(layers: int, rows: int) -> bytes:
    """Caches of layers, each read whole after one row of it is written at a place that is given."""

    def step(stack: Any, rows: Any, place: Any) -> Any:
        def layer(carried: Any, given: Any) -> Any:
            cache, row = given
            zero = jnp.zeros((), jnp.int32)
            cache = jax.lax.dynamic_update_slice(cache, row + carried, (place, zero, zero))
            return cache.sum(axis=0, keepdims=True), cache

        return jax.lax.scan(layer, rows[0], (stack, rows))

    given = [
        jax.ShapeDtypeStruct((layers, rows, 64, 64), jnp.float32),
        jax.ShapeDtypeStruct((layers, 1, 64, 64), jnp.float32),
        jax.ShapeDtypeStruct((), jnp.int32),
    ]
    return str(jax.jit(step, donate_argnums=0).lower(*given).as_text()).encode()


ROWS = 4096
LAYOUTS = {
    name: Layout(program=partial(update, ROWS, part, known=known), mesh="a=2", choices=choices)
    for name, part, known, choices in (
        ("one row of a whole buffer", 1, False, ()),
        ("one row, rows split", 1, False, (((0, 0), 0),)),
        ("one row at a known place, rows split", 1, True, (((0, 0), 0),)),
        ("one row, columns split", 1, False, (((0, 1), 0),)),
        ("all rows, rows split", ROWS, False, (((0, 0), 0),)),
    )
} | {
    "caches of a loop": Layout(program=partial(caches, 4, ROWS), mesh="a=2"),
    "caches of a loop, rows split": Layout(
        program=partial(caches, 4, ROWS), mesh="a=2", choices=(((0, 1), 0),)
    ),
}


PROBE = Probe(
    name="dynamic_update_slice",
    figures="cycles of an update of a buffer of 4096 x 64 x 64 in 32 bits, or of four in a loop",
    targets=("tpu-v5e:2x4",),
    cases=cases_of(LAYOUTS, cycles),
)
