"""Why a batch cannot run in parts: the op that is in the way, in the user's words."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from toast.analysis.errors import InvalidRequest
from toast.analysis.locations import Location
from toast.microbatch.tree import OpNode

HINT = "Split a batch that this op treats element by element, or leave out --microbatches."


_NEAR = 10
"""So many ops back a line is looked for."""


class Blocked(InvalidRequest):
    """A program whose batch cannot run in parts exactly; `op` is the op in the way."""

    def __init__(self, node: OpNode | None, why: str, hint: str = HINT) -> None:
        self.op = "" if node is None else described(node.op)
        self.why = why
        where = f"{self.op}: " if self.op else ""
        super().__init__(f"The batch cannot run in microbatches: {where}{why}.", hint)


def described(op: Any) -> str:
    """An op by its name, what the user's program calls it, and the line."""
    label = Location.parse(str(op.location)).label
    line = _line(op)
    return f"{op.name}{f' `{label}`' if label else ''}{f' at {line}' if line else ''}"


def _line(op: Any) -> str:
    """The line of an op; one of a helper's body, which has none, gets that of what it reads."""
    for _ in range(_NEAR):
        line = Location.parse(str(op.location)).line
        makers = [value.owner for value in op.operands if not isinstance(value.owner, ir.Block)]
        if line or not makers:
            return line
        op = makers[0].operation
    return ""
