"""What the cost model says of a case: with room, on the chip, and pressed as far as it goes."""

from __future__ import annotations

from copy import copy
from typing import Any

from benchmarks.accuracy.cases import Bench
from toast.costmodel.evaluator import Evaluator, State


def predict(bench: Bench, state: State) -> dict[str, Any]:
    """The figures of the accuracy benchmark, and the memory curve.

    `fits` is about the memory of the chip, whatever the plan was made for. `room_bytes` is what is
    laid out with ample memory, `peak_bytes` with that of the chip, `pressed_bytes` with none.
    """
    evaluator = bench.evaluator
    cost = evaluator.cost(state)
    return bench.predict(state) | {
        "fits": cost.peak <= evaluator.device.plannable_bytes,
        "room_bytes": cost.room,
        "pressed_bytes": without_memory(evaluator).cost(state).peak,
    }


def without_memory(evaluator: Evaluator) -> Evaluator:
    """The same for a chip that has no memory, so that all is spared that can be."""
    other = copy(evaluator)
    chip = evaluator.folded.chip._replace(memory=0.0)
    other.folded = evaluator.folded._replace(chip=chip)
    return other
