"""What stands in the way of a plan that does not fit: the splits that are not taken, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from toast.costmodel.evaluator import Action, Cost
from toast.costmodel.explain import HeldMemory, PriceBreakdown
from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.costmodel.resolved import ResolvedPlan
from toast.costmodel.tables import Scratch
from toast.explain.explainer import Explainer
from toast.pipeline.user_constraints import Demands
from toast.plans.explanation import BlockedTensor, Obstacle, Shortfall, SplitRow
from toast.plans.plan import Spec
from toast.search.problem import Problem

MAX_TENSORS = 5
MAX_SPLITS = 8
_ORDER: tuple[Obstacle, ...] = (
    "pays",
    "costs_time",
    "pinned",
    "forbidden",
    "indivisible",
    "axis_taken",
    "resolution",
    "not_freed",
    "no_name",
)


def shortfall(
    explainer: Explainer,
    terms: PriceBreakdown,
    problem: Problem,
    resolved: ResolvedPlan,
    demands: Demands,
) -> Shortfall | None:
    """Why a plan does not fit; None where it does.

    Looks at the largest tensors that are alive at its peak, and for each at every dimension over
    every mesh axis; what could be done is priced with that action added to the state.
    """
    over = round(terms.cost.peak - problem.reward.memory)
    if over <= 0:
        return None
    obstacles = _Obstacles(problem, resolved, demands)
    groups = explainer.alive_groups(terms)[:MAX_TENSORS]
    return Shortfall(
        over_bytes=over,
        peak=explainer.peak(terms),
        tensors=[
            BlockedTensor(
                tensor=explainer.alive_row(group, terms),
                shards=obstacles.shards(group[0]),
                splits=obstacles.splits(group[0]),
            )
            for group in groups
        ],
    )


def _spec(spec: Spec) -> str:
    """A layout as `--pin` takes it: `data+model,None`."""
    return ",".join("+".join(axes) or "None" for axes in spec) or "one scalar"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """A dimension of a tensor over a mesh axis; `item` is what would carry the axis, or -1."""

    dimension: int
    size: int
    item: int
    axis: int


class _Obstacles:
    def __init__(self, problem: Problem, resolved: ResolvedPlan, demands: Demands) -> None:
        self._problem = problem
        self._evaluator = problem.evaluator
        self._tables = problem.evaluator.tables
        self._names = [axis.name for axis in self._evaluator.mesh.axes]
        self._sizes = [axis.size for axis in self._evaluator.mesh.axes]
        self._state = resolved.state
        self._cost = resolved.cost
        self._value = problem.reward.of(resolved.cost)
        self._demands = demands
        self._scratch: Scratch = resolved.scratch
        self._priced: dict[Action, tuple[Cost, Scratch]] = {}

    def shards(self, held: HeldMemory) -> int:
        """How many ways a tensor is split already."""
        _, dims = self._evaluator.layouts.tensors[held.tensor]
        return math.prod(int(self._scratch.units.shards[item]) for _, item in dims if item >= 0)

    def splits(self, held: HeldMemory) -> list[SplitRow]:
        """Every further split of a tensor, those that would help first."""
        rows = [self._row(held, split) for split in self._open(held)]
        rows.sort(key=lambda row: (_ORDER.index(row.obstacle), -row.frees_bytes))
        return rows[:MAX_SPLITS]

    def _open(self, held: HeldMemory) -> Iterator[_Split]:
        """Splits over axes that the dimension does not have yet."""
        _, dims = self._evaluator.layouts.tensors[held.tensor]
        for dimension, (size, item) in enumerate(dims):
            mask = int(self._scratch.units.mask[item]) if item >= 0 else 0
            for axis, n in enumerate(self._sizes):
                if size > 1 and n > 1 and not mask >> axis & 1:
                    yield _Split(dimension=dimension, size=size, item=item, axis=axis)

    def _row(self, held: HeldMemory, split: _Split) -> SplitRow:
        found = self._given(held) or self._impossible(held, split)
        if found is None:
            return self._tried(split)
        return self._said(split, *found)

    def _said(self, split: _Split, obstacle: Obstacle, detail: str) -> SplitRow:
        return SplitRow(
            dimension=split.dimension,
            size=split.size,
            axis=self._names[split.axis],
            obstacle=obstacle,
            detail=detail,
        )

    def _given(self, held: HeldMemory) -> tuple[Obstacle, str] | None:
        """Where the caller or the module pins the tensor."""
        layouts, demands = self._evaluator.layouts, self._demands
        at_definition = held.tensor == layouts.value_tensor[held.value]
        if held.value in demands.values and at_definition:
            target, who = demands.targets.get(held.value, ("it", "module"))
            return "pinned", f"the {who} pins {target} to {_spec(demands.values[held.value])}"
        pinned = [use for use in held.uses if use in demands.uses]
        if pinned:
            return "pinned", f"the use is pinned to {_spec(demands.uses[pinned[0]])}"
        return None

    def _impossible(self, held: HeldMemory, split: _Split) -> tuple[Obstacle, str] | None:
        """Where no action can split the dimension over the axis."""
        tables, item, axis = self._tables, split.item, split.axis
        name, n = self._names[axis], self._sizes[axis]
        if item < 0 or tables.units.item_group[item] < 0:
            return "no_name", f"the ops around it cannot be split along dimension {split.dimension}"
        unit = int(np.searchsorted(tables.units.start, item, side="right")) - 1
        if int(tables.units.forbidden[unit]) >> axis & 1:
            return "forbidden", f"the request forbids {name!r}"
        if int(self._scratch.units.used[unit]) >> axis & 1:
            return "axis_taken", f"{name!r} already splits {self._holder(held, split, unit)}"
        shards = int(self._scratch.units.shards[item])
        if split.size % (shards * n):
            split_already = f" (split {shards} ways already)" if shards > 1 else ""
            return "indivisible", f"{split.size:,}{split_already} is not divisible by {shards * n}"
        return None

    def _holder(self, held: HeldMemory, split: _Split, unit: int) -> str:
        """What has the axis, among the dimensions that compete for it."""
        first, last = self._tables.units.start[unit : unit + 2].tolist()
        masks = self._scratch.units.mask[first:last] >> split.axis & 1
        holder = first + int(np.argmax(masks))
        _, dims = self._evaluator.layouts.tensors[held.tensor]
        places = [dimension for dimension, (_, item) in enumerate(dims) if item == holder]
        if places:
            return f"dimension {places[0]}"
        return (
            f"a dimension of {int(self._tables.units.item_size[holder]):,} that its op has besides"
        )

    def _tried(self, split: _Split) -> SplitRow:
        """The state with the action added, priced."""
        action = self._action(split)
        cost, scratch = self._price(action)
        if not int(scratch.units.mask[split.item]) >> split.axis & 1:
            return self._said(
                split, "resolution", "another dimension of the same colour is split in its place"
            )
        frees, value = self._cost.peak - cost.peak, self._problem.reward.of(cost)
        obstacle: Obstacle = "not_freed"
        detail = f"the peak would not fall: it is {format_bytes(cost.peak)} then"
        if frees > 0:
            obstacle = "pays" if value < self._value * (1 - 1e-9) else "costs_time"
            times = f"{format_seconds(self._cost.seconds)} to {format_seconds(cost.seconds)}"
            detail = f"frees {format_bytes(frees)}; a step goes from {times}"
        if action not in self._problem.actions:
            detail += "; the search leaves it out, as it touches few dimensions"
        return self._said(split, obstacle, detail).model_copy(
            update={
                "frees_bytes": round(max(frees, 0.0)),
                "peak_bytes": round(cost.peak),
                "step_seconds": cost.seconds,
                "cost": value,
            }
        )

    def _action(self, split: _Split) -> Action:
        """The action for a split, resolved in its favour and else as the colour is already."""
        tables, item = self._tables, split.item
        group = int(tables.units.item_group[item])
        actions = [one for one in self._state if isinstance(one, Action) and one.group == group]
        bits = actions[0].bits if actions else 0
        place, side = int(tables.units.item_bit[item]), int(tables.units.item_side[item])
        if place >= 0:
            bits = bits | 1 << place if side else bits & ~(1 << place)
        return Action(group=group, axis=split.axis, bits=bits)

    def _price(self, action: Action) -> tuple[Cost, Scratch]:
        if action not in self._priced:
            scratch = self._evaluator.new_scratch()
            self._priced[action] = (self._evaluator.cost((*self._state, action), scratch), scratch)
        return self._priced[action]
