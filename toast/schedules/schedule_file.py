"""A schedule as a file: `schedule.json`, which `toast.run_pipeline` and other runners read."""

from __future__ import annotations

import json
from typing import Any

from toast.analysis.errors import InvalidRequest
from toast.schedules.steps import PipelineSchedule, StageStep, Work, check_schedule

VERSION = 1


def schedule_text(schedule: PipelineSchedule) -> str:
    """A schedule as JSON; each step is written as `[work, chunk, microbatch]`."""
    document = {
        "version": VERSION,
        "name": schedule.name,
        "stages": schedule.stages,
        "microbatches": schedule.microbatches,
        "chunks": schedule.chunks,
        "training": schedule.training,
        "steps": [
            [[str(step.work), step.chunk, step.microbatch] for step in steps]
            for steps in schedule.steps
        ],
    }
    return json.dumps(document)


def read_schedule(text: str) -> PipelineSchedule:
    """The schedule that a file holds.

    Raises:
        InvalidRequest: the text is no schedule, or one that leaves out or repeats a step.
    """
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise InvalidRequest(
                f"The schedule's version is {document['version']}, not {VERSION}.",
                "Write it again with this version of toast.",
            )
        found = _read(document)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidRequest(
            "This is not a schedule.", "Give the schedule.json that toast wrote."
        ) from None
    check_schedule(found)
    return found


def _read(document: dict[str, Any]) -> PipelineSchedule:
    steps = tuple(
        tuple(
            StageStep(Work(work), int(chunk), int(microbatch)) for work, chunk, microbatch in some
        )
        for some in document["steps"]
    )
    stages = int(document["stages"])
    if len(steps) != stages:
        raise ValueError
    return PipelineSchedule(
        name=str(document["name"]),
        stages=stages,
        microbatches=int(document["microbatches"]),
        chunks=int(document["chunks"]),
        training=bool(document["training"]),
        steps=steps,
    )
