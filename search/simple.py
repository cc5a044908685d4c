"""Greedy and random search over the same evaluator, to compare the tree search with."""

from __future__ import annotations

import numpy as np

from costmodel.evaluator import State
from search.problem import Found, Problem, Settings
from search.progress import Control, Progress


def greedy(problem: Problem, settings: Settings, control: Control) -> Found:
    """Append the best single action until none lowers C(s)."""
    state: State = ()
    cost, measured = problem.cost(state)
    evaluations, reason = 1, "converged"
    while len(state) < settings.depth and evaluations < settings.rollouts:
        best = None
        for action in problem.actions:
            stop = control.stop_reason()
            if stop is not None:
                return _found(state, cost, evaluations, stop)
            candidate = (*state, action)
            priced, seen = problem.cost(candidate)
            evaluations += 1
            if priced < cost * (1 - 1e-9) and (best is None or priced < best[0]):
                best = (priced, candidate, seen)
        if best is None:
            break
        cost, state, measured = best
        _report(control, evaluations, settings, cost, measured.peak)
    else:
        reason = "rollouts"
    return _found(state, cost, evaluations, reason)


def random_search(problem: Problem, settings: Settings, control: Control) -> Found:
    """Price random trajectories and keep the best prefix."""
    generator = np.random.default_rng(settings.seed)
    best: State = ()
    cost, measured = problem.cost(best)
    evaluations, rollouts = 1, 0
    while rollouts < settings.rollouts and problem.actions:
        state: State = ()
        rollouts += 1
        while len(state) < settings.depth and generator.random() >= settings.stop_chance:
            stop = control.stop_reason()
            if stop is not None:
                return _found(best, cost, evaluations, stop, rollouts)
            state = (*state, problem.actions[generator.integers(len(problem.actions))])
            priced, seen = problem.cost(state)
            evaluations += 1
            if priced < cost:
                best, cost, measured = state, priced, seen
        if rollouts % 256 == 0:
            _report(control, rollouts, settings, cost, measured.peak)
    return _found(best, cost, evaluations, "rollouts", rollouts)


def _report(control: Control, done: int, settings: Settings, cost: float, peak: float) -> None:
    control.on_progress(
        Progress(
            stage="search",
            fraction=min(1.0, done / settings.rollouts),
            rollouts=done,
            evaluations=done,
            best_cost=cost,
            best_bytes=int(peak),
            seconds=control.elapsed(),
        )
    )


def _found(
    state: State, cost: float, evaluations: int, reason: str, rollouts: int | None = None
) -> Found:
    return Found(
        state=state,
        cost=cost,
        rollouts=evaluations if rollouts is None else rollouts,
        evaluations=evaluations,
        termination=reason,
    )
