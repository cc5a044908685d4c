"""A planning problem, the settings of a search over it, and what a search returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from toast.costmodel.evaluator import Action, Cost, Evaluator, Refined, Refinement, Reward, State
from toast.search.pairwise.proofs import Proof
from toast.search.pareto import ParetoFront

CHUNK = 128
"""States that are priced between two looks at the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is searched: the actions, and how their outcome is priced and rewarded.

    `front` keeps the states to choose from, of all that any search of this problem priced.
    """

    evaluator: Evaluator
    reward: Reward
    actions: tuple[Action, ...]
    front: ParetoFront = field(default_factory=ParetoFront, compare=False)

    def cost(self, state: State) -> tuple[float, Cost]:
        """C(s) and the time and memory behind it."""
        cost = self.evaluator.cost(state)
        self.front.note(cost.seconds, cost.peak, state)
        return self.reward.of(cost), cost

    def value(self, state: Refined) -> float:
        """C(s), of a refined state too; the front holds whole colours only and does not get it."""
        return self.reward.of(self.evaluator.cost(state))

    def costs(self, states: Sequence[State], threads: int = 1) -> list[tuple[float, Cost]]:
        """The same of each of many states."""
        costs = self.evaluator.costs(states, threads)
        for state, cost in zip(states, costs, strict=True):
            self.front.note(cost.seconds, cost.peak, state)
        return [(self.reward.of(cost), cost) for cost in costs]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Settings of a search; the names of TOAST section 4 and of the UCT literature.

    `rollouts` bounds the whole search, `round_rollouts` one round; `depth` the length of a
    trajectory. `selection` is the formula that chooses the next action (`puct` or `ucb1`),
    `exploration` its constant, `virtual_loss` the visits that a thread adds on its way down, and
    `max_share` the part of a node's best reward in its value, beside the mean. `shaping` makes a
    reward of C(s) (`log` or `inverse`); `stop_chance` ends a random trajectory at each step and
    `discount` favours short ones; `prior_temperature` sharpens the prior over actions taken from
    their effect alone. Without `helpers` there are only the rounds, without beams and local
    search. How these defaults were found: docs/search-settings.md.

    `beam_width` is the K of the beam search, `ilp_seconds` what the ILP may take where no budget
    is given, `proof_seconds` the proof of another planner's plan.
    """

    seed: int = 0
    threads: int = 1
    rollouts: int = 40_000
    round_rollouts: int = 4_000
    depth: int = 30
    selection: Literal["puct", "ucb1"] = "puct"
    shaping: Literal["log", "inverse"] = "log"
    exploration: float = 0.8
    virtual_loss: int = 2
    stop_chance: float = 0.05
    discount: float = 0.998
    max_share: float = 0.5
    prior_temperature: float = 0.15
    helpers: bool = True
    beam_width: int = 8
    ilp_seconds: float = 60.0
    proof_seconds: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The best state of a search. `termination` says why it ended.

    `bound`, where one is known: no state of the problem has a lower C(s). `relaxation` says what
    proves it. `refinements` are decisions below the colour level that `cost` counts too; with those
    there is no bound.
    """

    state: State
    cost: float
    rollouts: int
    evaluations: int
    termination: str
    bound: float | None = None
    relaxation: Proof | None = None
    refinements: tuple[Refinement, ...] = ()

    @property
    def decisions(self) -> Refined:
        """The state and then the refinements."""
        return (*self.state, *self.refinements)

    @classmethod
    def after(
        cls, state: State, cost: float, evaluations: int, why: str, rollouts: int | None = None
    ) -> Found:
        """What a search found that counts the states it priced, where it has no rollouts."""
        return cls(
            state=state,
            cost=cost,
            rollouts=evaluations if rollouts is None else rollouts,
            evaluations=evaluations,
            termination=why,
        )


def chunks(states: Iterable[State]) -> Iterator[list[State]]:
    """The states in their order, `CHUNK` at a time."""
    rest = iter(states)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
