"""Memory of arguments, which are there throughout."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.program.arrays import floats, ints
from toast.costmodel.program.sharding_units import Layouts


class Arguments(NamedTuple):
    """Arguments of one `tensor`: how many there are, and how many copies go to and from the chip.

    Such copies (`fetched`) have a table in main memory each.
    """

    tensor: Ints
    times: Floats
    fetched: Floats


def argument_rows(
    program: Program, layouts: Layouts, reused: dict[int, int]
) -> tuple[Counter[int], Counter[int]]:
    """By tensor how many arguments have it; and how often they go to the chip's own memory.

    Results come from there in the place of the arguments whose buffers they take over (`reused`).
    """
    arguments = {argument.value for argument in program.arguments}
    base = Counter(int(layouts.value_tensor[value]) for value in arguments)
    kept = Counter(int(layouts.value_tensor[value]) for value in reused.values())
    return base, base + kept


def argument_columns(base: Counter[int], fetched: Counter[int]) -> Arguments:
    """The rows as columns."""
    return Arguments(
        tensor=ints(list(base)),
        times=floats(list(base.values())),
        fetched=floats([fetched[tensor] for tensor in base]),
    )
