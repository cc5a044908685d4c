"""How often each computation of a module runs, and what is fused into what."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from toast.aot.hlo import Computation, HloModule, Instruction

_KNOWN_TRIPS = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d+)"?')
_THROUGH = frozenset({"copy", "bitcast", "convert", "copy-done", "copy-start", "reshape"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A computation that runs `trips` times a step; `fused` when it is the body of a fusion."""

    computation: Computation
    trips: float
    fused: bool
    caller: Instruction | None


def runs(module: HloModule) -> Iterator[Run]:
    """The entry, then all that it calls; reducers and comparators are left out.

    The branches of a conditional are each taken as run once.
    """
    yield from _runs(module, Run(computation=module.entry, trips=1.0, fused=False, caller=None))


def _runs(module: HloModule, run: Run) -> Iterator[Run]:
    yield run
    for instruction in run.computation.instructions:
        trips, fused = run.trips, run.fused or instruction.opcode == "fusion"
        match instruction.opcode:
            case "while":
                trips *= trip_count(module, run.computation, instruction)
                called = instruction.called("body")
            case "conditional":
                called = instruction.called(
                    "branch_computations", "true_computation", "false_computation"
                )
            case "fusion" | "call" | "async-start":
                called = instruction.called("calls", "to_apply")
            case _:
                continue
        for name in called:
            if name in module.computations:
                inner = module.computations[name]
                yield from _runs(
                    module,
                    Run(computation=inner, trips=trips, fused=fused, caller=instruction),
                )


def trip_count(module: HloModule, computation: Computation, loop: Instruction) -> float:
    """How often a `while` runs: what the compiler noted, else read off its condition; else 1."""
    noted = _KNOWN_TRIPS.search(loop.tail)
    if noted is not None:
        return float(noted[1])
    condition = module.computations.get(next(iter(loop.called("condition")), ""))
    body = module.computations.get(next(iter(loop.called("body")), ""))
    if condition is None or body is None:
        return 1.0
    return _counted(computation, loop, condition, body) or 1.0


def _counted(
    computation: Computation, loop: Instruction, condition: Computation, body: Computation
) -> float | None:
    """Trips of a loop whose condition compares one counter with a constant."""
    compare = _source(condition, condition.root)
    if compare is None or compare.opcode != "compare":
        return None
    counter = _source(condition, condition.operand(compare, 0))
    limit = _constant(condition, condition.operand(compare, 1))
    if counter is None or counter.opcode != "get-tuple-element" or limit is None:
        return None
    index = int(counter.attributes().get("index", "-1"))
    first = _initial(computation, loop, index)
    step = _step(body, index)
    if first is None or not step:
        return None
    inclusive = compare.attributes().get("direction") in ("LE", "GE")
    return float(max(0, math.ceil((limit - first) / step + (1 if inclusive else 0))))


def _source(computation: Computation, instruction: Instruction | None) -> Instruction | None:
    """The instruction behind copies and casts."""
    while instruction is not None and instruction.opcode in _THROUGH:
        instruction = computation.operand(instruction, 0)
    return instruction


def _constant(computation: Computation, instruction: Instruction | None) -> int | None:
    found = _source(computation, instruction)
    if found is None or found.opcode != "constant":
        return None
    text = found.inside.strip()
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _initial(computation: Computation, loop: Instruction, index: int) -> int | None:
    start = computation.operand(loop, 0)
    if start is None or start.opcode != "tuple":
        return None
    return _constant(computation, computation.operand(start, index))


def _step(body: Computation, index: int) -> int | None:
    """What one run of the body adds to the counter."""
    following = _source(body, body.operand(body.root, index))
    if following is None or following.opcode not in ("add", "subtract"):
        return None
    steps = [_constant(body, body.operand(following, side)) for side in (0, 1)]
    step = next((value for value in steps if value is not None), None)
    return None if step is None else -step if following.opcode == "subtract" else step
