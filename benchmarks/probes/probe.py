"""What a probe is: a question to a compiler, asked with small programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from toast.aot import Target, Verdict
from toast.aot.hlo import HloModule, Instruction, parse
from toast.costmodel.network.mesh import Mesh

Figure: TypeAlias = "float | str | Sequence[Figure] | Mapping[str, Figure]"
"""What a case comes to: a JSON value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What a compiler made of a program: its verdict and the text of the final HLO."""

    target: Target
    mesh: Mesh
    verdict: Verdict
    text: str

    @property
    def module(self) -> HloModule:
        """The text, parsed."""
        return parse(self.text)

    def instructions(self) -> list[Instruction]:
        """The instructions of all computations."""
        computations = self.module.computations.values()
        return [one for computation in computations for one in computation.instructions]


def cycles(compiled: Compiled) -> int:
    """Those that the compiler estimates for all that is launched."""
    return round(sum(compiled.verdict.cycles.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One program: the module as a target's compiler gets it, and how its figure is read."""

    module: Callable[[str], bytes]
    read: Callable[[Compiled], Figure]
    mesh: str = "all=8"

    @classmethod
    def of(cls, make: Callable[[], bytes], read: Callable[[Compiled], Figure]) -> Self:
        """A program that no target and no mesh changes."""
        return cls(module=lambda _: make(), read=read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A behaviour of compilers, what its figures are, and the cases that show it.

    `targets` are those that it says something about; the first is the one that is asked when none
    is named.
    """

    name: str
    figures: str
    targets: tuple[str, ...]
    cases: Mapping[str, Case]
