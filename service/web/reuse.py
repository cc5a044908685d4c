"""When two requests ask for the same plan: the keys of the cache of results."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

import toast
from toast.request.request import PlanRequest
from toast.service.context import Context
from toast.service.ledger.records import Job, NewJob

_EFFORT = ("seed", "searches", "rollouts", "budget", "threads", "confirm_time")
"""The settings that say how long and from where to search, not what is asked for."""

_NO_PLANNER = ("service", "cli", "__pycache__")
"""Rooms that no plan depends on."""
_LIBRARIES = ("jax", "jaxlib", "numpy", "numba")


def cache_keys(module: str, request: PlanRequest) -> tuple[str, str]:
    """The keys for `any` and for `exact`: equal for requests that may share a result."""
    settings = request.model_dump()
    question = {name: value for name, value in settings.items() if name not in _EFFORT}
    return _digest("any", module, question), _digest("exact", module, settings)


def source_of(context: Context, new: NewJob) -> Job | None:
    """The newest job whose result may be given to `new` and whose files are there."""
    for job in context.store.reusable(new):
        digests = (job.plan_sha256, job.result_sha256)
        if all(digest and context.artifacts.path(digest).exists() for digest in digests):
            return job
    return None


@functools.cache
def planner_version() -> str:
    """A digest of the planner's files and of the libraries that it computes with."""
    digest = hashlib.sha256()
    package = Path(toast.__file__).parent
    for folder, rooms, files in os.walk(package, followlinks=True):
        rooms[:] = sorted(room for room in rooms if room not in _NO_PLANNER)
        for file in sorted(files):
            digest.update(file.encode() + (Path(folder) / file).read_bytes())
    for library in _LIBRARIES:
        digest.update(f"{library} {metadata.version(library)}".encode())
    return digest.hexdigest()


def _digest(mode: str, module: str, settings: dict[str, Any]) -> str:
    said = json.dumps([mode, module, settings, planner_version()], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()
