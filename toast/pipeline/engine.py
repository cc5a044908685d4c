"""The engine: the child process that parses, plans and may die.

    python -m toast.pipeline.engine DIR                   plan DIR/module as DIR/request.json asks,
                                                          if within DIR/limits.json
    python -m toast.pipeline.engine --spare               get ready, then plan as stdin says
    python -m toast.pipeline.engine --inspect FILE [SET]  what the analysis finds in a module
    python -m toast.pipeline.engine --size DIR            slices of chips, as DIR/request.json asks
    python -m toast.pipeline.engine --pipeline DIR OUT    the stages of a pipeline, likewise, in OUT

Events go to stdout, one JSON object a line: `alive` every second, `ready` of a spare process,
`progress`, `inspection`, `slices`, `stages`, `written` where a plan is in its place and only what
would fit is looked for, then `done` or `error`. Whatever XLA and MLIR print goes to stderr. A line
`{"directory": DIR}` on stdin gives a spare process its job; a line `{"cancel": true}`, the end of
stdin or SIGTERM stops the search, and the best plan so far is written; with a parent that is killed
it ends.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from toast.analysis.errors import InvalidRequest, ToastError, UnsupportedModule
from toast.analysis.parent_death import end_with_parent
from toast.process.confine import confine
from toast.process.limits import EngineLimits
from toast.process.messages import (
    EXIT_USER_ERROR,
    READY,
    Emitter,
    leave,
    one_line,
    take_stdout,
    tell,
)
from toast.process.parent_words import listen_for_cancel, next_directory
from toast.process.traces import StageSpans, parent_of, tracer_of
from toast.request.pipeline_request import PipelineRequest
from toast.request.request import PlanRequest
from toast.request.size_request import SizeRequest

if TYPE_CHECKING:
    from toast.plans.result import PlanResult
    from toast.search.progress import Progress

EXIT_OK, EXIT_BUG = 0, 1
_TOO_DEEP = "The module is nested too deeply to be read: loops, branches or calls within others."
_FLATTER = "Write what repeats as a loop, and lower the step with jax.jit."


def plan_directory(directory: Path, emitter: Emitter, cancelled: Callable[[], bool]) -> None:
    """Plan one job; raises ToastError for what its input is to blame for."""
    emitter.beat()
    try:
        request = PlanRequest.model_validate_json((directory / "request.json").read_bytes())
    except ValueError as error:
        raise InvalidRequest(f"The request does not fit its schema: {error}.") from error
    tracer = tracer_of(os.environ, "toast-worker")
    try:
        with tracer.span("plan", parent=parent_of(directory)), StageSpans(tracer) as stages:
            _plan(directory, request, emitter, cancelled, stages)
    finally:
        tracer.finish()


def _plan(
    directory: Path,
    request: PlanRequest,
    emitter: Emitter,
    cancelled: Callable[[], bool],
    spans: StageSpans,
) -> None:
    module = (directory / "module").read_bytes()
    limits = EngineLimits.of(directory)
    os.nice(limits.nice)
    from toast.pipeline.plan_module import make_plan  # late: a bad request needs no jax
    from toast.pipeline.write_result import write_result

    def on_progress(progress: Progress) -> None:
        spans.enter(progress.stage)
        emitter.progress(progress)

    def keep(result: PlanResult) -> None:
        write_result(directory, result, limits.plan_bytes)
        emitter.emit("written", suffix=result.suffix)

    result = make_plan(
        module,
        request,
        on_progress=on_progress,
        cancelled=cancelled,
        on_plan=keep,
        limits=limits.module,
        cluster=limits.cluster,
    )
    write_result(directory, result, limits.plan_bytes)
    emitter.emit(
        "done",
        suffix=result.suffix,
        fits=result.plan.fits,
        termination=result.plan.search.termination,
    )


def get_ready() -> None:
    """Import and load ahead of the job what every job needs."""
    import toast.pipeline.plan_module  # noqa: F401
    from toast.search.kernel_cache import compile_all, kept_in

    if kept_in() is not None:  # else the job compiles them, and says that it does
        compile_all(lambda _share: None)


def inspect_file(path: Path, emitter: Emitter, which: int = 0) -> None:
    """What the analysis finds in the module at `path`, as one `inspection` event.

    `which` is the compatibility set whose graph is among it.
    """
    from toast.inspect.inspect_module import inspect_module

    inspection = inspect_module(path.read_bytes(), which)
    emitter.emit("inspection", inspection=inspection.model_dump(mode="json"))
    emitter.emit("done")


def size_directory(directory: Path, emitter: Emitter, cancelled: Callable[[], bool]) -> None:
    """What a program takes on slices of chips, as one `slices` event."""
    try:
        request = SizeRequest.model_validate_json((directory / "request.json").read_bytes())
    except ValueError as error:
        raise InvalidRequest(f"The request does not fit its schema: {error}.") from error
    module = (directory / "module").read_bytes()
    from toast.pipeline.advice.size_module import size_module

    table = size_module(module, request, on_progress=emitter.progress, cancelled=cancelled)
    emitter.emit("slices", table=table.model_dump(mode="json"))
    emitter.emit("done")


def pipeline_directory(directory: Path, output: Path, emitter: Emitter) -> None:
    """Cut and plan a pipeline, and write it to `output`; its figures as one `stages` event."""
    try:
        request = PipelineRequest.model_validate_json((directory / "request.json").read_bytes())
    except ValueError as error:
        raise InvalidRequest(f"The request does not fit its schema: {error}.") from error
    module = (directory / "module").read_bytes()
    from toast.pipeline.pipelining.plan_pipeline import PlannedPipeline, plan_pipeline
    from toast.pipeline.pipelining.plan_spmd import PlannedSpmd, plan_spmd
    from toast.search.progress import Progress

    def report(stage: str, share: float) -> None:
        emitter.progress(Progress(stage=stage, fraction=share))

    planned: PlannedPipeline | PlannedSpmd
    if request.form == "spmd":
        planned = plan_spmd(module, request, report)
    else:
        planned = plan_pipeline(module, request, report)
    planned.write(output)
    emitter.emit("stages", answer=planned.answer.model_dump(mode="json"))
    emitter.emit("done")


def main(arguments: list[str]) -> int:
    """The whole process; returns its exit code."""
    confine()  # before the watch on the parent, which a change of rights could end
    end_with_parent()
    emitter = Emitter(take_stdout())
    if arguments == ["--spare"]:
        get_ready()
        emitter.emit(READY)
        directory = next_directory()
        if directory is None:
            return EXIT_OK
        arguments = [str(directory)]
    cancelled = listen_for_cancel()
    try:
        if arguments[:1] == ["--inspect"] and len(arguments) in (2, 3):
            inspect_file(Path(arguments[1]), emitter, *map(int, arguments[2:]))
        elif arguments[:1] == ["--size"] and len(arguments) == 2:
            size_directory(Path(arguments[1]), emitter, cancelled)
        elif arguments[:1] == ["--pipeline"] and len(arguments) == 3:
            pipeline_directory(Path(arguments[1]), Path(arguments[2]), emitter)
        elif len(arguments) == 1:
            plan_directory(Path(arguments[0]), emitter, cancelled)
        else:
            sys.stderr.write(f"{__doc__}\n")
            return EXIT_USER_ERROR
    except ToastError as error:
        return tell(emitter, error)
    except Exception as error:
        traceback.print_exc()
        if _is_too_deep(error):
            return tell(emitter, UnsupportedModule(_TOO_DEEP, _FLATTER))
        reason = one_line(str(error)).rstrip(".")
        emitter.emit(
            "error",
            code="engine_failed",
            message=f"The engine failed on this module: {type(error).__name__}: {reason}.",
            hint="This is a bug of the planner; please report it with the module.",
        )
        return EXIT_BUG
    return EXIT_OK


def _is_too_deep(error: Exception) -> bool:
    """Whether Python's stack ended; MLIR says so in its own words where it called back."""
    return isinstance(error, RecursionError) or "RecursionError: " in str(error)[-1000:]


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
