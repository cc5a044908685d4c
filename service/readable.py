"""What this version of the service understands of a request, its own or one of another version."""

from __future__ import annotations

import functools
import json
from typing import Any

from pydantic import ValidationError

from toast.analysis.errors import InvalidRequest, ToastError
from toast.costmodel.compiler_passes import known_passes
from toast.costmodel.hardware import devices
from toast.costmodel.network.auto_mesh import meshes
from toast.request.request import PlanRequest

PLANNERS = ("mcts", "greedy", "beam", "ilp", "random")
"""The names of `toast.search.planners.PLANNERS`, whose import here would load the kernels."""


def check_names(request: PlanRequest) -> None:
    """Raise the `ToastError` of the engine for a chip, mesh, planner or pass that is not known."""
    # Known names only: the path of a file would be read on the server.
    meshes(request.mesh, devices.known(request.device), request.slices)
    known_passes(request.without)
    if request.planner not in PLANNERS:
        names = ", ".join(PLANNERS)
        raise InvalidRequest(f"There is no planner {request.planner!r}.", f"Known: {names}.")


def why_unreadable(request: dict[str, Any]) -> str | None:
    """What of the stored request of a job this version does not understand; None for nothing."""
    return _why(json.dumps(request, sort_keys=True))


@functools.lru_cache(maxsize=4096)
def _why(text: str) -> str | None:
    try:
        check_names(PlanRequest.model_validate_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][:1]) or "request"
        return f"{name}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    except ToastError as error:
        return error.message
    return None
