"""What a product needs to know of its operands where its sums are scattered block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.program import Floats, Ints, Program
from costmodel.fusion import Fusion
from costmodel.layouts import Layouts
from costmodel.roles import LAYOUT, Role, role

CUTTING = frozenset({"stablehlo.dynamic_slice", "stablehlo.slice"})
"""Ops that cut a part out of what they read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """By row of the partials and operand of its products, [rows, 2].

    `operand` is the tensor that is read, `whole` the one that it is cut from inside the kernel, or
    itself; `dims` the dimensions of the result that it has too, as bits. `made` and `cut` are the
    parts of the row's products that make it by arithmetic inside themselves, and that cut it.
    """

    operand: Ints
    whole: Ints
    dims: Ints
    made: Floats
    cut: Floats


def block_rows(
    program: Program, layouts: Layouts, fusion: Fusion, part_of: dict[int, int], weights: Floats
) -> Blocks:
    """The operands of the products of each row of partials; `weights` are how often a row runs."""
    shape = (len(weights), 2)
    found = Blocks(
        operand=np.zeros(shape, dtype=np.int64),
        whole=np.zeros(shape, dtype=np.int64),
        dims=np.zeros(shape, dtype=np.int64),
        made=np.zeros(shape),
        cut=np.zeros(shape),
    )
    for op, row in part_of.items():
        if role(program.kind(op)) is not Role.CONTRACTION:
            continue
        defined = program.def_names(program.values_of(op)[0]).tolist()
        for side, use in enumerate(program.uses_of(op)[:2]):
            named = set(program.use_names(use).tolist())
            has = [d for d, name in enumerate(defined) if name >= 0 and name in named]
            tensor, value = int(layouts.use_tensor[use]), program.sources[use]
            arithmetic, whole = origin(program, layouts, fusion, value)
            part = float(program.op_trips[op]) / weights[row]
            found.operand[row, side], found.dims[row, side] = tensor, sum(1 << d for d in has)
            found.whole[row, side] = tensor if whole is None else whole
            found.made[row, side] += part * arithmetic
            found.cut[row, side] += part * (whole is not None and not arithmetic)
    return found


def origin(
    program: Program, layouts: Layouts, fusion: Fusion, value: int
) -> tuple[bool, int | None]:
    """Whether arithmetic makes a value inside its reader, and the tensor that it is cut from there.

    Cutting is no arithmetic: the elements come from memory as those of the whole do.
    """
    whole = None
    while not (fusion.written[value] or program.constant[value]):
        op = program.makers[value]
        kind = program.kind(op)
        if kind not in CUTTING and kind not in LAYOUT:
            return True, whole
        use = int(program.op_uses[op])
        whole = int(layouts.use_tensor[use]) if kind in CUTTING else whole
        value = program.sources[use]
    return False, whole
