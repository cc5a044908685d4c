"""Beam search over actions (MetaDist algorithm 2), to compare the tree search with."""

from __future__ import annotations

from costmodel.evaluator import State
from search.problem import Found, Problem, Settings
from search.progress import Control, Progress

PATIENCE = 2
"""Steps without a better state before the search ends: two decisions may pay only together."""
IMPROVED = 1e-9


def beam(problem: Problem, settings: Settings, control: Control) -> Found:
    """Add every action to each of K candidates, keep the K cheapest layouts, and again.

    The candidates of one step are different layouts, none of which an earlier step had.
    """
    cost, measured = problem.cost(())
    best: State = ()
    best_cost, best_peak = cost, measured.peak
    level: list[tuple[float, State]] = [(cost, ())]
    seen = {measured.key}
    evaluations, idle, reason = 1, 0, "converged"
    while level and idle <= PATIENCE and len(level[0][1]) < settings.depth:
        grown: list[tuple[float, State]] = []
        idle += 1
        for _, state in level:
            for action in problem.actions:
                stop = control.stop_reason()
                if stop is None and evaluations >= settings.rollouts:
                    stop = "rollouts"
                if stop is not None:
                    return _found(best, best_cost, evaluations, stop)
                candidate = (*state, action)
                cost, measured = problem.cost(candidate)
                evaluations += 1
                if measured.key in seen:
                    continue
                seen.add(measured.key)
                grown.append((cost, candidate))
                if cost < best_cost * (1 - IMPROVED):
                    best, best_cost, best_peak, idle = candidate, cost, measured.peak, 0
        grown.sort(key=lambda pair: pair[0])
        level = grown[: settings.beam_width]
        control.on_progress(
            Progress(
                stage="search",
                fraction=min(1.0, evaluations / settings.rollouts),
                rollouts=evaluations,
                evaluations=evaluations,
                best_cost=best_cost,
                best_bytes=int(best_peak),
                seconds=control.elapsed(),
            )
        )
    return _found(best, best_cost, evaluations, reason)


def _found(state: State, cost: float, evaluations: int, reason: str) -> Found:
    return Found(
        state=state,
        cost=cost,
        rollouts=evaluations,
        evaluations=evaluations,
        termination=reason,
    )
