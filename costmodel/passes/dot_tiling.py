"""Products whose operands do not stay on the chip are made block by block.

Each operand is then read again for every row or column of blocks. The kernels count how often
(`kernels/compute.py`), as it depends on the sizes that a state gives the operands.
"""

from __future__ import annotations

from typing import NamedTuple

from toast.costmodel.compilers.rules import DotTilingRules
from toast.costmodel.passes.memory_space_assignment import OnChip


class DotTiles(NamedTuple):
    """`elements` of a block of a product's result, and the `cost` of a word that it waits for.

    A block of no elements says that operands are read once.
    """

    elements: float
    cost: float


def tile_dots(on_chip: OnChip, rules: DotTilingRules) -> DotTiles:
    """How products are tiled; nothing is read again by a chip that keeps no operands."""
    tiled = rules.rereads_operands and on_chip.size > 0.0
    return DotTiles(rules.block_elements if tiled else 0.0, rules.waiting_cost)
