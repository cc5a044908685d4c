"""Which partial sums are only added to others, so that devices sum them once."""

from __future__ import annotations

import numpy as np

from analysis.program import Program
from costmodel.roles import LAYOUT, Role, role

SCATTER = "stablehlo.scatter"
ADD = "stablehlo.add"


def added_up(program: Program) -> dict[int, int]:
    """Contraction or scatter -> an earlier one whose result is only added to its own.

    As in `a + b + c`, where nothing else uses the three. Of scatters anything else may be added to
    the sum as well: XLA makes one scatter of them.
    """
    sums = {name for name in program.names if role(name) is Role.CONTRACTION or name == SCATTER}
    made, passed = set(program.ops_named(*sums)), set(program.ops_named(*LAYOUT))
    scatters, starts = set(program.ops_named(SCATTER)), program.op_uses.tolist()
    once = (np.bincount(program.use_value, minlength=program.values) == 1).tolist()
    makers, sources, trips = program.makers, program.sources, program.op_trips.tolist()
    leaves: dict[int, list[int]] = {}
    for op in program.ops_named(ADD, *sums, *LAYOUT):
        if op in made:
            leaves[op] = [op]
            continue
        values = sources[starts[op] : starts[op + 1]]
        joined = [
            makers[value]
            for value in values
            if makers[value] in leaves and once[value] and trips[makers[value]] == trips[op]
        ]
        several = op in passed and len(values) != 1
        if not joined or several or len(program.values_of(op)) != 1:
            continue
        whole = len(joined) == len(values)
        leaves[op] = []
        for maker in joined:
            joining = [n for n in leaves[maker] if whole or n in scatters]
            leaves[op] += joining
            leaves[maker] = [n for n in leaves[maker] if n not in joining]
    return {leaf: min(found) for found in leaves.values() for leaf in found if leaf != min(found)}
