"""Tree search whose upper actions rewrite the program and whose lower ones shard it.

A node is a rewriting of the program: its batch in parts, layers recomputed. A trajectory takes
rewritings by PUCT, from the program as it is, and ends with a new program (TOAST section 4.1). All
programs have one reward, that of the program as it is, so what they cost compares.

A new program begins with the plan of the one above, improved where that is near. Only one that
leads, or nearly so, gets rollouts over its shardings, and the best goes on with them at the end.
One that cannot lead is not made at all: it joins two rewritings that are too slow together, or does
all that a slower one does. One that fits and is slower than the program above is not rewritten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from toast.costmodel.evaluator import Cost
from toast.search.carried_over import carried_over
from toast.search.infeasible import closest_to_fitting
from toast.search.mcts import IMPROVED, TreeSearch
from toast.search.problem import Found, Problem, SearchSettings
from toast.search.progress import Control
from toast.search.tree import TINY

R = TypeVar("R", bound=Hashable)

ROUND, ROUNDS = 200, 20
"""Rollouts over the shardings of a program that leads, and such rounds of one program at most."""
MAX_TRAJECTORIES = 48
"""More than the rewritings of any program that was tried; each new one is a module to be read."""
NEAR = 0.04
"""A search of its own brings a program, carried over from the one above, about so much at most."""
SLOWER = 0.02
"""What takes by this part longer than the program above is not rewritten any further."""
SURE, SQUEEZED = 0.9, 0.75
"""Two rewritings together take at least this part of the product of what each of them takes, where
both fit; and where one does not, so that it may have given time for bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritingSpace(Generic[R]):
    """The rewritings of a program.

    `moves` are those that one action leads to from one that is planned; `problem` is the program
    rewritten, None where it cannot be. `patience` trajectories in a row may bring nothing once a
    plan fits. `joins` are the two rewritings that one makes at once, None for one that does not.
    `covers` tells whether the first of two does all that the second does: laid out alike, it takes
    no less time.
    """

    moves: Callable[[PlannedRewriting[R]], Sequence[R]]
    problem: Callable[[R], Problem | None]
    patience: int
    joins: Callable[[R], tuple[R, R] | None] = lambda _: None
    covers: Callable[[R, R], bool] = lambda _one, _other: False


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

    @property
    def fastest(self) -> float:
        """Seconds of the fastest layout that was priced, whether it fits or not."""
        return min([self.cost.seconds, *(one.seconds for one in self.problem.front.points())])

    def badness(self) -> tuple[float, float]:
        """Bytes above the memory, then seconds."""
        cost = self.cost
        return max(0.0, cost.peak - self.problem.reward.memory), cost.seconds


@dataclass(slots=True, eq=False)
class _Node(Generic[R]):
    """A rewritten program.

    `moves` are those that are left; `search` is over its shardings, None where it has ended.
    """

    planned: PlannedRewriting[R]
    moves: list[R]
    search: TreeSearch | None
    children: list[_Node[R]] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0
    best: float = math.inf

    @property
    def ended(self) -> bool:
        """Whether no program is left to be made of this one, nor of those made of it."""
        return not self.moves and all(one.ended for one in self.children)

    @property
    def fastest(self) -> float:
        """Seconds that no layout of the program beats, as far as it was searched."""
        unsearched = self.search is not None and not self.search.started
        return self.planned.fastest * (1 - NEAR * unsearched)

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
        self._root = _Node(root, list(space.moves(root)), None)
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
        self._finish()
        return self._best

    def _tired(self) -> bool:
        return self._vain >= self._space.patience and self._best.badness()[0] <= 0

    def _finish(self) -> None:
        """Search the shardings of the best program until that brings nothing more."""
        node = self._nodes[self._best.rewriting]
        assert node is not None
        before = math.inf
        while node.search is not None and node.planned.value < before:
            if self._control.stop_reason() is not None:
                break
            before = node.planned.value
            self._search_on(node)
        self._best = node.planned

    def _trajectory(self) -> None:
        """Select a node, make another program of it, and back up what that costs."""
        trail = [self._root]
        while not trail[-1].moves and (child := self._selected(trail[-1])) is not None:
            trail.append(child)
        last = trail[-1]
        if last.moves:
            made = self._child(last, self._next_move(last))
            if made is None:
                return
            last.children.append(made)
            trail.append(made)
        for node in trail:
            node.note(trail[-1].planned.value)
        self._compare(trail[-1].planned)

    def _next_move(self, node: _Node[R]) -> R:
        """The next rewriting: once something fits, none before what does a part of it."""
        moves, covers = node.moves, self._space.covers
        if self._best.badness()[0] > 0:
            return moves.pop(0)
        gentlest = min(moves, key=lambda one: sum(covers(one, other) for other in moves))
        moves.remove(gentlest)
        return gentlest

    def _selected(self, node: _Node[R]) -> _Node[R] | None:
        """The child where PUCT is highest; None where nothing is left to do below."""
        arms = [child for child in node.children if not child.ended]
        if not arms:
            return None
        low, high = self._range()
        exploration = self._settings.exploration * math.sqrt(node.visits) / len(arms)
        share = self._settings.max_share

        def score(one: _Node[R]) -> float:
            value = (1 - share) * one.total / one.visits + share * one.best
            return (high - value) / (high - low) + exploration / (1 + one.visits)

        return max(arms, key=score)

    def _range(self) -> tuple[float, float]:
        """The lowest and the highest value of all programs, never equal."""
        values = [one.value for one in self.planned]
        return min(values), max(*values, min(values) + TINY)

    def _child(self, parent: _Node[R], rewriting: R) -> _Node[R] | None:
        """The node of a rewriting; None where it cannot be made, or is in the tree already."""
        if rewriting in self._nodes:
            return None
        made = None if self._is_hopeless(rewriting) else self._made(parent, rewriting)
        self._nodes[rewriting] = made
        if made is None:
            return None
        if made.search is not None and self._leads(made.planned):
            self._search_on(made)
        if self._is_slower(made, parent):
            made.moves = []
        return made

    def _is_slower(self, made: _Node[R], above: _Node[R]) -> bool:
        """Whether a rewriting that fits made the program slower: more of the same would not pay.

        Their fastest layouts are compared, as the program above may fit under slow ones alone.
        """
        fits = made.planned.badness()[0] <= 0
        return fits and made.planned.fastest > above.planned.fastest * (1 + SLOWER)

    def _is_hopeless(self, rewriting: R) -> bool:
        """Whether what is known of others tells that a rewriting cannot lead."""
        if self._best.badness()[0] > 0:
            return False
        least = max(self._of_joined(rewriting), self._of_covered(rewriting))
        return least >= self._best.cost.seconds * (1 - IMPROVED)

    def _of_joined(self, rewriting: R) -> float:
        """Seconds that two rewritings together take at least, by what each of them takes."""
        joined = self._space.joins(rewriting) or ()
        parts = [node.planned for node in map(self._nodes.get, joined) if node is not None]
        if len(parts) < 2:
            return 0.0
        part = SURE if all(one.badness()[0] <= 0 for one in parts) else SQUEEZED
        whole = self._root.planned.cost.seconds
        return part * parts[0].cost.seconds * parts[1].cost.seconds / whole

    def _of_covered(self, rewriting: R) -> float:
        """Seconds that a rewriting takes at least: as much as what does a part of it."""
        covered = (
            node
            for other, node in self._nodes.items()
            if node is not None and self._space.covers(rewriting, other)
        )
        return max((node.fastest for node in covered), default=0.0)

    def _leads(self, planned: PlannedRewriting[R]) -> bool:
        """Whether a search of its own may make it the best."""
        (over, seconds), (best_over, best_seconds) = planned.badness(), self._best.badness()
        close = over <= best_over + NEAR * planned.problem.reward.memory
        return close and (best_over > 0 or seconds <= best_seconds * (1 + NEAR))

    def _made(self, parent: _Node[R], rewriting: R) -> _Node[R] | None:
        problem = self._space.problem(rewriting)
        if problem is None:
            return None
        problem = replace(problem, reward=self._root.planned.problem.reward)
        if not problem.actions:
            found = Found.after((), problem.cost(())[0], 1, "exhausted")
            planned = PlannedRewriting(rewriting=rewriting, problem=problem, found=found)
            return _Node(planned, list(self._space.moves(planned)), None)
        search = TreeSearch(problem, self._settings, self._control.quiet())
        above = parent.planned
        search.begin_with(carried_over(above.problem, above.found.state, problem))
        planned = self._fitted(rewriting, problem, search.found("rollouts"))
        return _Node(planned, list(self._space.moves(planned)), search)

    def _search_on(self, node: _Node[R]) -> None:
        """One more round over the shardings of a program."""
        assert node.search is not None
        reason = node.search.go_on() if node.search.started else node.search.start()
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
