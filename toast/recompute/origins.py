"""Which argument of the program a value is a form of, for the names of layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toast.analysis.program import PASSING
from toast.recompute.block import BlockOps


def origins(block: BlockOps, given: Mapping[Any, str]) -> dict[Any, str]:
    """The path of the argument that each value holds, at most in another form or in part.

    `given` names arguments of the block; values that hold no argument alone are not there.
    """
    found = dict(given)
    for op in block.ops:
        if op.name in PASSING:
            for source, result in zip(op.operands, op.results, strict=False):
                if source in found:
                    found[result] = found[source]
    return found


def passed_into(loop: Any, found: Mapping[Any, str]) -> dict[Any, str]:
    """The names of what a loop's body gets."""
    body = loop.regions[1].blocks[0]
    pairs = zip(loop.operands, body.arguments, strict=True)
    return {inside: found[source] for source, inside in pairs if source in found}
