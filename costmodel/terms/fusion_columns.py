"""Kernels and their products as columns of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.passes.convolution_tiling import NO_WINDOW
from toast.costmodel.program.arrays import flat, floats, ints, starts
from toast.costmodel.terms.fusion_rows import Operand, RootRow
from toast.costmodel.terms.rows import Rows


def root_columns(rows: Rows[RootRow]) -> dict[str, Any]:
    """The columns of `Tables` that computation is priced by."""
    dots = [row.dots for row in rows]
    factors = [dot.sides for row in dots for dot in row]
    moved, beside = [row.written + row.read for row in rows], [row.beside for row in rows]
    spread = [row.spread for row in rows]
    return {
        "root_weight": floats(list(rows.values())),
        "root_writes": ints([len(row.written) for row in rows]),
        "root_tensor_start": starts(moved),
        "root_tensor": flat([[tensor for tensor, _ in row] for row in moved]),
        "root_whole": flat([[whole for _, whole in row] for row in moved]),
        "root_dot_start": starts(dots),
        "dot_sums": ints([dot.made for row in dots for dot in row]),
        "dot_unit": ints([dot.unit for row in dots for dot in row]),
        "dot_seconds": floats([dot.seconds for row in dots for dot in row]),
        "dot_operand": _pairs([dot.operands for row in dots for dot in row]),
        "dot_computed": _computed([dot.operands for row in dots for dot in row]),
        "dot_window": np.array([dot.window for row in dots for dot in row], dtype=np.int64).reshape(
            -1, len(NO_WINDOW)
        ),
        "dot_width": _widths([dot.operands for row in dots for dot in row]),
        "root_beside_start": starts(beside),
        "beside_start": starts([tensors for row in beside for tensors in row]),
        "beside_tensor": flat([tensors for row in beside for tensors in row]),
        "root_copied_start": starts([row.copied for row in rows]),
        "root_copied": flat([row.copied for row in rows]),
        "root_spread_start": starts(spread),
        "spread_item": flat([[item for item, _ in row] for row in spread]),
        "spread_tensor": flat([[tensor for _, tensor in row] for row in spread]),
        "side_start": starts(factors),
        "side_of": ints([side for sides in factors for side, _ in sides]),
        "side_size": ints([size for sides in factors for _, size in sides]),
    }


Operands = Sequence[tuple[Operand, ...]]


def _pairs(dots: Operands) -> Ints:
    """[contractions, operands, (stored, read)] tensors of the first two operands."""
    found = [[[stored, read] for stored, read, *_ in operands[:2]] for operands in dots]
    return np.asarray(found, dtype=np.int64).reshape(-1, 2, 2)


def _computed(dots: Operands) -> Ints:
    """[contractions, operands] if arithmetic inside the kernel makes an operand."""
    found = [[computed for *_, computed in operands[:2]] for operands in dots]
    return np.asarray(found, dtype=np.int64).reshape(-1, 2)


def _widths(dots: Operands) -> Floats:
    """[contractions, operands, (as stored, brought from another layout)] widths of elements."""
    found = [[[width, moved] for _, _, width, moved, _ in operands[:2]] for operands in dots]
    return np.asarray(found, dtype=np.float64).reshape(-1, 2, 2)
