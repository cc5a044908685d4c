"""In which order a sum over two dimensions runs over their axes, and so what of it is scattered."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from benchmarks.probes.probe import Case, Compiled, Figure, Probe

MESH = "a=2,b=2,c=2"
ROWS, COLUMNS, SUMMED = 512, 1024, 64


class Orders(NamedTuple):
    """The axes of the two dimensions that are summed over, and of the rows of the result."""

    first: str
    second: str
    rows: str


ORDERS = {
    "the mesh's order": Orders("ab", "c", "abc"),
    "b before a in the sum and in the result": Orders("ba", "c", "bac"),
    "b before a in the sum": Orders("ba", "c", "abc"),
    "b before a in the result": Orders("ab", "c", "bac"),
    "c in the first dimension": Orders("c", "ab", "abc"),
    "c in the first dimension, and first in the result": Orders("c", "ab", "cab"),
    "c in the first dimension, b before a": Orders("c", "ba", "bac"),
}


def product(orders: Orders, constrained: bool, _target: str) -> bytes:
    """A product whose sums are scattered to rows; constrained before them, or after them alone."""
    first, second, rows = (", ".join(f'"{axis}"' for axis in one) for one in orders)
    x, w = (f"tensor<{SUMMED}x{SUMMED}x{size}xf32>" for size in (ROWS, COLUMNS))
    y = f"tensor<{ROWS}x{COLUMNS}xf32>"
    given = f"{{sdy.sharding = #sdy.sharding<@mesh, [{{{first}}}, {{{second}}}, {{}}]>}}"
    kept = f"[{{{rows}}}, {{}}]"
    made = "[{}, {}]" if constrained else kept
    return f"""module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]>
  func.func public @main(%x: {x} {given}, %w: {w} {given})
      -> ({y} {{sdy.sharding = #sdy.sharding<@mesh, {kept}>}}) {{
    %y = stablehlo.dot_general %x, %w, contracting_dims = [0, 1] x [0, 1] : ({x}, {w}) -> {y}
    %made = sdy.sharding_constraint %y <@mesh, {made}> : {y}
    %kept = sdy.sharding_constraint %made <@mesh, {kept}> : {y}
    %t = stablehlo.tanh %kept : {y}
    return %t : {y}
  }}
}}
""".encode()


def kinds(compiled: Compiled) -> Figure:
    """The kinds of the collectives."""
    return sorted(one.kind for one in compiled.verdict.collectives)


PROBE = Probe(
    name="sum_order",
    figures="the collectives of one product, with its result constrained before its sums or not",
    targets=("tpu-v5e:2x4", "a100:8"),
    cases={
        name if constrained else f"{name}, left to the compiler": Case(
            module=partial(product, orders, constrained),
            read=kinds,
            mesh=MESH,
        )
        for name, orders in ORDERS.items()
        for constrained in (True, False)
    },
)
