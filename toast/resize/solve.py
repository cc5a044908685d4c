"""New sizes for all leaves: those asked for, those that follow, and a default for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from toast.resize.relations import Deriving, JoinedSize, Relation, Windowed, Within
from toast.resize.sizes import Node, Sizes


@dataclass(slots=True)
class NewSizes:
    """The new size of every leaf; `sizes` may have more leaves kept or split than were read."""

    sizes: Sizes
    leaves: dict[Node, int] = field(default_factory=dict)

    def of(self, node: Node) -> int:
        """The new size of a node."""
        return self.sizes.of(node, self.leaves.__getitem__)

    def shape(self, nodes: Sequence[Node]) -> tuple[int, ...]:
        """The new shape of a tensor."""
        return tuple([self.of(node) for node in nodes])


@dataclass(slots=True, kw_only=True)
class Solver:
    """Chooses sizes so that all relations hold.

    `wanted` gives nodes a size. Any other leaf gets what it is derived from, else `default` of its
    old size. What cannot hold with that is repaired by keeping leaves, so there is always an
    answer: at last the program as it is. A wanted size that had to give way is one that `missed`.
    """

    sizes: Sizes
    relations: Sequence[Relation]
    wanted: Mapping[Node, int]
    default: Callable[[int], int]
    arguments: frozenset[Node]
    """Nodes of arguments: windows do not derive them."""
    _new: dict[Node, int] = field(default_factory=dict)
    _open: set[Node] = field(default_factory=set)
    _derived: dict[Node, Deriving] = field(default_factory=dict)
    _tied: list[Within] = field(default_factory=list)
    """Dimensions that parts did not fit into: what they are taken from follows them."""

    def run(self) -> NewSizes:
        """The new sizes; what was read stays as it is."""
        self.sizes = self.sizes.copy()
        while (broken := self._attempt()) is not None:
            if isinstance(broken, Within) and broken not in self._tied:
                self._tied.append(broken)
            else:
                broken.repair(self.sizes)
        for node in range(len(self.sizes.size)):
            for leaf in self.sizes.leaves(node):
                self._leaf(leaf)
        return NewSizes(sizes=self.sizes, leaves=self._new)

    def _attempt(self) -> Relation | None:
        """Choose all sizes; returns the first relation that does not hold."""
        self._new, self._open = {}, set()
        self._ask()
        self._derived = {}
        fixed = {leaf for node in self.arguments for leaf in self.sizes.leaves(node)}
        found = [one for one in self.relations if isinstance(one, JoinedSize | Windowed)]
        for relation in (*found, *self._tied):
            self._may_derive(relation, fixed)
        return next((one for one in self.relations if not one.holds(self._size)), None)

    def _ask(self) -> None:
        """Give wanted nodes their size: their major-most leaf that may have one takes it."""
        for node, wanted in self.wanted.items():
            leaves = self.sizes.leaves(node)
            minor = 1
            for leaf in leaves[1:]:
                minor *= self._new.get(leaf, self.sizes.size[leaf])
            if leaves and leaves[0] not in self.sizes.kept and wanted % minor == 0:
                self._new[leaves[0]] = wanted // minor

    def _may_derive(self, relation: Deriving, fixed: set[Node]) -> None:
        """Let the last leaf of a target that may have any size make up for the others."""
        leaves = self.sizes.leaves(relation.target)
        taken = self._new.keys() | self._derived.keys() | self.sizes.kept.keys()
        free = [leaf for leaf in leaves if leaf not in taken]
        argued = not isinstance(relation, JoinedSize) and bool(free) and free[-1] in fixed
        if not free or argued or (isinstance(relation, Windowed) and relation.spans):
            return
        behind = {one for node in relation.sources for one in self.sizes.leaves(node)}
        if free[-1] not in behind:
            self._derived[free[-1]] = relation

    def _size(self, node: Node) -> int:
        return self.sizes.of(node, self._leaf)

    def _leaf(self, leaf: Node) -> int:
        found = self._new.get(leaf)
        if found is not None:
            return found
        old = self.sizes.size[leaf]
        if leaf in self.sizes.kept:
            new = old
        elif leaf in self._derived and leaf not in self._open:
            self._open.add(leaf)
            new = self._follow(leaf, self._derived[leaf])
            self._open.discard(leaf)
        else:
            new = self.default(old)
        self._new[leaf] = new
        return new

    def _follow(self, leaf: Node, relation: Deriving) -> int:
        whole = relation.derive(self._size)
        for other in self.sizes.leaves(relation.target):
            whole //= 1 if other == leaf else self._leaf(other)
        return max(whole, 1)
