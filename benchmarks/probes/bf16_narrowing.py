"""Element types of what loops carry, what is stored, copied and gathered: in 16 bits or in 32."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.fusion_rates import LAYOUTS
from benchmarks.probes.launches import is_product, launched
from benchmarks.probes.layouts import megabytes
from benchmarks.probes.probe import Case, Compiled, Figure, Probe
from benchmarks.probes.programs import lowered, lowered_of

LAYERS, ROWS, NARROW, WIDE = 8, 64, 16, 32
WORDS, FEATURES = 33_278, 300
"""Of a table that fills tiles better by columns than by rows."""
Layer = Callable[[Any, Any], Any]
_WHILE = re.compile(r"= \((.*)\) while\(")
_STACK = re.compile(rf"([a-z]+\d+)\[({LAYERS},\d+,\d+)\]")


def relu(x: Any, w: Any) -> Any:
    """Of a relu the gradient needs what it was given, by its sign."""
    return x + jax.nn.relu(x @ w["a"]) @ w["b"]


def tanh(x: Any, w: Any) -> Any:
    """The gradient of a tanh needs what it made, and so does that of the weights behind it."""
    return x + jnp.tanh(x @ w["a"]) @ w["b"]


def scaled(x: Any, w: Any) -> Any:
    """Weights that something else than a product reads too."""
    return x + jax.nn.relu(x @ (w["a"] * w["a"].sum())) @ w["b"]


def training(layer: Layer, dtype: str = "float32") -> bytes:
    """A step of a scan over layers with gradients."""

    def loss(ws: Any, x: Any) -> Any:
        y, _ = jax.lax.scan(lambda x, w: (layer(x, w), None), x, ws)
        return (y**2).mean()

    def step(ws: Any, x: Any) -> Any:
        gradients = jax.grad(loss)(ws, x)
        return jax.tree.map(lambda w, g: w - g * 1e-3, ws, gradients)

    shape, of = jax.ShapeDtypeStruct, jnp.dtype(dtype)
    ws = {"a": shape((LAYERS, NARROW, WIDE), of), "b": shape((LAYERS, WIDE, NARROW), of)}
    return lowered_of(step, ws, shape((ROWS, NARROW), of))


def returned() -> bytes:
    """A loop whose stack is a result."""

    def step(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda x, w: (relu(x, w), x), x, w)

    shape = jax.ShapeDtypeStruct
    w = {"a": shape((LAYERS, NARROW, WIDE), jnp.float32)}
    w["b"] = shape((LAYERS, WIDE, NARROW), jnp.float32)
    return lowered_of(step, shape((ROWS, NARROW), jnp.float32), w)


def recurrent(given: Callable[[Any], Any], *, multiplies: bool = True) -> bytes:
    """A recurrent net over what is made of its input before its loop."""

    def step(x: Any, w: Any) -> Any:
        def cell(h: Any, one: Any) -> tuple[Any, None]:
            return jnp.tanh((one @ w if multiplies else one) + h @ w), None

        return jax.lax.scan(cell, jnp.zeros((ROWS, NARROW)), given(x))[0]

    return lowered(step, (LAYERS, ROWS, NARROW), (NARROW, NARROW))


def words() -> bytes:
    """A recurrent net over words that are looked up, by examples."""

    def step(table: Any, places: Any, w: Any) -> Any:
        def cell(h: Any, one: Any) -> tuple[Any, None]:
            return jnp.tanh(one @ w + h @ w), None

        given = jnp.take(table, places, axis=0).transpose(1, 0, 2)
        return jax.lax.scan(cell, jnp.zeros((ROWS, NARROW)), given)[0]

    shape = jax.ShapeDtypeStruct
    table, w = shape((1024, NARROW), jnp.float32), shape((NARROW, NARROW), jnp.float32)
    return lowered_of(step, table, shape((ROWS, LAYERS), jnp.int32), w)


def looked_up(read: Callable[[Any, Any], Any]) -> bytes:
    """Rows of a table, and a matrix for them."""

    def step(table: Any, places: Any, w: Any) -> Any:
        return read(table[places], w)

    shape = jax.ShapeDtypeStruct
    table, w = shape((WORDS, FEATURES), jnp.float32), shape((FEATURES, 512), jnp.float32)
    return lowered_of(step, table, shape((4096,), jnp.int32), w)


def multiplied(x: Any, w: Any, v: Any, u: Any) -> Any:
    """A product that two others read."""
    made = x @ w
    return made @ v, made @ u


def joined() -> bytes:
    """Rows in 32 bits over all devices, joined with others, that every device wants in 16 bits."""
    rows, both = "tensor<4096x4096xf32>", "tensor<8192x4096xf32>"
    given = '{sdy.sharding = #sdy.sharding<@mesh, [{"all"}, {}]>}'
    return f"""
sdy.mesh @mesh = <["all"=8]>
func.func @main(%x: {rows} {given}, %y: {rows} {given}) -> tensor<8192x4096xbf16> {{
  %c = stablehlo.concatenate %x, %y, dim = 0 : ({rows}, {rows}) -> {both}
  %r = sdy.sharding_constraint %c <@mesh, [{{}}, {{}}]> : {both}
  %n = stablehlo.convert %r : ({both}) -> tensor<8192x4096xbf16>
  return %n : tensor<8192x4096xbf16>
}}
""".encode()


PROGRAMS: dict[str, Callable[[], bytes]] = {
    "relu": lambda: training(relu),
    "tanh": lambda: training(tanh),
    "scaled": lambda: training(scaled),
    "relu in 16 bits": lambda: training(relu, "bfloat16"),
    "returned": returned,
}
INPUTS: dict[str, Callable[[], bytes]] = {
    "inputs, computed": lambda: recurrent(jnp.tanh),
    "inputs, looked up": words,
    "inputs, added": lambda: recurrent(jnp.tanh, multiplies=False),
}
TABLES: dict[str, Callable[[], bytes]] = {
    "rows for a product": lambda: looked_up(jnp.matmul),
    "rows and one, for a product": lambda: looked_up(lambda rows, w: (rows + 1.0) @ w),
    "rows for a product and more": lambda: looked_up(lambda rows, w: (rows @ w, jnp.tanh(rows))),
}


def carried(compiled: Compiled) -> dict[str, list[str]]:
    """The element types of the stacks that loops carry, by shape."""
    found: dict[str, set[str]] = {}
    for loop in _WHILE.findall(compiled.text):
        for dtype, shape in _STACK.findall(loop):
            found.setdefault(shape, set()).add(dtype)
    return {shape: sorted(dtypes) for shape, dtypes in sorted(found.items())}


def stored(compiled: Compiled) -> list[str]:
    """The element types that products store, in order."""
    products = (one for one, opcodes in launched(compiled) if is_product(one, opcodes))
    return [" ".join(sorted({shape.dtype for shape in one.shapes})) for one in products]


def copied(compiled: Compiled) -> list[str]:
    """The element types of copies of a table."""
    copies = [one for one in compiled.instructions() if one.opcode == "copy"]
    dims = (WORDS, FEATURES)
    return [shape.dtype for one in copies for shape in one.shapes if tuple(shape.dims) == dims]


def gathered(compiled: Compiled) -> dict[str, Figure]:
    """The element types of gathers, and MB on the wire of one device."""
    gathers = [one for one in compiled.instructions() if one.opcode.startswith("all-gather")]
    types = {shape.dtype for one in gathers for shape in one.shapes}
    return {"types": sorted(types - {"u32"}), "megabytes": megabytes(compiled)}


PROBE = Probe(
    name="bf16_narrowing",
    figures="element types of what loops carry, products store, lookups copy and gathers send",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "a100:8"),
    cases={name: Case.of(make, carried) for name, make in (PROGRAMS | INPUTS).items()}
    | {name: Case.of(make, copied) for name, make in TABLES.items()}
    | {
        "product of products": Case.of(lambda: lowered(multiplied, *[(1024, 1024)] * 4), stored),
        "gathered for a product": LAYOUTS["product, columns gathered"].case(gathered),
        "joined, then narrowed": Case.of(joined, gathered),
    },
)
