"""Which collectives bring a matrix to another layout, where axes do not only come or go."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.probes.probe import Case, Compiled, Figure, Probe

MESH = "a=2,b=2,c=2"
T = "tensor<1024x2048xf32>"
Layout = tuple[str, str]
"""The axes of the rows and of the columns, a letter each."""

MOVES: Mapping[str, tuple[Layout, Layout]] = {
    f"{' '.join(one or '-' for one in have)} to {' '.join(one or '-' for one in want)}": (
        have,
        want,
    )
    for have, want in (
        (("c", "a"), ("b", "a")),
        (("a", "b"), ("b", "a")),
        (("a", ""), ("b", "c")),
        (("ab", "c"), ("a", "b")),
        (("ab", ""), ("c", "")),
        (("a", "b"), ("c", "")),
        (("c", ""), ("", "b")),
        (("ab", ""), ("c", "a")),
        (("a", ""), ("", "bc")),
        (("ab", "c"), ("", "ab")),
        (("a", "bc"), ("ab", "")),
        (("", "ac"), ("c", "")),
        (("abc", ""), ("a", "b")),
    )
}


def module(have: Layout, want: Layout, _target: str) -> bytes:
    """A tanh of an argument in one layout, and an exponential of it in another."""
    given, taken = _sharding(have), _sharding(want)
    return f"""module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]>
  func.func public @main(%x: {T} {{sdy.sharding = #sdy.sharding<@mesh, {given}>}})
      -> ({T} {{sdy.sharding = #sdy.sharding<@mesh, {taken}>}}) {{
    %made = stablehlo.tanh %x : {T}
    %kept = sdy.sharding_constraint %made <@mesh, {given}> : {T}
    %moved = sdy.sharding_constraint %kept <@mesh, {taken}> : {T}
    %y = stablehlo.exponential %moved : {T}
    return %y : {T}
  }}
}}
""".encode()


def _sharding(layout: Layout) -> str:
    dims = (", ".join(f'"{axis}"' for axis in axes) for axes in layout)
    return f"[{', '.join(f'{{{dim}}}' for dim in dims)}]"


def collectives(compiled: Compiled) -> Figure:
    """By kind the axes of the collectives and what they put on the wire of a device, in bytes."""
    found: dict[str, list[Figure]] = {}
    for one in compiled.verdict.collectives:
        found.setdefault(one.kind, []).append(
            {"axes": " ".join(one.axes or ("none",)), "wire": one.wire_bytes}
        )
    return found


PROBE = Probe(
    name="reshards",
    figures="by kind the axes and bytes on the wire of the collectives of one move of a matrix",
    targets=("tpu-v5e:2x4", "a100:8"),
    cases={
        name: Case(module=partial(module, have, want), read=collectives, mesh=MESH)
        for name, (have, want) in MOVES.items()
    },
)
