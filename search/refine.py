"""Local improvement below the colour level: single sites get a layout of their own.

An action shards all dimensions of a colour group. A refinement moves one axis at one site: a
parameter, with or without its moments; a value that is gathered, or kept sharded; an op. Or it
resolves one compatibility set otherwise than the symmetric sets of its group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from toast.costmodel.evaluator import Refined, Refinement
from toast.costmodel.journal import ROW, SIZE, TABLE, Entry
from toast.costmodel.resolved import ResolvedPlan, resolve
from toast.search.background_task import in_background
from toast.search.decision_sites import SiteMembers, Thing, decision_sites, marks
from toast.search.infeasible import for_the_peak
from toast.search.local_search import MIN_GAIN
from toast.search.problem import Found, Problem
from toast.search.progress import Control
from toast.search.refinement_moves import Refinements
from toast.search.set_resolutions import set_resolutions

MAX_PLACES = 64
MAX_EVALUATIONS = 600
"""States that may be priced: a small part of what the search before has priced."""

Term = tuple[int, int, bool]
"""(tensor as it is, as it is wanted or -1, whether it is an op that leaves it as it is)."""


def refine(problem: Problem, found: Found, control: Control) -> tuple[Problem, Found]:
    """The state with the refinements that pay, and the problem whose evaluator knows their units.

    The problem is the one that came in where no refinement lowers C(s) by `MIN_GAIN`; where the
    state does not fit, its peak is what counts first. A bound is one of whole colours, and does not
    hold for what this finds: with refinements there is none.
    """
    if control.stop_reason() is not None:
        return problem, found
    things = SiteMembers(problem.evaluator)
    resolved = resolve(problem.evaluator, found.state)
    spots = decision_sites(things, _seeds(problem, resolved, things), MAX_PLACES)
    sets = set_resolutions(problem.evaluator, found.state, things)
    if not spots and not sets:
        return problem, found
    fine = marks([spot.things for spot in spots], [side.things for side in sets])
    evaluator = in_background(lambda: problem.evaluator.marked(fine), control)
    if evaluator is None:
        return problem, found
    finer = replace(problem, evaluator=evaluator)
    judged = for_the_peak(finer) if _too_large(problem, resolved) else finer
    better = _climb(judged, found, Refinements(evaluator, things, spots, sets), control)
    if not better.refinements:
        return problem, replace(found, evaluations=better.evaluations)
    cost = finer.value(better.decisions)
    if cost >= found.cost:
        return problem, replace(found, evaluations=better.evaluations)
    return finer, replace(better, cost=cost, bound=None, relaxation=None)


def _too_large(problem: Problem, resolved: ResolvedPlan) -> bool:
    return resolved.cost.peak > problem.reward.memory


def _climb(problem: Problem, found: Found, refinements: Refinements, control: Control) -> Found:
    """Price each refinement by itself, take what pays, the best first; then what that opened."""
    taken: Refined = found.state
    cost = problem.value(taken)
    tried: set[Refinement] = set()
    evaluations, better = 1, True
    while better:
        better = False
        paying: list[tuple[float, Refinement]] = []
        for refinement in refinements.open(problem.evaluator.masks(taken)):
            if evaluations >= MAX_EVALUATIONS or control.stop_reason() is not None:
                break
            if refinement in tried:
                continue
            tried.add(refinement)
            evaluations += 1
            priced = problem.value((*taken, refinement))
            if priced < cost * (1 - MIN_GAIN):
                paying.append((priced, refinement))
        for _, refinement in sorted(paying, key=lambda pair: pair[0]):
            evaluations += 1
            priced = problem.value((*taken, refinement))
            if priced < cost * (1 - MIN_GAIN):
                taken, cost, better = (*taken, refinement), priced, True
    return replace(
        found,
        refinements=tuple(one for one in taken if isinstance(one, Refinement)),
        cost=cost,
        evaluations=found.evaluations + evaluations,
    )


def _seeds(problem: Problem, resolved: ResolvedPlan, things: SiteMembers) -> Iterator[Thing]:
    """What communicates or is alive at a peak that is too high, what costs most first."""
    costs: dict[Term, float] = {}
    for term, cost in _terms(problem, resolved):
        costs[term] = costs.get(term, 0.0) + cost
    for term in sorted(costs, key=lambda term: -costs[term]):
        yield from _things_of(things, *term)


def _terms(problem: Problem, resolved: ResolvedPlan) -> Iterator[tuple[Term, float]]:
    """The terms of C(s) that a refinement may change, and what each adds to it."""
    reward, t = problem.reward, problem.evaluator.tables
    journal = resolved.journal
    for sent in resolved.collectives:
        cost = sent.seconds / reward.seconds
        if sent.table is Entry.EDGE:
            target = int(t.reshards.target[t.reshards.target_start[sent.row] + sent.place])
            yield (int(t.reshards.source[sent.row]), target, False), cost
        elif sent.table is Entry.PARTIAL:
            result = int(t.partial_sums.result_start[sent.row]) + sent.place
            made, kept = t.partial_sums.computed[result], t.partial_sums.defined[result]
            yield (int(made), int(kept), True), cost
    if not _too_large(problem, resolved):
        return
    for row in journal[np.isin(journal[:, TABLE], (Entry.BASE, Entry.LIVE))]:
        column = t.arguments.tensor if row[TABLE] == Entry.BASE else t.live_ranges.tensor
        cost = reward.penalty * float(row[SIZE]) / reward.peak
        yield (int(column[int(row[ROW])]), -1, False), cost


def _things_of(things: SiteMembers, have: int, want: int, made: bool) -> Iterator[Thing]:
    """The values of a term, and the ops that they come from or go to."""
    layouts = things.layouts
    column = layouts.result_tensor if made else layouts.value_tensor
    for value in np.flatnonzero(column == have).tolist():
        if want < 0:
            yield "value", value
        elif made and layouts.value_tensor[value] == want:
            yield "value", value
            yield "op", int(things.program.value_op[value])
        elif not made:
            uses = [use for use in things.uses(value) if layouts.use_tensor[use] == want]
            if uses:
                yield "value", value
            for use in uses:
                yield things.user_of(use)
