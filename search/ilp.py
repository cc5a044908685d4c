"""The ILP planner (MetaDist section 3.4.1): solves the relaxation, and prices what it means.

The answer of the relaxation lays out every unit by itself. The state nearest to it takes its
decisions, the evaluator prices that state, and the local search tries single changes of it. What is
reported is the evaluator's price. The optimum of the relaxation is the bound, and their difference
the gap.
"""

from __future__ import annotations

from dataclasses import replace

from toast.costmodel.evaluator import State
from toast.search.greedy_and_random import greedy
from toast.search.local_search import local_search
from toast.search.pairwise.solve import Solution
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control
from toast.search.proof import bound, relax


def ilp(problem: Problem, settings: SearchSettings, control: Control) -> Found:
    """The better of greedy search and of what the ILP's answer means, each after a local search."""
    first = greedy(problem, settings, control)
    best = _polished(problem, first, first.state, first.cost, control)
    if not problem.actions or control.stop_reason() is not None:
        return best
    relaxed = relax(problem, best, settings, control)
    if relaxed is None:
        return replace(best, termination=control.stop_reason() or best.termination)
    relaxation, answer = relaxed
    bounded = bound(best, answer)
    if answer.choice is None:
        return bounded
    state = relaxation.actions(answer.choice)[: settings.depth]
    cost, _ = problem.cost(state)
    found = _polished(problem, bounded, state, cost, control)
    found = found if found.cost < best.cost else replace(bounded, evaluations=found.evaluations)
    return replace(found, termination=control.stop_reason() or _ended(answer))


def _ended(answer: Solution) -> str:
    return "converged" if answer.proved else "budget"


def _polished(problem: Problem, found: Found, state: State, cost: float, control: Control) -> Found:
    improved = local_search(problem, state, cost, control)
    evaluations = found.evaluations + improved.evaluations
    return replace(
        found,
        state=improved.state,
        cost=problem.cost(improved.state)[0],
        rollouts=evaluations,
        evaluations=evaluations,
    )
