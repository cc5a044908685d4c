"""The search over states as an instance of nodes and pairs (MetaDist section 3.4.1).

A node per distinct unit (op, value or use as the evaluator knows them, repeated layers once), with
every layout that a state may give it, and a node per decision (colour group, axis) that says which
of these layouts go together. Node costs are seconds of computation, edges seconds of resharding,
pieces bytes over the schedule; all in the units of C(s), by the evaluator's own kernels.

It is a relaxation: every state is a choice, and the choice costs at most what the state does. The
choice does not pay for the order of decisions. Of a fusion that reads tensors of more than two
units it pays one term of the roofline only. It does not pay for operands that a product reads
again, nor for what runs after a product because its sums are partial. Of a value gathered for
several uses it pays for one use. It does not pay for partial sums that may be added to others
before they are reduced, nor for memory that depends on two units (copies, stored sums, operands of
block-wise sums). It assumes that the chip itself holds as much of the rest as it can hold at most.
"""

from __future__ import annotations

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.analysis.records import by_address
from toast.costmodel.evaluator import Action, State
from toast.costmodel.state_kernels import streamed
from toast.costmodel.tables import TERMS, Sum, Tables
from toast.search.pairwise.instance import Instance, Piece
from toast.search.problem import Problem
from toast.search.relaxation_kernels import halos, reshards
from toast.search.units import allowed, decisions, touching, units_of


class Relaxation:
    """The instance of a problem; it is tight near the state `reference`.

    Nodes are the units in their order, one unit for everything without a layout, and the decisions
    in the order of `decisions`.
    """

    def __init__(self, problem: Problem, reference: State = ()) -> None:
        self._problem = problem
        evaluator = problem.evaluator
        self._t = evaluator.tables
        self._sending = _sending(self._t)
        self._scratch = evaluator.new_scratch()
        self.decisions = decisions(problem.actions)
        self._units = units_of(evaluator, self.decisions)
        self._none = len(self._units)
        item = np.arange(len(self._t.units.item_group))
        self._unit_of_item = np.searchsorted(self._t.units.start, item, side="right") - 1
        self._costs = [np.zeros(len(unit.masks)) for unit in self._units] + [np.zeros(1)]
        self._pairs: dict[tuple[int, int], Floats] = {}
        self._tensor_unit, self._local = self._tensors()
        evaluator.cost(reference, self._scratch)
        self._reference = self._strategies()
        self._held: list[dict[tuple[int, int], Floats]] = [{} for _ in self._costs]
        for term in TERMS:
            if term.bound is not None:
                term.bound(self)

    def instance(self) -> Instance:
        """The instance; its limit is the memory of a device, above which C(s) has a price.

        That is main memory, and all that the chip itself may hold of what is alive.
        """
        reward = self._problem.reward
        tables = [table / reward.seconds for table in self._pairs.values()]
        edges = list(self._pairs)
        for number, ((group, axis), resolutions) in enumerate(self.decisions.items()):
            node = self._none + 1 + number
            size = int(self._t.mesh.axis_size[axis])
            for unit in touching(self._units, group):
                edges.append((node, unit))
                tables.append(allowed(self._units[unit], group, axis, size, resolutions))
        free = [np.zeros(1 + len(bits)) for bits in self.decisions.values()]
        return Instance(
            costs=(*(cost / reward.seconds for cost in self._costs), *free),
            pieces=(*self._pieces(), *(() for _ in free)),
            edges=tuple(edges),
            tables=tuple(tables),
            limit=reward.memory + self._t.chip.on_chip_buffers,
            excess=reward.penalty / reward.peak,
        )

    def choice(self, state: State) -> list[int]:
        """The choice that a state is."""
        self._problem.evaluator.cost(state, self._scratch)
        first: dict[tuple[int, int], int] = {}
        for action in state:
            first.setdefault((action.group, action.axis), action.bits)
        picks = [
            1 + resolutions.index(first[pair]) if pair in first else 0
            for pair, resolutions in self.decisions.items()
        ]
        return [*self._strategies(), 0, *picks]

    def actions(self, choice: list[int]) -> State:
        """The decisions of a choice, on each axis those first that get their way in most units."""
        taken = []
        for pick, ((group, axis), bits) in zip(
            choice[self._none + 1 :], self.decisions.items(), strict=True
        ):
            if pick:
                taken.append(Action(group=group, axis=axis, bits=bits[pick - 1]))
        weight = {action: self._holds(action, choice) for action in taken}
        return tuple(sorted(taken, key=lambda action: (-weight[action], action)))

    def _holds(self, action: Action, choice: list[int]) -> float:
        """In which part of the units that have its colour an action got its axis."""
        won = lost = 0
        for number in touching(self._units, action.group):
            unit = self._units[number]
            has = unit.masks[choice[number]] >> action.axis & 1 > 0
            won += bool(has[unit.groups == action.group].any())
            lost += bool(has[unit.groups != action.group].any())
        return won / max(won + lost, 1)

    def _strategies(self) -> list[int]:
        """The strategy of each unit in the layout that the scratch arrays hold."""
        found = []
        for number, unit in enumerate(self._units):
            first = int(self._t.units.start[number])
            mask = self._scratch.units.mask[first : first + unit.masks.shape[1]]
            found.append(int((unit.masks == mask).all(axis=1).argmax()))
        return found

    def _tensors(self) -> tuple[list[int], list[Floats]]:
        """The unit of each tensor, and its bytes on one device under each strategy of that."""
        t, units, local = self._t, [], []
        for tensor in range(len(t.tensors.itemsize)):
            dims = slice(int(t.tensors.start[tensor]), int(t.tensors.start[tensor + 1]))
            items, sizes = t.tensors.dim_item[dims], t.tensors.dim_size[dims]
            laid = items >= 0
            unit = int(self._unit_of_item[items[laid][0]]) if laid.any() else self._none
            size = np.full(len(self._costs[unit]), t.tensors.itemsize[tensor])
            size *= float(sizes[~laid].prod())
            for item, whole in zip(items[laid].tolist(), sizes[laid].tolist(), strict=True):
                shards = self._units[unit].shards[:, item - int(t.units.start[unit])]
                size *= -(-whole // shards)
            units.append(unit)
            local.append(size)
        return units, local

    @property
    def tables(self) -> Tables:
        """The tables of the program."""
        return self._t

    def unit_of_tensor(self, tensor: int) -> int:
        """The unit that a tensor is laid out by."""
        return self._tensor_unit[tensor]

    def unit_of_item(self, item: int) -> int:
        """The unit of an item."""
        return int(self._unit_of_item[item])

    def local(self, tensor: int) -> Floats:
        """Bytes of a tensor on one device, by strategy of its unit."""
        return self._local[tensor]

    def shards(self, unit: int) -> Ints:
        """[strategies, items] of a unit over how many devices each item is split."""
        return self._units[unit].shards

    def streamed(self, size: float) -> float:
        """The part of a tensor of so many bytes that comes from main memory."""
        return float(streamed(self._t.chip.on_chip, self._t.chip.streamed_from, size))

    def add_constant(self, seconds: float) -> None:
        """Add seconds that every state has."""
        self._costs[self._none] += seconds

    def add(self, unit: int, seconds: Floats) -> None:
        """Add seconds by strategy of a unit."""
        self._costs[unit] += seconds

    def add_roofline(self, sums: list[Sum], weight: float) -> None:
        """Add `weight` times the most of several sums over units.

        It is exact where they touch one unit or two; else the one that is the most in the state
        that is tight stands for all.
        """
        touched = {unit for term in sums for unit, _ in term}
        touched = {unit for unit in touched if len(self._costs[unit]) > 1}
        if len(touched) > 2:
            for unit, seconds in max(sums, key=self._sum_at_reference):
                self._costs[unit] += weight * seconds
            return
        a, b = sorted([*touched, self._none, self._none][:2])
        grids = [self._grid(term, a, b) for term in sums]
        self._add_pair(a, b, weight * np.max(grids, axis=0))

    def _sum_at_reference(self, term: Sum) -> float:
        reference = [*self._reference, 0]
        return float(sum(seconds[reference[unit]] for unit, seconds in term))

    def _grid(self, term: Sum, a: int, b: int) -> Floats:
        """A term over the strategies of two units; the others have one each."""
        grid = np.zeros((len(self._costs[a]), len(self._costs[b])))
        for unit, seconds in term:
            if unit == a:
                grid += seconds[:, None]
            else:
                grid += seconds[None, :] if unit == b else seconds[0]
        return grid

    def axes(self, items: Ints, unit: int) -> Ints | None:
        """The axes on `items` under each strategy of their unit; None where they have another."""
        axes = np.zeros(len(self._costs[unit]), dtype=np.int64)
        for item in items.tolist():
            if int(self._unit_of_item[item]) != unit:
                return None
            axes |= self._units[unit].masks[:, item - int(self._t.units.start[unit])]
        return axes

    def at_reference(self, tensors: tuple[int, int], seconds: Floats) -> float:
        """Of seconds by strategies of two tensors' units those of the state that is tight."""
        reference = [*self._reference, 0]
        a, b = (reference[self._tensor_unit[tensor]] for tensor in tensors)
        return float(seconds[a, b])

    def reshard(
        self, source: int, target: int, reduced: Ints, *, row: int = -1, width: float = 1.0
    ) -> Floats:
        """Seconds of one resharding [strategies of the source's unit, of the target's]."""
        a, b = self._tensor_unit[source], self._tensor_unit[target]
        out = np.zeros((len(self._costs[a]), len(self._costs[b])))
        if self._none in (a, b):
            return out
        combined_in = self._t.partial_sums.combined_in
        tables = self._t if row < 0 else self._sending[int(combined_in[row])]
        reshards(
            by_address(tables),
            by_address(self._scratch),
            np.array([source, target]),
            np.array([a, b]),
            (self._units[a].masks, self._units[b].masks),
            (self._units[a].shards, self._units[b].shards),
            self._local[source],
            reduced,
            row,
            width,
            out,
        )
        return out

    def add_move(self, source: int, target: int, seconds: Floats) -> None:
        """Add seconds by strategies of two tensors' units."""
        a, b = self._tensor_unit[source], self._tensor_unit[target]
        if a == b:
            self._costs[a] += np.diagonal(seconds)
        elif a < b:
            self._add_pair(a, b, seconds)
        else:
            self._add_pair(b, a, seconds.T)

    def _add_pair(self, a: int, b: int, table: Floats) -> None:
        """Add costs to a pair of units, or to one where the other has no choice."""
        if a == b:
            self._costs[a] += np.diagonal(table)
        elif table.shape[1] == 1:
            self._costs[a] += table[:, 0]
        elif table.shape[0] == 1:
            self._costs[b] += table[0]
        elif table.any():
            known = self._pairs.get((a, b))
            self._pairs[a, b] = table if known is None else known + table

    def exchange(self, row: int) -> Floats:
        """Seconds of a row of strips, by strategy of the unit of their tensor."""
        item, tensor = int(self._t.halos.item[row]), int(self._t.halos.tensor[row])
        unit = self.unit_of_item(item)
        place = item - int(self._t.units.start[unit])
        axes = self._units[unit].masks[:, place].copy()
        shards = self._units[unit].shards[:, place].copy()
        seconds = np.zeros(len(axes))
        arrays = by_address(self._t), by_address(self._scratch)
        halos(*arrays, row, axes, shards, self._local[tensor], seconds)
        return seconds

    def hold(self, tensor: int, first: int, end: int, size: Floats) -> None:
        """Add bytes by strategy of a tensor's unit, alive at the events from `first` to `end`."""
        held = self._held[self._tensor_unit[tensor]]
        known = held.get((first, end))
        held[first, end] = size if known is None else known + size

    def _pieces(self) -> list[tuple[Piece, ...]]:
        return [
            tuple(Piece(low=low, high=high, usage=usage) for (low, high), usage in held.items())
            for held in self._held
        ]


def _sending(tables: Tables) -> dict[int, Tables]:
    """By the loop in which sums are sent together, -1 where they are not: how long one waits.

    All sums that may be sent together wait for the network once, so each waits at least for its
    part of that.
    """
    t = tables
    summing = np.diff(t.partial_sums.item_start) > 0
    many = t.partial_sums.weight * np.diff(t.partial_sums.result_start) * summing
    found = {-1: t}
    for loop, runs in enumerate(t.partial_sums.loop_runs.tolist()):
        sums = max(many[t.partial_sums.combined_in == loop].sum() / runs, 1.0)
        found[loop] = t._replace(
            mesh=t.mesh._replace(alpha=t.mesh.alpha / sums),
            chip=t.chip._replace(launched=t.chip.launched / sums),
        )
    return found
