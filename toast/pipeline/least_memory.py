"""What a step needs of each device however it is laid out and rewritten: a cheap bound.

A rewriting leaves the arguments and results as they are, and a layout divides each of them by the
devices at most. Where that is too much nothing needs to be tried.
"""

from __future__ import annotations

from collections.abc import Iterable

from toast.analysis.program import Program
from toast.analysis.types import itemsize
from toast.microbatch.time_axis import Carried


def least_bytes(program: Program, devices: int) -> float:
    """When the step begins all arguments are there, when it ends all results and kept arguments."""
    given = _bytes(program, (one.value for one in program.arguments))
    kept = _bytes(program, (one.value for one in program.arguments if not one.donated))
    (end,) = program.ops_named("return")
    made = _bytes(program, {int(program.use_value[use]) for use in program.uses_of(end)})
    return max(given, kept + made) / devices


def least_bytes_in_parts(program: Program, sums: Iterable[Carried], devices: int) -> float:
    """When its last part ends, the state that takes the sums is there beside them."""
    state = _bytes(program, (one.value for one in program.arguments if one.donated))
    return (state + sum(one.bytes for one in sums)) / devices


def _bytes(program: Program, values: Iterable[int]) -> float:
    return sum(program.elements[one] * itemsize(program.dtype(one)) for one in values)
