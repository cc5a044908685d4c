"""Monte-Carlo tree search in rounds, on several threads (TOAST sections 4.1 to 4.3)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.evaluator import State
from toast.costmodel.tables import Scratch, apart
from toast.search.beam import beam_over
from toast.search.local_search import MAX_EVALUATIONS, LocalOptimum, local_search, worth
from toast.search.pareto import new_buckets
from toast.search.perturbation import perturbed
from toast.search.problem import Found, Problem, SearchSettings, chunks
from toast.search.progress import Control, Progress
from toast.search.symmetric_groups import moves, over_all_axes
from toast.search.tree import MAX_DEPTH, SELECTIONS, SHAPINGS, TINY, Agent, Rules, Tree, grow

CHUNK = 32
"""Rollouts between two looks at the clock: some milliseconds, and fewer where they take longer."""
LOOK_SECONDS = 0.02
"""A chunk that takes longer than this is halved next time: a cancel is heard soon."""
MAX_CHILD_CELLS = 1 << 25
BEAM_EVALUATIONS, BEAM_DEPTH = 3_000, 16
"""So many states may a beam of the second start price; it is as wide as that allows."""
START_EVALUATIONS = 3_000
"""States that improving the starts may price before no further start is begun."""
IMPROVED = 1e-4
"""A round counts as better when the cost falls by more than this part."""


def search(problem: Problem, settings: SearchSettings, control: Control) -> Found:
    """Find the state of lowest C(s); always returns the best one seen."""
    if not problem.actions:
        cost, _ = problem.cost(())
        return Found(state=(), cost=cost, rollouts=0, evaluations=1, termination="exhausted")
    return TreeSearch(problem, settings, control).run()


@dataclass(slots=True)
class Worker:
    """What one thread searches with."""

    agent: Agent
    scratch: Scratch


class TreeSearch:
    """A search as it goes: the tree, its threads, and the best state so far."""

    def __init__(self, problem: Problem, settings: SearchSettings, control: Control) -> None:
        self.problem = problem
        self._settings = settings
        self._control = control
        self._tables = problem.evaluator.folded
        self._rules = _rules(problem, settings)
        nodes = _node_budget(problem, settings)
        self.tree = _new_tree(problem, settings, nodes, control)
        self._extra = 0
        share = nodes // settings.threads
        self.workers = [
            Worker(
                _new_agent(settings.seed, index, index * share, share),
                problem.evaluator.new_scratch(),
            )
            for index in range(settings.threads)
        ]
        self.best: State = ()
        self._cost, self._memory = self._measure(())
        self._rounds = 0

    def run(self) -> Found:
        """Rounds from the best state so far until one does not improve it.

        After the first of them beams start from nothing, which see what trajectories may have
        missed; the best of all is improved and built on.
        """
        reason = self.start()
        while reason is None:
            reason = self.go_on()
        return self.found(reason)

    def begin_with(self, state: State) -> None:
        """Build on a state that is known, improved where that is near."""
        self._take(state)
        self._improve(local_search)

    @property
    def started(self) -> bool:
        """Whether the first round is over."""
        return self._rounds > 0

    def start(self) -> str | None:
        """The first round with its second start; returns why the search must stop, if it must."""
        reason = self.run_round()
        self.adopt()
        if reason is None and self._settings.helpers:
            self._second_start()
            self._improve(perturbed)
        return reason

    def go_on(self) -> str | None:
        """One more round; returns why it is the last, if it is."""
        before = self._cost
        reason = self.run_round()
        self.adopt()
        if self._settings.helpers and self._cost < before:
            self._improve(local_search)
        if reason is None and self._cost > before * (1 - IMPROVED):
            return "converged"
        if reason is None and self.count_rollouts() >= self._settings.rollouts:
            return "rollouts"
        if reason is None and self._settings.helpers:
            self._improve(perturbed)
        return reason

    def found(self, reason: str) -> Found:
        """The best state so far, of a search that ended for this reason."""
        return Found(
            state=self.best,
            cost=self._cost,
            rollouts=self.count_rollouts(),
            evaluations=self.count_evaluations(),
            termination=reason,
        )

    def run_round(self) -> str | None:
        """One round of trajectories; returns why the search must stop, if it must."""
        self._rounds += 1
        prefix = np.zeros(MAX_DEPTH, dtype=np.int64)
        number = {action: index for index, action in enumerate(self.problem.actions)}
        for index, action in enumerate(self.best):
            prefix[index] = number[action]
        settings = self._settings
        quota = min(settings.round_rollouts, settings.rollouts - self.count_rollouts())
        if quota <= 0:
            return "rollouts"
        if len(self.best) >= self._rules.depth:
            return self._control.stop_reason()  # no trajectory can be longer than this
        if settings.threads == 1:
            self._work(self.workers[0], prefix, quota)
        else:
            with ThreadPoolExecutor(settings.threads) as pool:
                shares = _shares(quota, settings.threads)
                parts = pool.map(self._work, self.workers, repeat(prefix), shares)
                list(parts)  # an error in a thread is an error here
        return self._control.stop_reason()

    def _work(self, worker: Worker, prefix: Ints, quota: int) -> None:
        """A thread's part of a round, in chunks so that it hears a cancel at once."""
        done, start, longest = 0, len(self.best), CHUNK
        while done < quota and self._control.stop_reason() is None:
            chunk, before = min(longest, quota - done), time.monotonic()
            grow(
                self._tables,
                worker.scratch,
                self.tree,
                self._rules,
                worker.agent,
                prefix,
                start,
                chunk,
            )
            done += chunk
            if time.monotonic() - before > LOOK_SECONDS:
                longest = max(1, chunk // 2)
            if worker is self.workers[0]:
                self._report()

    def adopt(self) -> None:
        """Take over the best path of any thread, and the front of each."""
        for worker in self.workers:
            self.problem.front.merge(worker.agent.buckets, self.problem.actions)
        worker = min(self.workers, key=lambda w: float(w.agent.best_cost[0]))
        if worker.agent.best_cost[0] < self._cost:
            length = int(worker.agent.best_length[0])
            path = worker.agent.best_path[:length].tolist()
            self.best = tuple(self.problem.actions[index] for index in path)
            self._cost, self._memory = self._measure(self.best)

    def _improve(self, way: Callable[..., LocalOptimum]) -> None:
        """Change the best state where that pays."""
        found = way(self.problem, self.best, self._cost, self._control, self._settings.threads)
        self._extra += found.evaluations
        self._take(found.state)

    def _second_start(self) -> None:
        """Improve what the round and beams over symmetric groups found, and take the best.

        The cheapest is improved to its end. The others follow while that is quick, as a dearer one
        may have the better end.
        """
        starts = sorted([(self._cost, self.best), *self._beams()])
        spent, ends = 0, list[LocalOptimum]()
        for cost, state in dict.fromkeys(starts):
            most = MAX_EVALUATIONS if not ends else START_EVALUATIONS - spent
            if most > 0:
                threads = self._settings.threads
                ends.append(local_search(self.problem, state, cost, self._control, threads, most))
                spent += ends[-1].evaluations
        self._extra += spent
        self._take(min(ends, key=lambda end: worth((end.state, end.cost))).state)

    def _beams(self) -> Iterator[tuple[float, State]]:
        """What beams find over moves of symmetric groups: over all axes, over single ones."""
        single = moves(self.problem)
        joined = over_all_axes(single)
        for steps in (joined, single) if len(joined) < len(single) else (single,):
            width = BEAM_EVALUATIONS // (BEAM_DEPTH * len(steps))
            narrow = replace(
                self._settings,
                beam_width=max(1, min(width, self._settings.beam_width)),
                rollouts=BEAM_EVALUATIONS,
                depth=MAX_DEPTH,
            )
            found = beam_over(steps, self.problem, narrow, self._control.quiet())
            self._extra += found.evaluations
            yield found.cost, found.state

    def _take(self, state: State) -> None:
        if state != self.best:
            self.best = state
            self._cost, self._memory = self._measure(state)

    def _measure(self, state: State) -> tuple[float, float]:
        cost, measured = self.problem.cost(state)
        self._extra += 1
        return cost, measured.peak

    def count_rollouts(self) -> int:
        """Trajectories so far, of all rounds."""
        return sum(int(worker.agent.counts[0]) for worker in self.workers)

    def count_evaluations(self) -> int:
        """States priced so far, by whatever means."""
        return self._extra + sum(int(worker.agent.counts[1]) for worker in self.workers)

    def _report(self) -> None:
        rollouts = self.count_rollouts()
        cost, peak = min(
            (self._cost, self._memory),
            *((float(w.agent.best_cost[0]), float(w.agent.best_peak[0])) for w in self.workers),
        )
        self._control.on_progress(
            Progress(
                stage="search",
                fraction=min(1.0, rollouts / self._settings.rollouts),
                rounds=self._rounds,
                rollouts=rollouts,
                evaluations=self.count_evaluations(),
                best_cost=cost,
                best_bytes=int(peak),
                seconds=self._control.elapsed(),
            )
        )


def _shares(quota: int, threads: int) -> list[int]:
    return [quota // threads + (index < quota % threads) for index in range(threads)]


def _node_budget(problem: Problem, settings: SearchSettings) -> int:
    columns = len(problem.actions) + 1
    wanted = settings.rollouts + settings.threads * 16
    return max(settings.threads * 64, min(wanted, MAX_CHILD_CELLS // columns))


def _rules(problem: Problem, settings: SearchSettings) -> Rules:
    reward = problem.reward
    whole = math.log(max(problem.cost(())[0], TINY))
    return Rules(
        initial_seconds=reward.seconds,
        initial_peak=reward.peak,
        memory=reward.memory,
        penalty=reward.penalty,
        overlap=problem.evaluator.overlap,
        whole=whole,
        span=max(whole, 0.0) + math.log(max(2, problem.evaluator.mesh.devices)),
        selection=SELECTIONS.index(settings.selection),
        shaping=SHAPINGS.index(settings.shaping),
        exploration=settings.exploration,
        virtual_loss=settings.virtual_loss if settings.threads > 1 else 0,
        stop_chance=settings.stop_chance,
        discount=settings.discount,
        max_share=settings.max_share,
        depth=min(settings.depth, MAX_DEPTH),
    )


def _new_tree(problem: Problem, settings: SearchSettings, nodes: int, control: Control) -> Tree:
    actions = problem.actions
    slots = 1 << (2 * nodes).bit_length()
    return Tree(
        visits=np.zeros(nodes, dtype=np.int64),
        total=np.zeros(nodes, dtype=np.float64),
        best=np.zeros(nodes, dtype=np.float64),
        children=np.zeros((nodes, len(actions) + 1), dtype=np.int32),
        slot_key=np.zeros(slots, dtype=np.int64),
        slot_node=np.full(slots, -1, dtype=np.int32),
        group=np.array([action.group for action in actions], dtype=np.int64),
        axis=np.array([action.axis for action in actions], dtype=np.int64),
        bits=np.array([action.bits for action in actions], dtype=np.int64),
        prior=priors(problem, settings.prior_temperature, control),
    )


def priors(problem: Problem, temperature: float, control: Control) -> Floats:
    """How likely each action is to be tried first, from its effect on the unsharded program.

    Half the weight is uniform, so that no action is starved. The last entry is stop. Once the
    search must stop no action is priced any more.
    """
    unknown, costs = problem.cost(())[0], []
    for states in chunks((action,) for action in problem.actions):
        stop = control.stop_reason() is not None
        costs += [unknown] * len(states) if stop else [cost for cost, _ in problem.costs(states)]
    lowest = min(costs)
    weight = np.exp((lowest - np.array(costs)) / (temperature * max(lowest, 1e-9)))
    count = len(costs)
    mixed = 0.5 * weight / weight.sum() + 0.5 / count
    return np.append(mixed, 1.0 / (count + 1))


def _new_agent(seed: int, index: int, first: int, share: int) -> Agent:
    random, nodes = apart(1, np.uint64), apart(2, np.int64)
    random[0] = np.random.SeedSequence([seed, index]).generate_state(1, np.uint64)[0] | np.uint64(1)
    nodes[:] = first, first + share
    best_cost = apart(1, np.float64)
    best_cost[0] = np.inf
    return Agent(
        random=random,
        nodes=nodes,
        best_cost=best_cost,
        best_peak=apart(1, np.float64),
        best_path=apart(MAX_DEPTH + 1, np.int64),
        best_length=apart(1, np.int64),
        counts=apart(2, np.int64),
        path=apart(MAX_DEPTH + 1, np.int64),
        trail=apart(MAX_DEPTH + 2, np.int64),
        buckets=new_buckets(MAX_DEPTH),
    )
