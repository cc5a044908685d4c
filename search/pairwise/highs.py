"""The instance as an integer program for HiGHS (MetaDist section 3.4.1).

One-hot variables for the strategies of a node; for each edge one variable per allowed cell, whose
rows and columns sum to the strategies of its ends (tighter than the paper's pairwise inequalities,
with the same integer points); for memory a row per time, added where a solution breaks it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import highspy
import numpy as np
from scipy.sparse import csc_matrix

from toast.analysis.program import Floats, Ints
from toast.search.pairwise.compact import Compact, memory_of, total

BATCH = 24
"""Memory rows added at once, each for another stretch of time that is too full."""
EXACT = 1e-6
"""Capacity may be exceeded by this part inside HiGHS; what is returned is checked exactly."""
_LOOK = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """A choice [nodes] where one was found, and a lower bound on the cost of every choice.

    Both leave the constant of the instance out. `proved`: no choice is cheaper by more than the
    gap that was asked for, or none exists at all.
    """

    choice: Ints | None
    bound: float
    proved: bool


class IntegerProgram:
    """One instance as HiGHS sees it; `price` per unit of memory above capacity (or infinity)."""

    def __init__(
        self,
        c: Compact,
        price: float,
        *,
        threads: int = 1,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._c = c
        self._price = price
        self._memory = float(max(np.abs(c.capacity).max(initial=0.0), 1.0))
        finite = c.cell[np.isfinite(c.cell)]
        self._unit = max(float(finite.max(initial=0.0)), float(c.cost.max(initial=0.0)), 1e-9) / 1e3
        self._rows: set[int] = set()
        self._excess = -1
        self._stopped, self._looked, self._heard = stopped, 0.0, False
        self._highs = highspy.Highs()
        self._set(output_flag=False, threads=threads, random_seed=1)
        self._highs.passModel(self._model())
        for kind in ("MipInterrupt", "SimplexInterrupt", "IpmInterrupt"):
            callback = getattr(self._highs, f"cb{kind}")
            callback += self._look

    def relax(self, seconds: float) -> float:
        """A bound on every choice: the linear relaxation with the memory rows it breaks.

        Minus infinity where there was no time to solve it even once.
        """
        end, bound = time.monotonic() + seconds, -math.inf
        self._set(solve_relaxation=True)
        while (left := end - time.monotonic()) > 0 and not self._heard:
            self._run(left)
            status = self._highs.getModelStatus()
            if status == highspy.HighsModelStatus.kInfeasible:
                bound = math.inf
                break
            if status != highspy.HighsModelStatus.kOptimal:
                break
            bound = self._highs.getInfo().objective_function_value * self._unit
            if not self._add_rows(self._values()):
                break
        self._set(solve_relaxation=False)
        return bound

    def shares(self) -> Floats | None:
        """How much of each strategy the last relaxation uses [strategies]."""
        if self._highs.getInfo().primal_solution_status != highspy.kSolutionStatusFeasible:
            return None
        return self._values()[: len(self._c.cost)]

    def solve(self, seconds: float, *, start: Ints | None = None, gap: float = 0.0) -> Solved:
        """Branch and bound, again while the best choice breaks a memory row that was left out."""
        c, bound, proved = self._c, -math.inf, False
        best = (
            start if start is not None and total(self._c, start, self._price) < math.inf else None
        )
        self._set(mip_rel_gap=gap, mip_abs_gap=1e-9)
        for column in range(len(c.cost)):
            self._highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._heard:
            if best is not None:
                self._offer(best)
            self._run(left)
            bound = max(bound, self._bound())
            if self._highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
                return Solved(choice=best, bound=math.inf, proved=True)
            found = self._choice()
            if found is None:
                break
            cost = total(c, found, self._price)
            if cost < (math.inf if best is None else total(c, best, self._price)):
                best = found
            optimal = self._highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
            values = self._one_hot(found)
            if self._excess >= 0:
                values[self._excess] = self._values()[self._excess]
            if not self._add_rows(values):
                proved = optimal
                break
        return Solved(choice=best, bound=bound, proved=proved)

    def _model(self) -> Any:
        c, triples = self._c, _Triples()
        costs = [*c.cost.tolist()]
        for node in range(c.nodes):
            row = triples.row(1.0)
            for column in range(int(c.start[node]), int(c.start[node + 1])):
                triples.add(row, column, 1.0)
        for a, b, table in c.tables():
            self._edge(triples, costs, (int(c.start[a]), int(c.start[b])), table)
        if math.isfinite(self._price):
            self._excess = len(costs)
            costs.append(self._price * self._memory)
        matrix = triples.matrix(len(costs))
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = matrix.shape
        model.col_cost_ = np.array(costs) / self._unit
        model.col_lower_ = np.zeros(len(costs))
        upper = np.ones(len(costs))
        upper[: len(c.cost)] = np.isfinite(c.cost)
        if self._excess >= 0:
            upper[self._excess] = highspy.kHighsInf
        model.col_upper_ = upper
        model.col_cost_[~np.isfinite(model.col_cost_)] = 0.0
        model.row_lower_ = model.row_upper_ = np.array(triples.right)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = matrix.indptr
        model.a_matrix_.index_ = matrix.indices
        model.a_matrix_.value_ = matrix.data
        return model

    def _edge(
        self, triples: _Triples, costs: list[float], starts: tuple[int, int], table: Floats
    ) -> None:
        """Variables of an edge's allowed cells; their sums are the strategies of its ends."""
        own, other = np.nonzero(np.isfinite(table))
        cells = len(costs) + np.arange(len(own))
        costs += table[own, other].tolist()
        for start, picks, count in zip(starts, (own, other), table.shape, strict=True):
            rows = np.array([triples.row(0.0) for _ in range(count)])
            triples.many(rows[picks], cells, 1.0)
            triples.many(rows, start + np.arange(count), -1.0)

    def _add_rows(self, values: Floats) -> int:
        """Add rows for times that a (fractional) choice fills above capacity; how many."""
        c = self._c
        slack = values[self._excess] * self._memory if self._excess >= 0 else 0.0
        over = memory_of(c, values) - c.capacity - slack
        over[list(self._rows)] = 0.0
        added = 0
        while added < BATCH and len(over) and over.max() > EXACT * self._memory:
            peak = int(over.argmax())
            self._add_row(peak)
            over[_stretch(over, peak)] = 0.0
            added += 1
        return added

    def _add_row(self, peak: int) -> None:
        """The memory row of one time."""
        columns, usages = self._c.memory_row(peak)
        usages = usages / self._memory
        if self._excess >= 0:
            columns, usages = np.append(columns, self._excess), np.append(usages, -1.0)
        limit = float(self._c.capacity[peak]) / self._memory
        places = columns.astype(np.int32)
        self._highs.addRow(-highspy.kHighsInf, limit, len(places), places, usages)
        self._rows.add(peak)

    def _run(self, seconds: float) -> None:
        self._set(time_limit=self._highs.getRunTime() + max(seconds, 0.01))
        self._highs.run()

    def _set(self, **options: Any) -> None:
        for option, value in options.items():
            self._highs.setOptionValue(option, value)

    def _look(self, event: Any) -> None:
        now = time.monotonic()
        if now - self._looked > _LOOK:
            self._looked, self._heard = now, self._heard or self._stopped()
        if self._heard:
            event.interrupt()

    def _values(self) -> Floats:
        return np.asarray(self._highs.getSolution().col_value)

    def _bound(self) -> float:
        return float(self._highs.getInfo().mip_dual_bound) * self._unit

    def _choice(self) -> Ints | None:
        info = self._highs.getInfo()
        if info.primal_solution_status != highspy.kSolutionStatusFeasible:
            return None
        values, start = self._values(), self._c.start
        return np.array(
            [int(values[a:b].argmax()) for a, b in pairwise(start)],
            dtype=np.int64,
        )

    def _one_hot(self, choice: Ints) -> Floats:
        """All variables of the program under a choice."""
        c = self._c
        values = np.zeros(self._highs.getNumCol())
        values[c.start[:-1] + choice] = 1.0
        column = len(c.cost)
        for a, b, table in c.tables():
            allowed = np.isfinite(table)
            before = int(allowed.ravel()[: choice[a] * table.shape[1] + choice[b]].sum())
            values[column + before] = float(allowed[choice[a], choice[b]])
            column += int(allowed.sum())
        if self._excess >= 0:
            over = float(np.max(memory_of(c, choice) - c.capacity, initial=0.0))
            values[self._excess] = over / self._memory
        return values

    def _offer(self, choice: Ints) -> None:
        solution = highspy.HighsSolution()
        solution.col_value = self._one_hot(choice).tolist()
        self._highs.setSolution(solution)


class _Triples:
    """A sparse matrix in the making: (row, column, value), and the right side of each row."""

    def __init__(self) -> None:
        self.right: list[float] = []
        self._parts: list[tuple[Ints, Ints, Floats]] = []

    def row(self, right: float) -> int:
        """A new row that must equal `right`."""
        self.right.append(right)
        return len(self.right) - 1

    def add(self, row: int, column: int, value: float) -> None:
        self.many(np.array([row]), np.array([column]), value)

    def many(self, rows: Ints, columns: Ints, value: float) -> None:
        """The same value at several places."""
        self._parts.append((rows, columns, np.full(len(rows), value)))

    def matrix(self, columns: int) -> csc_matrix:
        rows, places, values = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        return csc_matrix((values, (rows, places)), shape=(len(self.right), columns))


def _stretch(over: Floats, peak: int) -> slice:
    """The part of the stretch above capacity around `peak` that one row stands for."""
    below = np.flatnonzero(over <= 0)
    place = int(np.searchsorted(below, peak))
    low = int(below[place - 1]) if place else 0
    high = int(below[place]) if place < len(below) else len(over)
    near = max(16, (high - low) // 8)
    return slice(max(low, peak - near), min(high, peak + near) + 1)
