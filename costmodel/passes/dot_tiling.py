"""Products whose operands do not stay on the chip are made block by block.

Each operand is then read again for every row or column of blocks. The kernels count how often
(`kernels/compute.py`), as it depends on the sizes that a state gives the operands.
"""

from __future__ import annotations

from toast.costmodel.compilers.rules import DotTilingRules
from toast.costmodel.passes.memory_space_assignment import OnChip


def block_elements(on_chip: OnChip, rules: DotTilingRules) -> float:
    """Of a block of a product's result; none of a chip that reads no operand again."""
    return rules.block_elements if rules.rereads_operands and on_chip.size > 0.0 else 0.0
