"""Tree search whose upper actions rewrite the program and whose lower ones shard it.

A node is a rewriting of the program: its batch in parts, layers recomputed. A trajectory takes
rewritings by PUCT, from the program as it is, and ends with rollouts over the shardings of the
program that it came to (TOAST section 4.1). These begin with the plan of the node above. All
programs have one reward, that of the program as it is, so what they cost compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from toast.costmodel.evaluator import Action, Cost, State
from toast.search.infeasible import closest_to_fitting
from toast.search.mcts import IMPROVED, TreeSearch
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control
from toast.search.tree import TINY

R = TypeVar("R", bound=Hashable)

ROUND, ROUNDS = 200, 20
"""Rollouts over shardings at the end of one trajectory, and such rounds of one program at most."""
MAX_TRAJECTORIES = 48
"""More than the rewritings of any program that was tried; each new one is a module to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritingSpace(Generic[R]):
    """The rewritings of a program.

    `moves` are those that one action leads to; `problem` is the program rewritten, None where it
    cannot be. `patience` trajectories in a row may bring nothing once a plan fits.
    """

    moves: Callable[[R], Sequence[R]]
    problem: Callable[[R], Problem | None]
    patience: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRewriting(Generic[R]):
    """A rewriting with the best plan that is known of it."""

    rewriting: R
    problem: Problem
    found: Found

    @property
    def cost(self) -> Cost:
        """What the plan takes."""
        return self.problem.evaluator.cost(self.found.decisions)

    @property
    def value(self) -> float:
        """The logarithm of C(s), lower is better."""
        return math.log(max(self.problem.reward.of(self.cost), TINY))

    def badness(self) -> tuple[float, float]:
        """Bytes above the memory, then seconds."""
        cost = self.cost
        return max(0.0, cost.peak - self.problem.reward.memory), cost.seconds


@dataclass(slots=True, eq=False)
class _Node(Generic[R]):
    """A rewritten program; `search` is that over its shardings, None where it has ended."""

    planned: PlannedRewriting[R]
    moves: list[R]
    search: TreeSearch | None
    children: list[_Node[R]] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0
    best: float = math.inf

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do at this program, nor at those made of it."""
        return not self.moves and self.search is None and all(one.ended for one in self.children)

    def note(self, value: float) -> None:
        """Count a trajectory that came through here."""
        self.visits += 1
        self.total += value
        self.best = min(self.best, value)


class RewritingSearch(Generic[R]):
    """The search as it goes."""

    def __init__(
        self,
        root: PlannedRewriting[R],
        space: RewritingSpace[R],
        settings: SearchSettings,
        control: Control,
    ) -> None:
        self._space = space
        self._settings = replace(settings, rollouts=ROUND * ROUNDS, round_rollouts=ROUND)
        self._control = control
        self._root = _Node(root, list(space.moves(root.rewriting)), None)
        self._root.note(root.value)
        self._nodes: dict[R, _Node[R] | None] = {root.rewriting: self._root}
        self._best, self._vain = root, 0

    @property
    def planned(self) -> list[PlannedRewriting[R]]:
        """Every program that was made, with the best plan known of it; the first is the root."""
        return [node.planned for node in self._nodes.values() if node is not None]

    def run(self) -> PlannedRewriting[R]:
        """Trajectories until they bring nothing more; the best plan of all."""
        for _ in range(MAX_TRAJECTORIES):
            if self._control.stop_reason() is not None or self._root.ended or self._tired():
                break
            self._trajectory()
        return self._best

    def _tired(self) -> bool:
        return self._vain >= self._space.patience and self._best.badness()[0] <= 0

    def _trajectory(self) -> None:
        """Select a node, make a program of it or search its shardings, and back up what it cost."""
        trail = [self._root]
        while not trail[-1].moves and (child := self._selected(trail[-1])) is not None:
            trail.append(child)
        last = trail[-1]
        if last.moves:
            made = self._child(last, last.moves.pop(0))
            if made is None:
                return
            last.children.append(made)
            trail.append(made)
        else:
            self._search_on(last)
        for node in trail:
            node.note(trail[-1].planned.value)
        self._compare(trail[-1].planned)

    def _selected(self, node: _Node[R]) -> _Node[R] | None:
        """The child where PUCT is highest; None for the shardings of the node itself."""
        arms = [child for child in node.children if not child.ended]
        if not arms:
            return None
        low, high = self._range()
        exploration = self._settings.exploration * math.sqrt(node.visits) / (len(arms) + 1)

        def score(value: float, visits: int) -> float:
            return (high - value) / (high - low) + exploration / (1 + visits)

        share = self._settings.max_share
        scores = [
            (score((1 - share) * one.total / one.visits + share * one.best, one.visits), one)
            for one in arms
        ]
        best, child = max(scores, key=lambda pair: pair[0])
        own = node.visits - sum(one.visits for one in node.children)
        if node.search is not None and score(node.planned.value, max(own, 0)) > best:
            return None
        return child

    def _range(self) -> tuple[float, float]:
        """The lowest and the highest value of all programs, never equal."""
        values = [one.value for one in self.planned]
        return min(values), max(*values, min(values) + TINY)

    def _child(self, parent: _Node[R], rewriting: R) -> _Node[R] | None:
        """The node of a rewriting; None where it cannot be made, or is in the tree already."""
        if rewriting in self._nodes:
            return None
        made = self._nodes[rewriting] = self._made(parent, rewriting)
        return made

    def _made(self, parent: _Node[R], rewriting: R) -> _Node[R] | None:
        problem = self._space.problem(rewriting)
        if problem is None:
            return None
        problem = replace(problem, reward=self._root.planned.problem.reward)
        moves = list(self._space.moves(rewriting))
        if not problem.actions:
            found = Found.after((), problem.cost(())[0], 1, "exhausted")
            return _Node(
                PlannedRewriting(rewriting=rewriting, problem=problem, found=found), moves, None
            )
        search = TreeSearch(problem, self._settings, self._control.quiet())
        above = parent.planned
        search.begin_with(carried_over(above.problem, above.found.state, problem))
        reason = search.start()
        planned = self._fitted(rewriting, problem, search.found(reason or "rollouts"))
        return _Node(planned, moves, None if reason is not None else search)

    def _search_on(self, node: _Node[R]) -> None:
        """One more round over the shardings of a program."""
        assert node.search is not None
        reason = node.search.go_on()
        found = node.search.found(reason or "rollouts")
        planned = self._fitted(node.planned.rewriting, node.planned.problem, found)
        if planned.badness() < node.planned.badness():
            node.planned = planned
        if reason is not None:
            node.search = None

    def _fitted(self, rewriting: R, problem: Problem, found: Found) -> PlannedRewriting[R]:
        found = closest_to_fitting(problem, found, self._control, self._settings.threads)
        return PlannedRewriting(rewriting=rewriting, problem=problem, found=found)

    def _compare(self, planned: PlannedRewriting[R]) -> None:
        """Keep the best plan, and count the trajectories since it came."""
        (over, seconds), (best_over, best_seconds) = planned.badness(), self._best.badness()
        near = IMPROVED * self._best.cost.peak
        closer = over < best_over - near or (over == 0 < best_over)
        faster = over == 0 == best_over and seconds < best_seconds * (1 - IMPROVED)
        self._vain = 0 if closer or faster else self._vain + 1
        if closer or faster:
            self._best = planned


def carried_over(source: Problem, state: State, target: Problem) -> State:
    """A plan of one program for another with the same arguments, by the colours of these.

    An action on a colour that no argument has, or that the other program does not offer, is left
    out; so is how conflicts were resolved.
    """
    theirs, ours = _argument_groups(source), _argument_groups(target)
    same: dict[int, int] = {}
    for one, other in zip(theirs, ours, strict=True):
        for group, twin in zip(one, other, strict=True):
            if group >= 0 and twin >= 0:
                same.setdefault(group, twin)
    offered = {(action.group, action.axis): action for action in target.actions}
    found: list[Action] = []
    for action in state:
        twin = same.get(action.group, -1)
        if (twin, action.axis) in offered:
            exact = Action(group=twin, axis=action.axis, bits=action.bits)
            chosen = exact if exact in target.actions else offered[twin, action.axis]
            if chosen not in found:
                found.append(chosen)
    return tuple(found)


def _argument_groups(problem: Problem) -> list[list[int]]:
    """The colour group of each dimension of each argument, -1 for none."""
    analysis = problem.evaluator.analysis
    program, colours = analysis.program, analysis.colours.colour
    found = []
    for argument in program.arguments:
        names = program.def_names(argument.value).tolist()
        own = [int(colours[name]) if name >= 0 else -1 for name in names]
        found.append([int(analysis.groups.of_colour[one]) if one >= 0 else -1 for one in own])
    return found
