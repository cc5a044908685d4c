"""Greedy and random search over the same evaluator, to compare the tree search with."""

from __future__ import annotations

import numpy as np

from toast.costmodel.evaluator import State
from toast.search.problem import Found, Problem, SearchSettings, chunks
from toast.search.progress import Control, Progress


def greedy(problem: Problem, settings: SearchSettings, control: Control) -> Found:
    """Append the best single action until none lowers C(s)."""
    state: State = ()
    cost, measured = problem.cost(state)
    evaluations, reason = 1, "converged"
    while len(state) < settings.depth and evaluations < settings.rollouts:
        best = None
        for candidates in chunks((*state, action) for action in problem.actions):
            stop = control.stop_reason()
            if stop is not None:
                return Found.after(state, cost, evaluations, stop)
            evaluations += len(candidates)
            rows = zip(candidates, problem.costs(candidates, settings.threads), strict=True)
            for candidate, (priced, seen) in rows:
                if priced < cost * (1 - 1e-9) and (best is None or priced < best[0]):
                    best = (priced, candidate, seen)
        if best is None:
            break
        cost, state, measured = best
        report(control, evaluations, settings, cost, measured.peak)
    else:
        reason = "rollouts"
    return Found.after(state, cost, evaluations, reason)


def random_search(problem: Problem, settings: SearchSettings, control: Control) -> Found:
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
                return Found.after(best, cost, evaluations, stop, rollouts)
            state = (*state, problem.actions[generator.integers(len(problem.actions))])
            priced, seen = problem.cost(state)
            evaluations += 1
            if priced < cost:
                best, cost, measured = state, priced, seen
        if rollouts % 256 == 0:
            report(control, rollouts, settings, cost, measured.peak)
    return Found.after(best, cost, evaluations, "rollouts", rollouts)


def report(control: Control, done: int, settings: SearchSettings, cost: float, peak: float) -> None:
    """Report how far a search is that counts the states it prices."""
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
