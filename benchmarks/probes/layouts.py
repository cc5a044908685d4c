"""Programs as our writer hands them to a compiler: with dimensions of arguments over mesh axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.accuracy.cases import Bench
from benchmarks.probes.probe import Case, Compiled, Figure
from toast.costmodel.evaluator import Action

Dim = tuple[int, int]
"""Number of an argument and of one of its dimensions."""
Choice = tuple[Dim, int]
"""A dimension and the mesh axis that its colour is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A program on a mesh, with the choices that shard it."""

    program: Callable[[], bytes]
    mesh: str
    choices: tuple[Choice, ...] = ()

    def bench(self, target: str) -> Bench:
        """The program, ready to be priced and written for a target."""
        return Bench.of(self.program(), self.mesh, target)

    def state(self, bench: Bench) -> tuple[Action, ...]:
        """The choices as actions."""
        analysis = bench.evaluator.analysis
        state = []
        for (argument, dim), axis in self.choices:
            name = analysis.program.def_names(analysis.program.arguments[argument].value)[dim]
            group = int(analysis.groups.of_colour[analysis.colours.colour[name]])
            state.append(Action(group=group, axis=axis))
        return tuple(state)

    def write(self, target: str) -> bytes:
        """The sharded module that is compiled for a target."""
        bench = self.bench(target)
        return bench.write(self.state(bench))

    def case(self, read: Callable[[Compiled], Figure]) -> Case:
        """The case that reads a figure of it."""
        return Case(module=self.write, read=read, mesh=self.mesh)


def cases_of(layouts: dict[str, Layout], read: Callable[[Compiled], Figure]) -> dict[str, Case]:
    """A case for each layout, all with one kind of figure."""
    return {name: layout.case(read) for name, layout in layouts.items()}


def megabytes(compiled: Compiled, *, least: float = 0.01) -> dict[str, float]:
    """MB on the wire of one device by kind of collective; those of scalars are left out."""
    found: dict[str, float] = {}
    for row in compiled.verdict.collectives:
        found[row.kind] = found.get(row.kind, 0.0) + row.wire_bytes / 1e6
    return {kind: round(size, 2) for kind, size in sorted(found.items()) if size > least}
