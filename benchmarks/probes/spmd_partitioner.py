"""What is launched beside a collective, to cut, pack and put in place what it moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.probes.launches import IDLE, is_product, launched
from benchmarks.probes.probe import Case, Compiled, Probe

SIDE = 4096
T = f"tensor<{SIDE}x{SIDE}xf32>"
ALL = '"a", "b"'
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A value in one layout, wanted in another; a product's sums if it contracts what is split."""

    given: tuple[str, str]
    wanted: tuple[str, str]
    product: bool = False

    def module(self, _target: str) -> bytes:
        """A tanh before the move, or a product that makes sums, and an exponential behind it."""
        made = f"stablehlo.tanh %x : {T}"
        if self.product:
            made = f"stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : ({T}, {T}) -> {T}"
        return f"""
sdy.mesh @mesh = <["a"=4, "b"=2]>
func.func @main(%x: {T} {{sdy.sharding = {_sharding(self.given)}}})
    -> ({T} {{sdy.sharding = {_sharding(self.wanted)}}}) {{
  %p = {made}
  %r = sdy.sharding_constraint %p <@mesh, [{{{self.wanted[0]}}}, {{{self.wanted[1]}}}]> : {T}
  %s = stablehlo.exponential %r : {T}
  return %s : {T}
}}
""".encode()


def _sharding(dims: tuple[str, str]) -> str:
    return f"#sdy.sharding<@mesh, [{{{dims[0]}}}, {{{dims[1]}}}]>"


MOVES: Mapping[str, Move] = {
    "all-reduce": Move(given=(ALL, ""), wanted=("", ""), product=True),
    "reduce-scatter of rows": Move(given=(ALL, ""), wanted=(ALL, ""), product=True),
    "reduce-scatter of columns": Move(given=(ALL, ""), wanted=("", ALL), product=True),
    "all-gather of rows": Move(given=(ALL, ""), wanted=("", "")),
    "all-gather of columns": Move(given=("", ALL), wanted=("", "")),
    "all-gather of some axes": Move(given=(ALL, ""), wanted=('"a"', "")),
    "all-to-all from rows to columns": Move(given=(ALL, ""), wanted=("", ALL)),
    "all-to-all from columns to rows": Move(given=("", ALL), wanted=(ALL, "")),
    "collective-permute": Move(given=(ALL, ""), wanted=('"b", "a"', "")),
}


def beside(compiled: Compiled) -> list[str]:
    """What is launched that is no work of the program, and what collectives there are.

    A TPU scatters a sum by a fusion of an all-reduce and a slice.
    """
    found = []
    for one, opcodes in launched(compiled):
        sent = [name for name in COLLECTIVES if any(each.startswith(name) for each in opcodes)]
        works = is_product(one, opcodes) or {"tanh", "exponential"} & set(opcodes)
        if one.opcode.endswith("-done"):
            continue
        if sent:
            cut = sent == ["all-reduce"] and "dynamic-slice" in opcodes
            found += ["reduce-scatter"] if cut else sent
        elif not works:
            found.append(" ".join(sorted(set(opcodes) - IDLE)))
    return found


PROBE = Probe(
    name="spmd_partitioner",
    figures="collectives of a move, and what is launched beside them that does no work",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "a100:8"),
    cases={
        name: Case(module=move.module, read=beside, mesh="a=4,b=2") for name, move in MOVES.items()
    },
)
