"""What is written down instead of discovered (MetaDist, section 3.3, allows for both).

XLA's CPU backend has no `ragged_dot`, so it cannot be run; its dimension numbers say all.
"""

from __future__ import annotations

import re

from jaxlib.mlir import ir

from toast.analysis.shardcombine.findings import Combine, Discovery, Finding, How

_RAGGED = "chlo.ragged_dot"
_LIST = re.compile(r"(\w+) = \[([\d, ]*)\]")


def given(op: ir.Operation) -> Discovery | None:
    """The findings for an op that cannot be run here; None for every other op."""
    if op.name != _RAGGED or ir.RankedTensorType(op.operands[2].type).rank != 1:
        return None
    return _ragged_dot(op)


def _ragged_dot(op: ir.Operation) -> Discovery:
    """Batch dimensions, both free ones and the contraction, whichever of them is not ragged.

    The ragged dimension and the groups stay whole: where a group begins depends on the sizes of
    all groups before it. Results are [groups if the contraction is ragged, batch, left free, right
    free].
    """
    text = str(op.attributes["ragged_dot_dimension_numbers"])
    dims = {
        name: [int(number) for number in body.split(",") if number.strip()]
        for name, body in _LIST.findall(text)
    }
    left, right = (ir.RankedTensorType(value.type).rank for value in list(op.operands)[:2])
    batch = _pairs(dims, "batching")
    contracting = _pairs(dims, "contracting")
    ragged = dims.get("lhs_ragged_dimensions", [])
    groups = dims.get("rhs_group_dimensions", [])
    splits = [*batch]
    splits += [(d, -1) for d in range(left) if d not in _column(batch + contracting, 0)]
    splits += [
        (-1, d) for d in range(right) if d not in [*_column(batch + contracting, 1), *groups]
    ]
    first = 1 if any(d in ragged for d, _ in contracting) else 0
    findings = [
        Finding(dims=(*split, -1), combines=(Combine(how=How.GATHER, dim=first + place),))
        for place, split in enumerate(splits)
        if split[0] not in ragged
    ]
    findings += [
        Finding(dims=(*split, -1), combines=(Combine(how=How.REDUCE, reduce="sum"),))
        for split in contracting
        if split[0] not in ragged
    ]
    return Discovery(findings=tuple(findings))


def _pairs(dims: dict[str, list[int]], kind: str) -> list[tuple[int, int]]:
    left = dims.get(f"lhs_{kind}_dimensions", [])
    return list(zip(left, dims.get(f"rhs_{kind}_dimensions", []), strict=True))


def _column(pairs: list[tuple[int, int]], index: int) -> list[int]:
    return [pair[index] for pair in pairs]
