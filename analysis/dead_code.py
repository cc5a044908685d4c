"""Ops that nobody reads, once others that read them are gone."""

from __future__ import annotations

from typing import Any

from toast.analysis.operations import CONTROL, may_run_twice


def sweep(block: Any) -> None:
    """Erase the ops of a block, and of loops and branches in it, that make nothing that is read."""
    for view in reversed(list(block.operations)):
        op = view.operation
        unread = op.results and not any(list(result.uses) for result in op.results)
        if unread and may_run_twice(op):
            op.erase()
        elif op.name in CONTROL:
            for region in op.regions:
                sweep(region.blocks[0])
