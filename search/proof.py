"""A lower bound on C(s) of every state, for the plan of any planner: the relaxation's optimum."""

from __future__ import annotations

import math
from dataclasses import replace

from toast.search.background_task import in_background
from toast.search.pairwise.bound import lower_bounds
from toast.search.pairwise.proofs import BRANCHED, Proof
from toast.search.pairwise.solve import Solution, solve
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control, Progress
from toast.search.relaxation import Relaxation

SAFETY = 1e-6
"""Taken off a bound, relatively: the tolerances of the linear program."""
FINISH = 0.2
"""Part of a budget that is left for what comes after the integer program."""


def prove(problem: Problem, found: Found, settings: SearchSettings, control: Control) -> Found:
    """The found state with a bound that no state of the problem is below, where time allows one."""
    if found.bound is not None or control.stop_reason() is not None:
        return found
    if not problem.actions:
        return replace(found, bound=found.cost, relaxation=BRANCHED)
    _, measured = problem.cost(found.state)
    control.on_progress(
        Progress(
            stage="search",
            rollouts=found.rollouts,
            evaluations=found.evaluations,
            best_cost=found.cost,
            best_bytes=int(measured.peak),
            seconds=control.elapsed(),
        )
    )
    start, seconds = control.elapsed(), settings.proof_seconds
    if control.budget is not None:
        seconds = (control.budget - start) * (1 - FINISH)

    proved: list[tuple[float, Proof]] = []

    def work() -> None:
        instance = Relaxation(problem, found.state).instance()
        left = seconds - (control.elapsed() - start)
        for proof in lower_bounds(instance, found.cost, seconds=left, stopped=stopped):
            proved.append(proof)

    def stopped() -> bool:
        return control.stop_reason() is not None

    in_background(work, control)
    if not proved:
        return found
    lowest, relaxation = proved[-1]
    return replace(found, bound=min(lowest * (1 - SAFETY), found.cost), relaxation=relaxation)


def relax(
    problem: Problem, best: Found, settings: SearchSettings, control: Control
) -> tuple[Relaxation, Solution] | None:
    """The relaxation with the best state as reference, and its answer in the time that is left.

    None where the search must stop before there is one.
    """
    start, seconds = control.elapsed(), settings.ilp_seconds
    if control.budget is not None:
        seconds = (control.budget - start) * (1 - FINISH)

    def report(_: float) -> None:
        if control.stop_reason() is None:
            control.on_progress(
                Progress(
                    stage="search",
                    fraction=min(1.0, (control.elapsed() - start) / max(seconds, 1e-9)),
                    rollouts=best.rollouts,
                    evaluations=best.evaluations,
                    best_cost=best.cost,
                    best_bytes=peak,
                    seconds=control.elapsed(),
                )
            )

    def work() -> tuple[Relaxation, Solution]:
        relaxation = Relaxation(problem, best.state)
        answer = solve(
            relaxation.instance(),
            seconds=seconds - (control.elapsed() - start),
            seed=settings.seed,
            threads=settings.threads,
            start=relaxation.choice(best.state),
            stopped=lambda: control.stop_reason() is not None,
            report=report,
        )
        return relaxation, answer

    peak = int(problem.cost(best.state)[1].peak)
    return in_background(work, control)


def bound(found: Found, answer: Solution) -> Found:
    """The same state with the bound that an answer of its relaxation proves."""
    if not math.isfinite(answer.bound) or answer.bound < 0.0:  # no step takes less than no time
        return found
    lowest = min(answer.bound * (1 - SAFETY), found.cost)
    return replace(found, bound=lowest, relaxation=answer.relaxation)
