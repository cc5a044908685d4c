"""The small model and the request that tests of planning start from."""

from __future__ import annotations

from functools import cache

from examples import gemma
from toast.request.request import PlanRequest


def request(**changes: object) -> PlanRequest:
    """Eight processors, one thread and some hundred rollouts, but for the changes."""
    fields: dict[str, object] = {
        "mesh": "data=2,model=4",
        "device": "cpu",
        "threads": 1,
        "rollouts": 800,
    }
    return PlanRequest.model_validate(fields | changes)


@cache
def gemma_text() -> bytes:
    """A training step of Gemma at its smallest, as text with locations."""
    return gemma.lower(gemma.PRESETS["tiny"]).as_text(debug_info=True).encode()
