"""States in, costs out: the compiled kernels behind a small Python face."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from toast.analysis.analyse import Analysis, analyse
from toast.analysis.gc_pause import collector_paused
from toast.analysis.program import Floats, Ints, Program
from toast.analysis.records import by_address
from toast.costmodel.compilers.profile import CompilerProfile, profile_of
from toast.costmodel.hardware.devices import Device
from toast.costmodel.holes import hole_bytes
from toast.costmodel.kernels.evaluate import FIGURES, Measured, evaluate_many, step_seconds
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.fusion import Fusion, fuse
from toast.costmodel.passes.while_loop_invariant_code_motion import move_out
from toast.costmodel.peak_pruning import fold
from toast.costmodel.program.lookups import WHOLE
from toast.costmodel.program.pins import NO_PINS, Pins
from toast.costmodel.program.sharding_units import Layouts, Marks, lay_out, mark
from toast.costmodel.region_costs import ALONE, PricedProgram, region_cost
from toast.costmodel.tables import (
    Scratch,
    Tables,
    build_tables,
    journal_length,
    list_rows,
    new_scratch,
    on_mesh,
    positioned,
)

PENALTY = 10.0
"""C of the reward where nobody says otherwise: an excess as large as the whole unsharded program
costs ten times its time."""
FEWEST = 16
"""A thread is started for no fewer states than these."""
_TINY = 1e-12
"""Seconds that a program without work is taken to need, so that ratios stay finite."""

Rows = tuple[int, ...]
"""Three numbers a row: colour group, axis, resolution bits; or -2 - unit, axis, item or -1."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Action:
    """Shard the dimensions of colour group `group` over mesh axis number `axis`.

    Bit k of `bits` resolves the k-th compatibility set of that colour (its resolution order).
    """

    group: int
    axis: int
    bits: int = 0

    @property
    def rows(self) -> Rows:
        """The action as the kernels take it."""
        return self.group, self.axis, self.bits


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Refinement:
    """A decision below the colour level: where single units have mesh axis number `axis`.

    `places` are pairs (unit of the evaluator's layouts, one of its items or -1 for none). It
    overrules the decisions before it; what is pinned, forbidden or indivisible it leaves as it is.
    """

    axis: int
    places: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> Rows:
        """The refinement as the kernels take it."""
        return tuple(n for unit, item in self.places for n in (-2 - unit, self.axis, item))


State = tuple[Action, ...]
"""Actions in the order taken; on one axis an earlier colour comes first, others are canonical."""

Refined = tuple[Action | Refinement, ...]
"""A state and then refinements: units are those of one evaluator, and mean nothing to another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds and bytes of one step on one device. `key` is equal for equal layouts.

    `overlap` is the part (0 to 1) of the shorter of computation and communication that hides
    behind the longer; see `kernels.step_seconds`. `peak` is what the compiler lays out on this
    device, `room` what it would with all the memory that it wants.
    """

    compute: float
    communication: float
    peak: float
    room: float
    key: int
    overlap: float = 0.0

    @property
    def seconds(self) -> float:
        """Step time."""
        return float(step_seconds(self.compute, self.communication, self.overlap))

    @property
    def hidden(self) -> float:
        """Seconds of communication that hide behind computation."""
        return self.compute + self.communication - self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The paper's cost of a state relative to the unsharded one (TOAST section 4.5).

    `C(s) = RT(s) + MP(s)`: RT is time over initial time; MP is `penalty` times the bytes above
    `memory` over the initial peak, zero where the state fits.
    """

    seconds: float
    peak: float
    memory: float
    penalty: float = PENALTY

    def of(self, cost: Cost) -> float:
        """C(s), lower is better."""
        return self.value(cost.seconds, cost.peak)

    def value(self, seconds: float, peak: float) -> float:
        """C of a state that takes so long and has such a peak."""
        over = max(0.0, peak - self.memory)
        return seconds / self.seconds + self.penalty * over / self.peak

    def step_seconds(self, value: float, peak: float) -> float:
        """How long a state of this value and peak takes."""
        return self.seconds * (value - self.value(0.0, peak))


def measure(tables: Tables, scratch: Scratch, *columns: Ints) -> Measured:
    """Price one state by its `columns`, as `evaluate_many` takes them."""
    costs, keys = np.empty((1, FIGURES)), np.empty(1, dtype=np.int64)
    evaluate_many(by_address(tables), by_address(scratch), *columns, costs, keys)
    return _measured(costs[0].tolist(), int(keys[0]))


def _measured(figures: Sequence[float], key: int) -> Measured:
    compute, communication, peak, room = figures
    return Measured(compute, communication, peak, room, key)


class Evaluator:
    """Prices states of one analysed program on one mesh of one device.

    Thread-safe when every thread brings its own `Scratch`. `overlap` as in `Cost`. Where `floored`,
    computation takes at least as long as main memory takes for arguments and results
    (`terms.memory_floor`); a compiler's estimate knows no such floor. `profile` is what the
    compiler does: by default what the device's is known to do.

    `tables` have all rows, for a journal. `folded` give the same prices and have only the memory
    rows that can decide a peak (`peak_pruning`); states are priced by them.
    """

    def __init__(
        self,
        analysis: Analysis,
        mesh: Mesh,
        device: Device,
        pins: Pins = NO_PINS,
        *,
        overlap: float = 0.0,
        floored: bool = True,
        profile: CompilerProfile | None = None,
    ) -> None:
        self.analysis = analysis
        self.mesh = mesh
        self.device = device
        self.overlap = overlap
        self._pins = pins
        self._floored = floored
        self.profile = profile or profile_of(device)
        with collector_paused():
            self._regions = [
                region_cost(region, mesh, self._price_alone) for region in analysis.program.regions
            ]
            # plans and reports speak of the program as it was written: `analysis` keeps that
            self._moved = move_out(analysis.program, self.profile.while_loop_invariant_code_motion)
            self.fusion: Fusion = fuse(self._moved, self.profile)
            self._lay_out(lay_out(analysis, pins))

    def _lay_out(self, layouts: Layouts) -> None:
        self.layouts = layouts
        run = replace(self.analysis, program=self._moved)
        self.listing = list_rows(run, layouts, self.fusion, self.device, self._regions)
        tables = build_tables(self.analysis, self.mesh, self.device, self.listing)
        floors = tables.floors._replace(counted=self._floored)
        self.tables: Tables = tables._replace(floors=floors)
        self.folded: Tables = fold(self.tables)
        self.listing.release()
        self._scratches = [self.new_scratch()]

    def _price_alone(self, program: Program) -> PricedProgram:
        """What a program takes on one device of this kind."""
        alone = Evaluator(analyse(program), ALONE, self.device, profile=self.profile)
        cost, _, journal = alone.journal(())
        return cost.compute, cost.peak, journal

    def on(self, mesh: Mesh, pins: Pins) -> Evaluator:
        """The same for another mesh; the tables are made again only where the pins differ."""
        other = copy(self)
        other.mesh, other._pins = mesh, pins
        if pins != self._pins:
            with collector_paused():
                other._lay_out(lay_out(self.analysis, pins))
        else:
            other.tables = on_mesh(self.tables, mesh, self.device, self.profile)
            other.folded = on_mesh(self.folded, mesh, self.device, self.profile)
            other._scratches = [other.new_scratch()]
        return other

    def marked(self, marks: Marks) -> Evaluator:
        """The same with units of their own for what is marked, for refinements to tell it apart.

        States without refinements cost what they cost here, but for rounding.
        """
        finer = copy(self)
        finer._lay_out(mark(self.layouts, self.analysis, self._pins, marks))
        return finer

    def new_scratch(self) -> Scratch:
        """Working arrays for one thread that prices by the folded tables."""
        return new_scratch(self.folded)

    def cost(self, state: Sequence[Action | Refinement], scratch: Scratch | None = None) -> Cost:
        """What a state costs; the layout itself stays in the scratch arrays.

        Raises IndexError for a state that speaks of another program or mesh.
        """
        arrays = scratch or self._scratches[0]
        return self._cost(measure(self.folded, arrays, *self._columns([state])))

    @property
    def pressed_into(self) -> float:
        """Bytes into which the compiler presses a program by computing values again; or inf."""
        return float(self.folded.chip.memory)

    def pressing_into(self, memory: float) -> Evaluator:
        """The same where the compiler presses programs into so many bytes, with inf into none."""
        other = copy(self)
        other.tables, other.folded = (
            tables._replace(chip=tables.chip._replace(memory=memory))
            for tables in (self.tables, self.folded)
        )
        other._scratches = [other.new_scratch()]
        return other

    @property
    def constant_bytes(self) -> float:
        """Bytes of constants of the program, which lie whole on each device under every state."""
        rows = self.tables.live_ranges
        return sum(
            float(rows.width[row]) * self.layouts.whole_bytes(int(rows.tensor[row]))
            for row in np.flatnonzero(rows.lies == WHOLE)
        )

    def pressed_bytes(self, state: Sequence[Action | Refinement]) -> float:
        """The least that the compiler comes down to: the peak on a chip that has no memory."""
        return self.pressing_into(0.0).cost(state).peak

    def room_bytes(self, state: Sequence[Action | Refinement]) -> float:
        """What the compiler lays out with all the memory that it wants, holes included.

        The price has what is alive at once: a `room` without the holes between buffers. These are
        of all rows, as each of the equal buffers of repeated layers has its own place.
        """
        counted = self.profile.buffer_assignment.holes
        if counted == 0.0:
            return self.cost(state).room
        scratch = new_scratch(self.tables)
        room = self._cost(measure(self.tables, scratch, *self._columns([state]))).room
        return room + counted * hole_bytes(self.tables, scratch)

    def laid_out(self, room: float, pressed: float) -> float:
        """The peak on this device of what takes `room`, and `pressed` where nothing else goes."""
        return min(room, max(pressed, self.pressed_into))

    def _cost(self, measured: Measured) -> Cost:
        return Cost(
            compute=measured.compute,
            communication=measured.communication,
            peak=measured.peak,
            room=measured.room,
            key=measured.key,
            overlap=self.overlap,
        )

    def costs(
        self, states: Sequence[Sequence[Action | Refinement]], threads: int = 1
    ) -> list[Cost]:
        """What each of many states costs, on as many threads: the same as `cost` of each.

        Quickest where states that have much in common follow each other.
        """
        starts, *columns = self._columns(states)
        costs = np.zeros((len(states), FIGURES))
        keys = np.zeros(len(states), dtype=np.int64)
        threads = max(1, min(threads, len(states) // FEWEST))
        while len(self._scratches) < threads:
            self._scratches.append(self.new_scratch())
        bounds = [len(states) * part // threads for part in range(threads + 1)]

        def work(part: int) -> None:
            a, b = bounds[part], bounds[part + 1]
            arrays = by_address(self.folded), by_address(self._scratches[part])
            evaluate_many(*arrays, starts[a : b + 1], *columns, costs[a:b], keys[a:b])

        others = [threading.Thread(target=work, args=(part,)) for part in range(1, threads)]
        for thread in others:
            thread.start()
        work(0)
        for thread in others:
            thread.join()
        return [
            self._cost(_measured(row, key))
            for row, key in zip(costs.tolist(), keys.tolist(), strict=True)
        ]

    def _columns(self, states: Sequence[Sequence[Action | Refinement]]) -> tuple[Ints, ...]:
        """Where the rows of each state begin; groups, axes and bits of all rows.

        Raises IndexError for what speaks of another program or mesh.
        """
        starts, rows = [0], list[int]()
        for state in states:
            for decision in state:
                rows += decision.rows
            starts.append(len(rows) // 3)
        groups, axes, bits = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
        if rows and not self._knows(groups, axes, bits):
            raise IndexError("The state has a colour group, a unit or an axis that is not there.")
        return np.array(starts, dtype=np.int64), groups, axes, bits

    def journal(self, state: Sequence[Action | Refinement]) -> tuple[Cost, Scratch, Floats]:
        """What a state costs, its arrays and the entries of its journal; see `terms.journal`.

        `resolved.resolve` makes a record of it.
        """
        scratch = new_scratch(self.tables, journal_length(self.tables))
        measured = measure(self.tables, scratch, *self._columns([state]))
        journal = scratch.journal.entries[: int(scratch.journal.noted[0])]
        return self._cost(measured), scratch, positioned(journal, self.tables.schedule.position)

    def _knows(self, groups: Ints, axes: Ints, bits: Ints) -> bool:
        """The kernels do not check: an action of another program would read past their arrays."""
        starts = self.tables.units.start
        if groups.max() >= self.analysis.groups.colours or groups.min() <= -1 - len(starts):
            return False
        chosen = groups < 0
        unit = -2 - groups[chosen]
        if (unit < 0).any():
            return False
        items = starts[unit + 1] - starts[unit]
        there = (bits[chosen] >= -1) & (bits[chosen] < items)
        return bool(there.all() and axes.min() >= 0 and axes.max() < len(self.mesh.axes))

    def masks(self, state: Sequence[Action | Refinement]) -> Ints:
        """The axes of every item under a state, as bits."""
        scratch = self.new_scratch()
        self.cost(state, scratch)
        return scratch.units.mask

    def reward(self, memory: float, penalty: float = PENALTY) -> Reward:
        """The reward of states under a limit of `memory` bytes per device."""
        initial = self.cost(())
        return Reward(
            seconds=max(initial.seconds, _TINY),
            peak=max(initial.peak, 1.0),
            memory=memory,
            penalty=penalty,
        )
