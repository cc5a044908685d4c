"""The program at another batch, without lowering it again, and the largest batch that fits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from toast.analysis.analyse import Analysis
from toast.analysis.errors import ToastError
from toast.analysis.forms import decode
from toast.analysis.load import load
from toast.costmodel.evaluator import Action, Cost, Evaluator, State
from toast.pipeline.mesh_search import MeshSearch, Searched
from toast.pipeline.user_constraints import demands
from toast.plans.advice import LargestBatch
from toast.plans.baselines import batch_groups, over_all_axes
from toast.resize.resize import Dimension, resize
from toast.search.infeasible import closest_to_fitting
from toast.search.planners import PLANNERS
from toast.search.problem import Found, Problem
from toast.search.progress import Control

_FEW = 2
"""So many arguments may have the batch, however few there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The batch of a program: an argument with it in front, and in how many parts it is planned.

    `carriers` are the numbers of all arguments that have it as a dimension.
    """

    dimension: Dimension
    argument: str
    size: int
    shards: int
    carriers: frozenset[int]

    @property
    def step(self) -> int:
        """Other sizes are multiples of this, so that they divide as the batch does."""
        if self.shards < self.size and self.size % self.shards == 0:
            return self.shards
        return self.size // _smallest_prime(self.size)


def batch_of(evaluator: Evaluator, found: Found) -> Batch | None:
    """What plain data parallelism would split; None where that is nothing.

    Where weights are no state, as in inference, their own dimensions might be taken for the batch:
    what most arguments have is none. Nor is what meets itself, as the nodes of a graph do.
    """
    program, axes = evaluator.analysis.program, evaluator.mesh.axes
    dims = [_groups(evaluator.analysis, argument.value) for argument in program.arguments]
    split = over_all_axes(evaluator, _few_have(dims, batch_groups(evaluator.analysis)))
    if not split:
        return None
    group = split[0].group
    front = [
        number
        for number, own in enumerate(dims)
        if own[:1] == [group] and not program.arguments[number].donated
    ]
    if not front or any(own.count(group) > 1 for own in dims):
        return None
    chief = program.arguments[front[0]]
    return Batch(
        dimension=(front[0], 0),
        argument=chief.name,
        size=program.shape(chief.value)[0],
        shards=math.prod(axes[one.axis].size for one in found.state if one.group == group),
        carriers=frozenset(number for number, own in enumerate(dims) if group in own),
    )


def _few_have(dims: list[list[int]], groups: list[int]) -> list[int]:
    """The colours that at most half of the arguments have, of several arguments."""
    most = max(_FEW, sum(map(bool, dims)) // 2)
    return [group for group in groups if sum(group in own for own in dims) <= most]


def _groups(analysis: Analysis, value: int) -> list[int]:
    """The colour group of each dimension of a value, -1 for none."""
    colours, names = analysis.colours.colour, analysis.program.def_names(value).tolist()
    found = [int(colours[name]) if name >= 0 else -1 for name in names]
    return [int(analysis.groups.of_colour[one]) if one >= 0 else -1 for one in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPlan:
    """A plan of the program at some batch, and what it costs."""

    problem: Problem
    state: State
    cost: Cost

    @classmethod
    def of(cls, problem: Problem, state: State) -> PricedPlan:
        """Price a plan."""
        return cls(problem=problem, state=state, cost=problem.evaluator.cost(state))


@dataclass(slots=True, kw_only=True)
class BatchSizes:
    """Prices a program at other batches, each of them once, by the plan that was found for its own.

    A size that does not fit with that plan gets the plan that comes closest to it. Constants stay
    as they are, so what is priced is a program of that size, not the same function.
    """

    module: bytes
    job: MeshSearch
    best: Searched
    batch: Batch
    _problems: dict[int, Problem | None]
    _plans: dict[int, PricedPlan | None]
    why_not: str = ""
    """Why a size could not be had."""

    @classmethod
    def of(cls, module: bytes, job: MeshSearch, best: Searched, batch: Batch) -> BatchSizes:
        """Sizes of the batch of a program that is planned."""
        return cls(module=module, job=job, best=best, batch=batch, _problems={}, _plans={})

    @property
    def memory(self) -> int:
        """What there is on each chip."""
        return int(self.best.problem.reward.memory)

    def closest(self, size: int, control: Control) -> PricedPlan | None:
        """A plan at a batch that fits the memory, or comes closest; None for none."""
        if size not in self._plans:
            problem = self._problem(size)
            self._plans[size] = None if problem is None else self._closest(problem, control)
        return self._plans[size]

    def fastest(self, size: int, control: Control) -> PricedPlan | None:
        """The same, or a faster plan that a search finds."""
        known, problem = self.closest(size, control), self._problem(size)
        if known is None or problem is None:
            return None
        settings = self.job.settings(rollouts=_ROLLOUTS)
        found = PricedPlan.of(problem, PLANNERS["mcts"](problem, settings, control).state)
        return min(
            (plan for plan in (known, found) if plan.cost.peak <= self.memory),
            key=lambda plan: plan.cost.seconds,
            default=known,
        )

    def _closest(self, problem: Problem, control: Control) -> PricedPlan:
        state = self.best.found.state
        if not _speaks_of(problem.evaluator, state):
            state = ()
        value, _ = problem.cost(state)
        found = Found.after(state, value, 1, "given")
        return PricedPlan.of(problem, closest_to_fitting(problem, found, control).state)

    def _problem(self, size: int) -> Problem | None:
        if size not in self._problems:
            self._problems[size] = self._made(size)
        return self._problems[size]

    def _made(self, size: int) -> Problem | None:
        """The program at a batch, ready to be priced."""
        request, mesh = self.job.request, self.best.mesh
        try:
            written, _ = resize(decode(self.module).module, {self.batch.dimension: size})
            job = self.job.of_other(load(written))
            demanded = demands(job.source, mesh, request.pins, request.forbid)
        except ToastError as error:
            self.why_not = error.message
            return None
        return job.problem(mesh, demanded)


_ROLLOUTS = 200


def largest_batch(sizes: BatchSizes, held: float, control: Control) -> LargestBatch | None:
    """The largest batch that fits, by bisection; None where no other size can be had.

    `held` bytes do not depend on the batch: with them a first guess is close. It is assumed that
    what is smaller than a batch that fits does fit.
    """
    batch, memory = sizes.batch, sizes.memory
    peaks = {batch.size: sizes.best.cost.peak}
    low, high = 0, batch.size
    while high - low > batch.step and control.stop_reason() is None:
        size = _guess(peaks, held, memory, low, high, batch.step)
        plan = sizes.closest(size, control.share(0.5))
        if plan is None:
            return None
        peaks[size] = plan.cost.peak
        low, high = (size, high) if plan.cost.peak <= memory else (low, size)
    plan = sizes.fastest(low, control.share(0.5)) if low else None
    return LargestBatch(
        argument=batch.argument,
        size=batch.size,
        step=batch.step,
        fits=low or None,
        too_large=high,
        step_seconds=None if plan is None else plan.cost.seconds,
        peak_bytes=None if plan is None else round(plan.cost.peak),
    )


def _guess(
    peaks: dict[int, float], held: float, memory: float, low: int, high: int, step: int
) -> int:
    """The size at which a straight line through the known peaks meets the memory.

    After a few guesses that did not end it, the middle.
    """
    near = sorted(peaks, key=lambda size: abs(peaks[size] - memory))
    one, other = near[0], near[1] if len(near) > 1 else 0
    first, second = peaks[one], peaks.get(other, held)
    slope = (first - second) / (one - other)
    wanted = (low + high) / 2
    if slope > 0 and len(peaks) < _STRAIGHT:
        wanted = one + (memory - first) / slope
        if low and wanted < low + step:
            wanted = low + step
    size = int(wanted // step) * step
    return min(max(size, low + step), high - step)


_STRAIGHT = 5


def _speaks_of(evaluator: Evaluator, state: tuple[Action, ...]) -> bool:
    groups = evaluator.analysis.groups.colours
    return all(action.group < groups for action in state)


def _smallest_prime(number: int) -> int:
    return next((n for n in range(2, math.isqrt(number) + 1) if number % n == 0), number)
