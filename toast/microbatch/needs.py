"""What runs before the loop over the microbatches, within it, and after it.

Values are asked for backwards: what the program returns is wanted after the loop, what that is made
of in the loop, and what the loop reads before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from jaxlib.mlir import ir

from toast.microbatch.blocked import Blocked
from toast.microbatch.classify import PAIRWISE
from toast.microbatch.colour import Colour, bytes_of
from toast.microbatch.kinds import FREE, Dependence, Kinds
from toast.microbatch.linear import widens
from toast.microbatch.roles import BatchRole, Roles
from toast.microbatch.tree import WHILE, Block, OpNode


class LoopVersion(Enum):
    """Which part of a value is made in the loop."""

    PART = "part"
    """The elements of the microbatch."""
    WHOLE = "whole"
    """As the program has it: the same each time, or the microbatch's part of a sum."""


@dataclass(slots=True, kw_only=True)
class LoopPhases:
    """Nodes by where they run, and what passes between.

    `sums` are added up by the loop, `stacks` written part by part, `kept` left by the last part.
    `imports` are read by the loop as they are; of `sliced` each part reads its own elements.
    `timed` loops within need to know which part it is.
    """

    before: set[OpNode] = field(default_factory=set)
    inside: dict[OpNode, set[LoopVersion]] = field(default_factory=dict)
    after: set[OpNode] = field(default_factory=set)
    sums: list[Any] = field(default_factory=list)
    stacks: list[Any] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    imports: dict[Any, None] = field(default_factory=dict)
    sliced: dict[Any, None] = field(default_factory=dict)
    timed: set[OpNode] = field(default_factory=set)
    wanted: dict[Any, set[LoopVersion]] = field(default_factory=dict)

    @property
    def outputs(self) -> list[Any]:
        """What the loop hands on."""
        return [*self.sums, *self.stacks, *self.kept]


def find_needs(main: Block, colour: Colour, roles: Roles, kinds: Kinds) -> LoopPhases:
    """What runs where."""
    finder = _Finder(main, colour, roles, kinds)
    finder.run()
    return finder.needs


class _Finder:
    def __init__(self, main: Block, colour: Colour, roles: Roles, kinds: Kinds) -> None:
        self._main = main
        self._colour = colour
        self._roles = roles
        self._kinds = kinds
        self._outer: set[Any] = set(main.arguments)
        for node in main.nodes:
            self._outer.update(node.results)
        self._readers = Counter(value for node in main.nodes for value in set(node.read))
        self._readers.update(set(main.yields))
        self._makers = {value: node for node in main.nodes for value in node.results}
        self.needs = LoopPhases()
        self._wanted = self.needs.wanted

    def run(self) -> None:
        late = self._after()
        needs = self.needs
        for value in [*needs.sums, *needs.kept]:
            self._want(value, LoopVersion.WHOLE)
        for value in needs.stacks:
            self._want(value, LoopVersion.PART)
        self._block(self._main, [])
        for value in self._main.arguments:
            self._import(value)
        self._before()
        self._late(late)

    def _after(self) -> set[Any]:
        """Goes back from the results; returns the free values that are wanted after the loop."""
        wanted, free = set(self._main.yields), set[Any]()
        for node in reversed(self._main.nodes):
            made = [value for value in node.results if value in wanted]
            if _has_effects(node):
                self._effect(node, wanted)
            elif made and node.name == PAIRWISE:
                self._barrier(node, wanted, free)
            elif made and self._runs_after(node):
                self.needs.after.add(node)
                wanted.update(node.read)
            else:
                self._hand_on(made, wanted, free)
        return free

    def _barrier(self, node: OpNode, wanted: set[Any], free: set[Any]) -> None:
        """Each value goes its own way."""
        cut = any(self._kinds.of[value] is Dependence.CUT for value in node.read)
        for value, made in zip(node.operands, node.results, strict=True):
            kind = self._kinds.of[made]
            if made in wanted and (
                kind is Dependence.AFTER or (kind is Dependence.SUM and not cut)
            ):
                self.needs.after.add(node)
                wanted.add(value)
            else:
                self._hand_on([made], wanted, free)

    def _hand_on(self, values: Iterable[Any], wanted: set[Any], free: set[Any]) -> None:
        """What the loop makes of that which is wanted after it."""
        needs = self.needs
        for value in values:
            if value not in wanted:
                continue
            kind = self._kinds.of[value]
            if value in self._kinds.looped:
                _add(needs.kept, value)
            elif kind in FREE:
                free.add(value)
            else:
                _add(needs.sums if kind is Dependence.SUM else needs.stacks, value)

    def _effect(self, node: OpNode, wanted: set[Any]) -> None:
        kinds = {self._kinds.of[value] for value in [*node.read, *node.results]}
        if Dependence.CUT in kinds or Dependence.SUM in kinds:
            raise Blocked(node, "it has effects beside its results")
        if Dependence.AFTER in kinds:
            self.needs.after.add(node)
            wanted.update(node.read)
        else:
            self.needs.before.add(node)

    def _runs_after(self, node: OpNode) -> bool:
        """Whether an op runs once, when all parts are added up."""
        kinds = [self._kinds.of[value] for value in node.results]
        if Dependence.AFTER in kinds:
            return True
        given = [self._kinds.of[value] for value in node.read]
        if Dependence.SUM not in kinds or Dependence.CUT in given or node.blocks:
            return False
        if any(value in self._kinds.looped for value in node.read):
            return False
        summed = {value for value in node.read if self._kinds.of[value] is Dependence.SUM}
        if any(self._readers[value] > 1 for value in summed):
            return True  # else the loop would carry both what is read and what is made of it
        if node.name == "stablehlo.convert":
            return not widens(node)
        return sum(map(bytes_of, node.results)) >= sum(map(bytes_of, summed))

    def _want(self, value: Any, version: LoopVersion) -> None:
        self._wanted.setdefault(value, set()).add(version)

    def _block(self, block: Block, loops: Sequence[OpNode]) -> None:
        """Goes back through a block that runs, at least in part, in the loop."""
        for node in reversed(block.nodes):
            for value in node.results:
                for version in sorted(self._wanted.get(value, ()), key=lambda one: one.value):
                    self._make(node, value, version, loops)

    def _make(
        self, node: OpNode, value: Any, version: LoopVersion, loops: Sequence[OpNode]
    ) -> None:
        """One version of a result is wanted in the loop."""
        kind = self._kinds.of[value]
        if version is LoopVersion.PART and kind in FREE and not self._cuts(node):
            self.needs.sliced[value] = None
            self.needs.timed.update(loops)
            version = LoopVersion.WHOLE
            if value in self._outer and value not in self._kinds.looped:
                return
        elif version is LoopVersion.WHOLE and self._imports(node, value, kind):
            self.needs.imports[value] = None
            return
        if node.blocks and not self._is_free(node):
            version = LoopVersion.PART
        made = self.needs.inside.setdefault(node, set())
        if version in made:
            return
        made.add(version)
        if node.name == "stablehlo.iota" and version is LoopVersion.PART:
            self.needs.timed.update(loops)
        if node.name == PAIRWISE:
            self._pairs(node)
        elif node.blocks and version is LoopVersion.PART:
            self._control(node, loops)
        else:
            self._read(node, version)

    def _is_free(self, node: OpNode) -> bool:
        """Whether an op is no part of the batch; its results are all of one kind then."""
        free = all(self._kinds.is_free(value) for value in node.results)
        return free and not any(value in self._kinds.looped for value in node.results)

    def _imports(self, node: OpNode, value: Any, kind: Dependence) -> bool:
        """Whether a free value is made once, before the loop."""
        outer = value in self._outer and value not in self._kinds.looped
        if node.name == PAIRWISE:  # it keeps ops of the loop apart, and holds its values there
            return False
        return outer and kind in FREE and not self._is_cheap(node)

    def _is_cheap(self, node: OpNode) -> bool:
        """Whether the loop makes a free value itself rather than carry it."""
        if node.name == "stablehlo.broadcast_in_dim":
            maker = self._makers.get(node.operands[0])
            return maker is not None and maker.name == "stablehlo.constant" and is_splat(maker)
        return node.name == "stablehlo.constant" and is_splat(node)

    def _cuts(self, node: OpNode) -> bool:
        """Whether an op on free values makes just the elements of a microbatch."""
        if node.blocks:
            return node in self._kinds.divisible
        if node.name == "stablehlo.constant":
            return is_splat(node)
        return self._roles.of(node) is BatchRole.ALONG

    def _read(self, node: OpNode, version: LoopVersion) -> None:
        """An op that makes whole values of whole ones, or parts (and sums) of parts."""
        for value in node.read:
            kind = self._kinds.of[value]
            cut = kind is Dependence.CUT or (
                kind in FREE and self._colour.place(value) is not None and self._on_parts(node)
            )
            if version is LoopVersion.WHOLE and self._kinds.is_free(node.results[0]):
                cut = False
            self._want(value, LoopVersion.PART if cut else LoopVersion.WHOLE)

    def _pairs(self, node: OpNode) -> None:
        """A barrier holds the values that are wanted, each in its version."""
        for value, made in zip(node.operands, node.results, strict=True):
            for version in self._wanted.get(made, ()):
                self._want(value, version)

    def _on_parts(self, node: OpNode) -> bool:
        """Whether an op reads parts of the batch where it can."""
        kinds = [self._kinds.of[value] for value in node.read]
        return Dependence.SUM not in kinds or Dependence.CUT in kinds

    def _control(self, node: OpNode, loops: Sequence[OpNode]) -> None:
        if node.name == WHILE:
            condition, body = node.blocks
            for value, yielded in zip(node.operands, body.arguments, strict=True):
                self._want(value, self._carried(yielded))
            for value, yielded in zip(body.yields, body.arguments, strict=True):
                self._want(value, self._carried(yielded))
            self._want(condition.yields[0], LoopVersion.WHOLE)
            inner = [*loops, node]
            self._block(condition, inner)
            self._block(body, inner)
            return
        self._want(node.operands[0], LoopVersion.WHOLE)
        for block in node.blocks:
            for value, result in zip(block.yields, node.results, strict=True):
                self._want(value, self._carried(result))
            self._block(block, loops)

    def _carried(self, value: Any) -> LoopVersion:
        return LoopVersion.PART if self._kinds.of[value] is Dependence.CUT else LoopVersion.WHOLE

    def _import(self, value: Any) -> None:
        """An argument of the program that the loop reads."""
        for version in self._wanted.get(value, ()):
            into = self.needs.sliced if version is LoopVersion.PART else self.needs.imports
            into[value] = None

    def _before(self) -> None:
        needs = self.needs
        wanted = {*needs.imports, *(value for value in needs.sliced if value in self._outer)}
        for node in reversed(self._main.nodes):
            if node in needs.before or any(
                value in wanted and value not in self._kinds.looped for value in node.results
            ):
                needs.before.add(node)
                wanted.update(_made_of(node, wanted))

    def _late(self, wanted: set[Any]) -> None:
        """Free values that nobody but what runs after the loop reads are made there."""
        needs = self.needs
        for node in reversed(self._main.nodes):
            if node not in needs.before and any(value in wanted for value in node.results):
                needs.after.add(node)
                wanted.update(_made_of(node, wanted))


def _made_of(node: OpNode, wanted: Container[Any]) -> list[Any]:
    """What an op reads to make what is wanted; each result of a barrier is made of one operand."""
    if node.name != PAIRWISE:
        return node.read
    pairs = zip(node.operands, node.results, strict=True)
    return [value for value, made in pairs if made in wanted]


def is_splat(node: OpNode) -> bool:
    """Whether all elements of a constant are the same."""
    try:
        attribute = node.op.attributes["value"]
    except TypeError:
        return False
    return isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat


def _has_effects(node: OpNode) -> bool:
    if not node.results:
        return True
    if node.name != "stablehlo.custom_call" or "has_side_effect" not in node.op.attributes:
        return False
    return bool(node.op.attributes["has_side_effect"].value)


def _add(values: list[Any], value: Any) -> None:
    if value not in values:
        values.append(value)
