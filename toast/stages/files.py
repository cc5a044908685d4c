"""A cut program as a folder: `pipeline.json`, `schedule.json`, a module for each piece of work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toast.analysis.errors import InvalidRequest
from toast.schedules.schedule_file import read_schedule, schedule_text
from toast.schedules.steps import PipelineSchedule
from toast.stages.wiring import Layout, Phase, PipelineProgram, StageModule

VERSION = 1
PIPELINE, SCHEDULE = "pipeline.json", "schedule.json"
_SUFFIX = ".mlir"


def write_pipeline(
    folder: Path, program: PipelineProgram, texts: Sequence[str], schedule: PipelineSchedule
) -> None:
    """Write the modules of a program, as text in its order, with its wiring and its schedule.

    Raises:
        InvalidRequest: the schedule is not one for this program, or the folder cannot be written.
    """
    check_match(program, schedule)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for wired, text in zip(program.modules, texts, strict=True):
            (folder / f"{wired.name}{_SUFFIX}").write_text(text, encoding="utf-8")
        (folder / SCHEDULE).write_text(schedule_text(schedule), encoding="utf-8")
        document = {"version": VERSION, **asdict(program)}
        (folder / PIPELINE).write_text(json.dumps(document, indent=1), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(
            f"{folder} cannot be written: {error.strerror}.", "Name another folder."
        ) from None


def check_match(program: PipelineProgram, schedule: PipelineSchedule) -> None:
    """Refuse a schedule of another number of stages, chunks or microbatches."""
    for what in ("stages", "chunks", "microbatches", "training"):
        wanted, given = getattr(program, what), getattr(schedule, what)
        if wanted != given:
            raise InvalidRequest(
                f"The schedule says {what} {given}, the program {wanted}.",
                "Make the schedule for this program.",
            )


def read_pipeline(folder: Path) -> tuple[PipelineProgram, PipelineSchedule]:
    """The wiring and the schedule of a folder.

    Raises:
        InvalidRequest: the folder holds no pipeline of this version.
    """
    try:
        document = json.loads((folder / PIPELINE).read_text(encoding="utf-8"))
        program = _read(document)
        schedule = read_schedule((folder / SCHEDULE).read_text(encoding="utf-8"))
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        raise InvalidRequest(
            f"{folder} holds no pipeline.", "Name a folder that toast pipeline wrote."
        ) from None
    check_match(program, schedule)
    return program, schedule


def module_text(folder: Path, module: StageModule) -> str:
    """The StableHLO of one module."""
    try:
        return (folder / f"{module.name}{_SUFFIX}").read_text(encoding="utf-8")
    except OSError:
        raise InvalidRequest(
            f"{folder} lacks {module.name}{_SUFFIX}.", "Write the pipeline again."
        ) from None


def _read(document: dict[str, Any]) -> PipelineProgram:
    if document["version"] != VERSION:
        raise ValueError
    return PipelineProgram(
        stages=int(document["stages"]),
        chunks=int(document["chunks"]),
        microbatches=int(document["microbatches"]),
        training=bool(document["training"]),
        arguments=tuple(document["arguments"]),
        results=tuple(document["results"]),
        layers=tuple(document["layers"]),
        modules=tuple(_module(one) for one in document["modules"]),
        mesh=tuple((str(name), int(size)) for name, size in document["mesh"]),
    )


def _module(document: dict[str, Any]) -> StageModule:
    return StageModule(
        phase=Phase(document["phase"]),
        stage=int(document["stage"]),
        number=int(document["number"]),
        inputs=tuple(document["inputs"]),
        outputs=tuple(document["outputs"]),
        input_specs=_layouts(document["input_specs"]),
        output_specs=_layouts(document["output_specs"]),
    )


def _layouts(document: list[list[list[str]]]) -> tuple[Layout, ...]:
    return tuple(tuple(tuple(axes) for axes in spec) for spec in document)
