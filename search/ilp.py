"""The ILP planner (MetaDist section 3.4.1): solves the relaxation, and prices what it means.

The answer of the relaxation lays out every unit by itself; the state nearest to it takes its
decisions, the evaluator prices that state, and single changes of it are tried. What is reported is
the evaluator's price; the optimum of the relaxation is the bound, and their difference the gap.
"""

from __future__ import annotations

import math
from dataclasses import replace

from costmodel.evaluator import State
from search.pairwise.solve import Answer, solve
from search.polish import polish
from search.problem import Found, Problem, Settings
from search.progress import Control, Progress
from search.relaxation import Relaxation
from search.simple import greedy

SAFETY = 1e-6
"""Taken off a bound, relatively: the tolerances of the linear program."""
FINISH = 0.2
"""Part of a budget that is left for what comes after the integer program."""


def ilp(problem: Problem, settings: Settings, control: Control) -> Found:
    """The better of greedy search and of what the ILP's answer means, each polished."""
    first = greedy(problem, settings, control)
    best = _polished(problem, first, first.state, first.cost, control)
    if not problem.actions or control.stop_reason() is not None:
        return best
    relaxation = Relaxation(problem, best.state)
    answer = _solve(relaxation, best, settings, control)
    bounded = bound(best, answer)
    if answer.choice is None:
        return bounded
    state = relaxation.actions(answer.choice)[: settings.depth]
    cost, _ = problem.cost(state)
    found = _polished(problem, bounded, state, cost, control)
    found = found if found.cost < best.cost else replace(bounded, evaluations=found.evaluations)
    return replace(found, termination=control.stop_reason() or _ended(answer))


def bound(found: Found, answer: Answer) -> Found:
    """The same state with the bound that an answer of its relaxation proves."""
    if not math.isfinite(answer.bound):
        return found
    lowest = min(answer.bound * (1 - SAFETY), found.cost)
    return replace(found, bound=lowest, relaxation=answer.relaxation)


def _ended(answer: Answer) -> str:
    return "converged" if answer.proved else "budget"


def _solve(relaxation: Relaxation, best: Found, settings: Settings, control: Control) -> Answer:
    seconds = settings.ilp_seconds
    if control.budget is not None:
        seconds = (control.budget - control.elapsed()) * (1 - FINISH)

    def report(_: float) -> None:
        control.on_progress(
            Progress(
                stage="search",
                fraction=min(1.0, control.elapsed() / seconds),
                rollouts=best.rollouts,
                evaluations=best.evaluations,
                best_cost=best.cost,
                seconds=control.elapsed(),
            )
        )

    return solve(
        relaxation.instance(),
        seconds=seconds,
        seed=settings.seed,
        start=relaxation.choice(best.state),
        stopped=lambda: control.stop_reason() is not None,
        report=report,
    )


def _polished(problem: Problem, found: Found, state: State, cost: float, control: Control) -> Found:
    polished = polish(problem, state, cost, control)
    evaluations = found.evaluations + polished.evaluations
    return replace(
        found,
        state=polished.state,
        cost=problem.cost(polished.state)[0],
        rollouts=evaluations,
        evaluations=evaluations,
    )
