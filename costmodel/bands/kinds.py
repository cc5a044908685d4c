"""What a program is for, as far as its module says."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from toast.analysis.program import LOOP_BEGIN, PASSING, Program

Kind = Literal["train", "prefill", "decode", "infer", "unknown"]

_UPDATE = "stablehlo.dynamic_update_slice"
_FOLLOWED = PASSING | {LOOP_BEGIN, _UPDATE}
MANY = 0.5
"""A step of training gives back most of the tensors that it takes."""
FEW = 0.25
"""What answers gives back hardly any."""


def kind_of(program: Program) -> Kind:
    """Training, a prompt or a single token written to a cache, an answer, or none of these.

    A cache is an argument that a part is written to: one position at a time while decoding, many by
    a prompt. Training gives back parameters and the state of an optimizer: results of the types of
    most arguments. The names of arguments say nothing, for every library has its own.
    """
    written = _written(program)
    if written:
        return "decode" if written == 1 else "prefill"
    share = _returned_share(program)
    return "train" if share > MANY else "infer" if share < FEW else "unknown"


def _written(program: Program) -> int:
    """How many positions most of the updates of arguments write; 0 where there are none."""
    arguments = {argument.value for argument in program.arguments}
    sizes = Counter[int]()
    for op in program.ops_named(_UPDATE):
        whole, part = (program.sources[use] for use in program.uses_of(op)[:2])
        if _origin(program, whole) in arguments:
            pairs = zip(program.shape(whole), program.shape(part), strict=True)
            sizes[max((new for old, new in pairs if new != old), default=0)] += 1
    return sizes.most_common(1)[0][0] if sizes else 0


def _origin(program: Program, value: int) -> int:
    """The value that another one is a part or a later state of, as far as it can be followed."""
    seen = set[int]()
    while value not in seen:
        seen.add(value)
        op = program.makers[value]
        if program.kind(op) not in _FOLLOWED:
            break
        sources = [program.sources[use] for use in program.uses_of(op)]
        if program.kind(op) == LOOP_BEGIN:
            value = sources[(value - program.values_of(op).start) % len(sources)]
        elif sources:
            value = sources[0]
    return value


def _returned_share(program: Program) -> float:
    """The part of the floating arguments for which there is a result of the same type."""

    def typed(value: int) -> tuple[tuple[int, ...], str]:
        return program.shape(value), program.dtype(value)

    given = Counter(typed(argument.value) for argument in program.arguments)
    made = Counter(typed(program.sources[result.use]) for result in program.results)
    floats = Counter({one: count for one, count in given.items() if "f" in one[1]})
    return (floats & made).total() / max(floats.total(), 1)
