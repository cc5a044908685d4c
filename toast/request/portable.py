"""A request as it is written down for readers of other versions."""

from __future__ import annotations

from typing import Any

from toast.request.request import PlanRequest

_FIRST = frozenset(
    {
        "mesh", "device", "memory", "seed", "rollouts", "budget", "threads", "planner", "penalty",
        "overlap", "pins", "forbid", "prove", "decisions", "refine",
    }
)  # fmt: skip
"""The settings of version 0.2.0, which every reader knows. The list does not grow."""


def portable(request: PlanRequest) -> dict[str, Any]:
    """The settings, but for later ones that are at their defaults.

    A reader that does not know a setting can so do without it where nobody gave it. A default may
    therefore change only together with the rows that wait for it.
    """
    fields = PlanRequest.model_fields
    left_out = {
        name
        for name, field in fields.items()
        if name not in _FIRST and getattr(request, name) == field.get_default()
    }
    return request.model_dump(exclude=left_out)
