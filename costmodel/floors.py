"""What of a step's arguments and results has to pass through the main memory, whatever is on chip.

Arguments are in main memory before the step and results after it. A compiler's estimate lets what
fits on the chip wait there for nothing; a chip has to fetch it once, and to store what it leaves.
"""

from __future__ import annotations

from analysis.program import Program
from costmodel.fusion import Fusion
from costmodel.layouts import Layouts
from costmodel.roles import Role, role
from costmodel.rows import SLICING, UPDATING, Rows


def floor_rows(program: Program, layouts: Layouts, fusion: Fusion) -> Rows[int]:
    """Tensors of arguments that a kernel reads whole and of results that one writes whole.

    Weights count how many there are; the sources are the ops that read or write them. What is only
    looked up in, sliced or updated in place is left out, as is what a loop carries.
    """
    rows: Rows[int] = Rows()
    arguments = {argument.value for argument in program.arguments}
    for kernel in fusion.kernels:
        for use in kernel.reads:
            value, op = int(program.use_value[use]), program.user(use)
            kind = program.kind(op)
            part = kind in SLICING or kind in UPDATING or role(kind) is Role.NOTHING
            if value in arguments and not (part and use == program.op_uses[op]):
                arguments.remove(value)
                rows.add(int(layouts.value_tensor[value]), 1.0, op)
    for value in sorted({int(program.use_value[result.use]) for result in program.results}):
        op = int(program.value_op[value])
        kind = program.kind(op)
        if fusion.written[value] and kind not in UPDATING and role(kind) is not Role.NOTHING:
            rows.add(int(layouts.value_tensor[value]), 1.0, op)
    return rows
