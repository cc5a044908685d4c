"""Moves in 16 bits: of values that are joined with others, and then converted to so many bits.

The price has them so, as compilers convert before they gather. Nothing is lost: what is converted
back and joined is converted to the same 16 bits.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Program
from toast.costmodel.resolved import ResolvedPlan
from toast.emit.specs import Specs
from toast.plans.plan import Spec


class NarrowMoves:
    """In which element type values are moved to the layouts that their uses want."""

    def __init__(self, program: Program, resolved: ResolvedPlan, specs: Specs) -> None:
        self._program, self._specs = program, specs
        self._uses = resolved.narrow_uses()
        self._values = {program.sources[use] for use in self._uses}

    def of(self, value: int, want: Spec) -> str | None:
        """The element type in which a value is sent on its way to a layout; None for its own."""
        if value not in self._values:
            return None
        program = self._program
        wanting = np.flatnonzero(program.use_value == value).tolist()
        wanting = [use for use in wanting if self._specs.use(use) == want]
        if not self._uses.issuperset(wanting):
            return None
        kinds = {kind for use in wanting for kind in self._converted(program.user(use))}
        return kinds.pop() if len(kinds) == 1 else None

    def _converted(self, joining: int) -> set[str]:
        """The element types that the result of an op is converted to."""
        program = self._program
        starts, uses = program.readers
        found = set[str]()
        for value in program.values_of(joining):
            for use in uses[starts[value] : starts[value + 1]].tolist():
                found |= {program.dtype(made) for made in program.values_of(program.user(use))}
        return found
