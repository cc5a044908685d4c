"""The kernel that finds equal ops of equal operands; `cse` says what is made of them."""

from __future__ import annotations

from toast.analysis.jit import entry, inner
from toast.analysis.program import Ints

_FACTOR = 0x2127599BF4325C37
_SHIFT = 29


@entry
def number_identical(
    content: Ints, scope: Ints, op_uses: Ints, use_value: Ints, op_values: Ints, table: Ints,
    value: Ints, first: Ints,
) -> None:  # fmt: skip
    """Set to the first equal one each of `first`, and of `value`, in the order of the program.

    `table` (-1, a power of two, longer than there are ops) is a working array.
    """
    mask = len(table) - 1
    for op in range(len(content)):
        if content[op] < 0:
            continue
        word = content[op] * _FACTOR ^ scope[op]
        for use in range(op_uses[op], op_uses[op + 1]):
            word = (word ^ value[use_value[use]]) * _FACTOR
            word ^= word >> _SHIFT
        place = word & mask
        while table[place] >= 0 and not _equal(
            content, scope, op_uses, use_value, value, table[place], op
        ):
            place = (place + 1) & mask
        if table[place] < 0:
            table[place] = op
            continue
        first[op] = table[place]
        for n in range(op_values[op + 1] - op_values[op]):
            value[op_values[op] + n] = op_values[first[op]] + n


@inner
def _equal(
    content: Ints, scope: Ints, op_uses: Ints, use_value: Ints, value: Ints, one: int, other: int
) -> bool:
    """Whether two ops make the same of equal operands."""
    if content[one] != content[other] or scope[one] != scope[other]:
        return False
    a, b = op_uses[one], op_uses[other]
    same = op_uses[one + 1] - a == op_uses[other + 1] - b
    for k in range(min(op_uses[one + 1] - a, op_uses[other + 1] - b)):
        same &= value[use_value[a + k]] == value[use_value[b + k]]
    return same
