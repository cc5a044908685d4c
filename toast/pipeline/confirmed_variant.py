"""Where the compiler refuses a rewriting that is predicted to fit, another one is looked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from toast.pipeline.confirm import Confirmer
from toast.pipeline.mesh_search import MeshAnswer
from toast.pipeline.variant_search import Chosen
from toast.plans.confirmation import Confirmation
from toast.request.request import PlanRequest

FURTHER = 2
"""So often rewritings are searched again, with the memory that the compiler taught."""
Again = Callable[[PlanRequest], Chosen]
"""Chooses among the rewritings of the program by a request with less memory."""


def with_compiler(
    confirmer: Confirmer, chosen: Chosen, again: Again
) -> tuple[Chosen, Confirmation]:
    """What the compiler takes of the chosen rewriting; of another one where it refuses that.

    Others are looked for where the request lets plans be rewritten so that they fit.
    """
    request = chosen.job.request
    chosen, record = _confirmed(confirmer, chosen, 0.0)
    for _ in range(FURTHER if request.fit else 0):
        memory = min((row.memory_bytes for row in record.corrections), default=None)
        if record.fits is not False or memory is None:
            break
        other = again(request.model_copy(update={"memory": memory}))
        if other.variant == chosen.variant:
            break
        chosen, further = _confirmed(confirmer, _within(other, chosen, request), record.seconds)
        record = record.before(further)
    return chosen, record


def _confirmed(confirmer: Confirmer, chosen: Chosen, spent: float) -> tuple[Chosen, Confirmation]:
    """The plan that the compiler takes of one rewriting, and what it compiled."""
    answer, record = confirmer.confirm(chosen.module, chosen.job, chosen.answer, spent)
    flags = {"rewriting": chosen.variant.flags}
    rows = [row.model_copy(update=flags) for row in record.plans]
    return replace(chosen, answer=answer), record.model_copy(update={"plans": rows})


def _within(other: Chosen, first: Chosen, request: PlanRequest) -> Chosen:
    """A choice of a search with less memory, held against the memory of the request."""
    memory = first.answer.best.problem.reward.memory
    best = other.answer.best
    reward = replace(best.problem.reward, memory=memory)
    answer: MeshAnswer = replace(
        other.answer, best=replace(best, problem=replace(best.problem, reward=reward))
    )
    return replace(other, job=replace(other.job, request=request), answer=answer)
