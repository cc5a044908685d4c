"""Constants that loops and branches read from outside, written within them.

`jax.export` keeps one constant for all that read it, also within loops. Who takes a loop as it
stands, with what it carries and nothing else, wants them there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.operations import CONTROL


def sink_constants(module: ir.Module) -> None:
    """Give each op within a loop or a branch its own copy of a constant of one number."""
    with module.context:
        for view in module.body.operations:
            for constant in list(_constants(view.operation)):
                for use in list(constant.results[0].uses):
                    _sink(constant, use.owner.operation, use.operand_number)


def _sink(constant: Any, user: Any, operand: int) -> None:
    anchor = user
    while anchor.block != constant.block:
        above = anchor.parent.operation
        if above.name in CONTROL:
            copy = constant.clone(ip=ir.InsertionPoint(anchor))
            user.operands[operand] = copy.results[0]
            return
        anchor = above


def _constants(op: Any) -> Iterator[Any]:
    """The constants of one number in the regions of an op."""
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                if inner.name == "stablehlo.constant" and _is_splat(inner):
                    yield inner
                else:
                    yield from _constants(inner)


def _is_splat(op: Any) -> bool:
    try:
        value = op.attributes["value"]
    except TypeError:  # complex numbers have no form in Python
        return False
    return isinstance(value, ir.DenseElementsAttr) and value.is_splat
