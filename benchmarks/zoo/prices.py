"""What the cost model says of a case: with room, on the chip, and pressed as far as it goes."""

from __future__ import annotations

from typing import Any

from benchmarks.accuracy.cases import Bench
from toast.costmodel.evaluator import State


def predict(bench: Bench, state: State) -> dict[str, Any]:
    """The figures of the accuracy benchmark, and the memory curve.

    `fits` is about all of the chip's memory, which is where the compiler refuses, whatever the plan
    was made for. `room_bytes` is what is laid out with ample memory, `peak_bytes` with that of the
    chip, `pressed_bytes` with none.
    """
    evaluator = bench.evaluator
    cost = evaluator.cost(state)
    return bench.predict(state) | {
        "fits": cost.peak <= evaluator.device.usable_bytes,
        "room_bytes": evaluator.room_bytes(state),
        "pressed_bytes": evaluator.pressed_bytes(state),
    }
