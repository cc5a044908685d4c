"""From a plan to another of its choices."""

from __future__ import annotations

from toast.analysis.errors import InvalidRequest
from toast.plans.plan import Plan
from toast.request.request import PlanRequest


def request_of(plan: Plan, number: int) -> PlanRequest:
    """The request that makes choice `number` (from 1) of a plan; raises `InvalidRequest`."""
    if plan.request is None or not plan.choices:
        raise InvalidRequest(
            "The plan has no choices; it was written by an earlier version.", "Plan again."
        )
    if not 1 <= number <= len(plan.choices):
        raise InvalidRequest(
            f"There is no choice {number}: the plan has {len(plan.choices)}.",
            "Take a number of its table of choices; the first is 1.",
        )
    recomputed = [] if plan.recompute is None else plan.recompute.groups
    chosen = [tried.mesh for tried in plan.meshes if tried.chosen]
    changes = {
        "mesh": chosen[0] if chosen else plan.request.mesh,
        "decisions": tuple(plan.choices[number - 1].decisions),
        "budget": None,
        "prove": False,
        "confirm": None,
        "confirm_time": None,
        "fit": False,
        "microbatches": None if plan.time is None else plan.time.microbatches,
        "recompute": tuple(f"{one.name}={one.policy}" for one in recomputed),
    }
    return plan.request.model_copy(update=changes)


def with_choices(new: Plan, plan: Plan, number: int) -> Plan:
    """The plan of choice `number` with the choices and meshes of the plan that it was chosen of."""
    choices = [
        choice.model_copy(update={"chosen": index == number})
        for index, choice in enumerate(plan.choices, 1)
    ]
    tried = plan.time.tried if plan.time is not None else []
    time = None if new.time is None else new.time.model_copy(update={"tried": tried})
    recompute = new.recompute
    if recompute is not None and plan.recompute is not None:
        recompute = recompute.model_copy(update={"tried": plan.recompute.tried})
    changed = {"choices": choices, "meshes": plan.meshes, "time": time, "recompute": recompute}
    return new.model_copy(update=changed)
