"""The known schedules: GPipe, 1F1B, and 1F1B with several chunks on each stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from toast.analysis.errors import InvalidRequest
from toast.schedules.steps import PipelineSchedule, StageStep, Work

GPIPE, ONE_F_ONE_B, INTERLEAVED = "gpipe", "1f1b", "interleaved"
NAMES = (GPIPE, ONE_F_ONE_B, INTERLEAVED)
Steps = list[StageStep]


def make_schedule(
    name: str, stages: int, microbatches: int, *, chunks: int = 1, training: bool = True
) -> PipelineSchedule:
    """The schedule of a name for so many stages, microbatches, and chunks on each stage.

    Raises:
        InvalidRequest: the name is not known, a number is not positive, or the schedule does not
            take that many chunks or microbatches.
    """
    if name not in NAMES:
        raise InvalidRequest(f"No schedule is called {name!r}.", f"Use one of {', '.join(NAMES)}.")
    for number, what in ((stages, "stages"), (microbatches, "microbatches"), (chunks, "chunks")):
        if number < 1:
            raise InvalidRequest(
                f"A pipeline of {number} {what} does nothing.", f"Give more {what}."
            )
    _check_chunks(name, stages, microbatches, chunks)
    order = _ORDERS[name] if training else _forward_only
    steps = tuple(
        (
            *order(stage, stages, microbatches, chunks),
            *_updates(stage, stages, chunks, training),
        )
        for stage in range(stages)
    )
    return PipelineSchedule(
        name=name,
        stages=stages,
        microbatches=microbatches,
        chunks=chunks,
        training=training,
        steps=steps,
    )


def _check_chunks(name: str, stages: int, microbatches: int, chunks: int) -> None:
    if chunks > 1 and name != INTERLEAVED:
        raise InvalidRequest(
            f"The schedule {name} has one chunk on each stage, not {chunks}.",
            f"Use {INTERLEAVED} for several.",
        )
    if chunks > 1 and microbatches % stages:
        raise InvalidRequest(
            f"{microbatches} microbatches are no multiple of {stages} stages.",
            f"{INTERLEAVED} needs that; give {_next_multiple(microbatches, stages)} microbatches.",
        )


def _next_multiple(number: int, of: int) -> int:
    return -(-number // of) * of


def _updates(stage: int, stages: int, chunks: int, training: bool) -> Iterable[StageStep]:
    """The optimizer's steps of a stage, of which each waits for all gradients of its chunk."""
    if training:
        for number in range(chunks):
            yield StageStep(Work.OPTIMIZER, stage + number * stages)


def _forward_only(stage: int, stages: int, microbatches: int, chunks: int) -> Steps:
    if chunks == 1:
        return [StageStep(Work.FORWARD, stage, number) for number in range(microbatches)]
    return _interleaved_passes(stage, stages, microbatches, chunks)[0]


def _gpipe(stage: int, _: int, microbatches: int, __: int) -> Steps:
    """All microbatches forward, then all backward (Huang et al., 2019)."""
    forward = [StageStep(Work.FORWARD, stage, number) for number in range(microbatches)]
    return forward + [StageStep(Work.BACKWARD, stage, number) for number in range(microbatches)]


def _one_f_one_b(stage: int, stages: int, microbatches: int, _: int) -> Steps:
    """As few forward steps ahead as keep the stages behind busy (Narayanan et al., 2019)."""
    forward = [StageStep(Work.FORWARD, stage, number) for number in range(microbatches)]
    backward = [StageStep(Work.BACKWARD, stage, number) for number in range(microbatches)]
    return _alternated(forward, backward, stages - stage - 1)


def _alternated(forward: Steps, backward: Steps, ahead: int) -> Steps:
    """So many forward steps `ahead`, then one of each in turn, then the backward steps left."""
    ahead = min(ahead, len(forward))
    steps = forward[:ahead]
    for one, other in zip(forward[ahead:], backward, strict=False):
        steps += [one, other]
    return steps + backward[len(forward) - ahead :]


def _interleaved_passes(
    stage: int, stages: int, microbatches: int, chunks: int
) -> tuple[Steps, Steps]:
    """As many microbatches as there are stages go through a chunk, then through the next one."""
    forward: Steps = []
    backward: Steps = []
    for first in range(0, microbatches, stages):
        for number in range(chunks):
            here, back = stage + number * stages, stage + (chunks - 1 - number) * stages
            some = range(first, first + stages)
            forward += [StageStep(Work.FORWARD, here, microbatch) for microbatch in some]
            backward += [StageStep(Work.BACKWARD, back, microbatch) for microbatch in some]
    return forward, backward


def _interleaved(stage: int, stages: int, microbatches: int, chunks: int) -> Steps:
    """1F1B over chunks of a stage in turn (Narayanan et al., 2021)."""
    if chunks == 1:
        return _one_f_one_b(stage, stages, microbatches, chunks)
    forward, backward = _interleaved_passes(stage, stages, microbatches, chunks)
    ahead = (stages - stage - 1) * 2 + (chunks - 1) * stages
    return _alternated(forward, backward, ahead)


_ORDERS: dict[str, Callable[[int, int, int, int], Steps]] = {
    GPIPE: _gpipe,
    ONE_F_ONE_B: _one_f_one_b,
    INTERLEAVED: _interleaved,
}
