"""The compatibility sets of a module in words, and how a plan resolves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from toast.analysis.analyse import Analysis
from toast.inspect.graph import set_graph
from toast.labels.conflict_words import ConflictWords, short
from toast.plans.conflicts import ConflictSet, Graph, ResolvedConflicts, SetRow

MAX_SETS, MAX_DRAWN = 8, 3
"""Sets that a plan tells, and those that it draws."""
MAX_NAMES = 48
"""Names of each graph in a plan."""
Taken = Mapping[int, Mapping[str, int]]
"""For each colour group that is sharded, by axis, its resolution order."""


class SetTeller:
    """Says what each group of isomorphic sets decides."""

    def __init__(self, analysis: Analysis, names: Sequence[str], words: ConflictWords) -> None:
        self._analysis = analysis
        self._names = names
        self._words = words
        self._isomorphic = Counter(analysis.groups.of_set.tolist())
        self._members: dict[int, list[int]] = {}
        for index, which in enumerate(analysis.conflicts.set_of.tolist()):
            self._members.setdefault(which, []).append(index)
        self._first: dict[int, int] = {}
        for which, group in enumerate(analysis.groups.of_set.tolist()):
            self._first.setdefault(group, which)

    def row(self, group: int) -> SetRow:
        """One group of isomorphic sets, told by its first set."""
        members, isomorphic = self._members[self._first[group]], self._isomorphic[group]
        said = self._words.of_set(members, isomorphic)
        return SetRow(
            id=group,
            colour=self._names[int(self._analysis.groups.set_colour[group])],
            conflicts=len(members),
            isomorphic=isomorphic,
            description=said.description,
            resolutions=list(said.resolutions),
            location=said.location,
        )

    def resolved(self, taken: Taken) -> ResolvedConflicts:
        """The sets and how they are resolved, those of sharded colours first."""
        colours = self._analysis.groups.set_colour.tolist()
        order = sorted(range(len(colours)), key=lambda group: (colours[group] not in taken, group))
        return ResolvedConflicts(
            sets=[self._set(group, taken, drawn=n < MAX_DRAWN) for n, group in
                  enumerate(order[:MAX_SETS])],
            others=len(order[MAX_SETS:]),
        )  # fmt: skip

    def _set(self, group: int, taken: Taken, *, drawn: bool) -> ConflictSet:
        colour = int(self._analysis.groups.set_colour[group])
        bit = np.flatnonzero(self._analysis.groups.set_colour == colour).tolist().index(group)
        orders = taken.get(colour, {})
        row = self.row(group)
        return ConflictSet(
            **{**row.model_dump(), "location": short(row.location)},
            taken={axis: order >> bit & 1 for axis, order in orders.items()},
            graph=self._graph(group) if drawn else None,
        )

    def _graph(self, group: int) -> Graph | None:
        """The graph of a group's first set, with file names in place of paths."""
        graph = set_graph(self._analysis, self._words, group, MAX_NAMES)
        if graph is None:
            return None
        nodes = [node.model_copy(update={"location": short(node.location)}) for node in graph.nodes]
        return graph.model_copy(update={"nodes": nodes})
