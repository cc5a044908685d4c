"""The generic problem: one strategy per node, priced by nodes and by pairs, within a memory limit.

It is what the ILP of MetaDist (section 3.4.1) and of Alpa is about, and the problem of the
ASPLOS'25 / EuroSys'25 contest on intra-operator parallelism.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toast.analysis.errors import InvalidRequest
from toast.analysis.program import Floats, Ints

FORBIDDEN = 1e17
"""A cost from here on means that the choice is not allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Memory of a node over the half-open span [`low`, `high`): `usage` [strategies]."""

    low: int
    high: int
    usage: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Nodes with strategies, edges between them, and memory over time.

    `costs[i]` [strategies of i]; `pieces[i]` what node i keeps in memory; `edges[k]` a pair of
    different nodes and `tables[k]` [strategies of the first, of the second] its costs, where
    infinity forbids. `limit` bounds the sum of usages at every time; each unit above it costs
    `excess` (infinite: it may not be exceeded). `constant` is added to every cost.
    """

    costs: tuple[Floats, ...]
    pieces: tuple[tuple[Piece, ...], ...]
    edges: tuple[tuple[int, int], ...]
    tables: tuple[Floats, ...]
    limit: float = np.inf
    excess: float = np.inf
    constant: float = 0.0

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a choice costs, its peak memory, and whether it keeps the limit and what is allowed."""

    cost: float
    peak: float
    feasible: bool


def score(instance: Instance, choice: Sequence[int] | Ints) -> Score:
    """The cost of choosing strategy `choice[i]` for every node i.

    Raises InvalidRequest where there is not exactly one existing strategy per node.
    """
    chosen = check_choice(instance, choice)
    cost = instance.constant
    for values, pick in zip(instance.costs, chosen, strict=True):
        cost += float(values[pick])
    for (a, b), table in zip(instance.edges, instance.tables, strict=True):
        cost += float(table[chosen[a], chosen[b]])
    peak = peak_of(instance, chosen)
    over = max(0.0, peak - instance.limit)
    if over > 0 and np.isfinite(instance.excess):
        cost, over = cost + instance.excess * over, 0.0
    return Score(cost=cost, peak=peak, feasible=bool(over <= 0 and cost < FORBIDDEN))


def peak_of(instance: Instance, chosen: Sequence[int]) -> float:
    """The largest sum of usages at any time."""
    changes: dict[int, float] = {}
    for pieces, pick in zip(instance.pieces, chosen, strict=True):
        for piece in pieces:
            changes[piece.low] = changes.get(piece.low, 0.0) + float(piece.usage[pick])
            changes[piece.high] = changes.get(piece.high, 0.0) - float(piece.usage[pick])
    alive = peak = 0.0
    for _, change in sorted(changes.items()):
        alive += change
        peak = max(peak, alive)
    return peak


def check_choice(instance: Instance, choice: Sequence[int] | Ints) -> list[int]:
    """The choice as plain numbers, one existing strategy per node."""
    chosen = [int(pick) for pick in choice]
    if len(chosen) != instance.nodes:
        raise InvalidRequest(
            f"A solution has {len(chosen)} entries and the problem {instance.nodes} nodes.",
            "Give one strategy number per node.",
        )
    for node, (pick, values) in enumerate(zip(chosen, instance.costs, strict=True)):
        if not 0 <= pick < len(values):
            raise InvalidRequest(
                f"Node {node} has {len(values)} strategies; there is no number {pick}.",
                "Strategies are numbered from 0.",
            )
    return chosen


def capped(instance: Instance, cap: float) -> Instance:
    """Without what costs more than `cap`; costs are 0 or more, so no cheaper answer is lost."""

    def cut(values: Floats) -> Floats:
        return np.where(values > cap, np.inf, values)

    return replace(
        instance,
        costs=tuple(cut(row) for row in instance.costs),
        tables=tuple(cut(table) for table in instance.tables),
    )
