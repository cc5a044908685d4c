"""`toast pipeline`: its flags are in `app`; here is what it does and prints."""

from __future__ import annotations

from pathlib import Path

from toast.analysis.errors import InvalidRequest
from toast.api import plan_spmd_stages, plan_stages
from toast.cli.terminal import Answer
from toast.plans.pipeline_answer import pipeline_tables
from toast.plans.spmd_answer import spmd_tables
from toast.request.pipeline_request import PipelineRequest


def write_stages(module: bytes, request: PipelineRequest, output: Path, answer: Answer) -> bool:
    """Plan a pipeline, write it and print its tables; whether it fits."""
    with answer.progress() as bar, answer.interrupts() as interrupt:
        found = plan_stages(module, request, output, bar.update, interrupt)
    answer.document(found.model_dump_json(indent=2))
    answer.tables(pipeline_tables(found))
    answer.written(output, f"Written to {output}; toast.run_pipeline runs it.")
    return found.schedule.fits


def write_one_module(module: bytes, request: PipelineRequest, output: Path, answer: Answer) -> bool:
    """Write a pipeline in one module and print its tables; whether it fits."""
    with answer.progress() as bar, answer.interrupts() as interrupt:
        found = plan_spmd_stages(module, request, output, bar.update, interrupt)
    answer.document(found.model_dump_json(indent=2))
    answer.tables(spmd_tables(found))
    answer.written(output, f"Written to {output}; XLA runs it on the whole mesh.")
    return found.fits


def parse_cuts(text: str | None) -> tuple[int, ...] | None:
    """The layers at which chunks begin, from `3,6,9`."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidRequest(
            f"--cuts {text!r} are no numbers of layers.", "Write them as 3,6,9."
        ) from None
