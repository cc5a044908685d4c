"""Beam search over actions (MetaDist algorithm 2), to compare the tree search with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toast.costmodel.evaluator import State
from toast.search.greedy_and_random import report
from toast.search.problem import Found, Problem, SearchSettings, chunks
from toast.search.progress import Control

PATIENCE = 2
"""Steps without a better state before the search ends: two decisions may pay only together."""
IMPROVED = 1e-9


def beam(problem: Problem, settings: SearchSettings, control: Control) -> Found:
    """Add every action to each of K candidates, keep the K cheapest layouts, and again."""
    return beam_over([(action,) for action in problem.actions], problem, settings, control)


def beam_over(
    moves: Sequence[State], problem: Problem, settings: SearchSettings, control: Control
) -> Found:
    """The same with moves of several actions at once.

    The candidates of one step are different layouts, none of which an earlier step had.
    """
    cost, measured = problem.cost(())
    best: State = ()
    best_cost, best_peak = cost, measured.peak
    level: list[tuple[float, State]] = [(cost, ())]
    seen = {measured.key}
    evaluations, idle = 1, 0
    while level and idle <= PATIENCE:
        grown: list[tuple[float, State]] = []
        idle += 1
        for chunk in chunks(_longer(level, moves, settings.depth)):
            stop = control.stop_reason()
            if stop is None and evaluations >= settings.rollouts:
                stop = "rollouts"
            if stop is not None:
                return Found.after(best, best_cost, evaluations, stop)
            candidates = chunk[: settings.rollouts - evaluations]
            evaluations += len(candidates)
            priced = problem.costs(candidates, settings.threads)
            for candidate, (cost, measured) in zip(candidates, priced, strict=True):
                if measured.key in seen:
                    continue
                seen.add(measured.key)
                grown.append((cost, candidate))
                if cost < best_cost * (1 - IMPROVED):
                    best, best_cost, best_peak, idle = candidate, cost, measured.peak, 0
        grown.sort(key=lambda pair: pair[0])
        level = grown[: settings.beam_width]
        report(control, evaluations, settings, best_cost, best_peak)
    return Found.after(best, best_cost, evaluations, "converged")


def _longer(
    level: Sequence[tuple[float, State]], moves: Sequence[State], depth: int
) -> Iterator[State]:
    for _, state in level:
        for move in moves:
            candidate = (*state, *(action for action in move if action not in state))
            if len(state) < len(candidate) <= depth:
                yield candidate
