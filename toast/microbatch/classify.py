"""Finds what each value has to do with the batch that is cut: the proof that cutting is exact.

One pass over the ops in order; loops until nothing changes. `Blocked` names the op that stands in
the way where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toast.microbatch.blocked import Blocked, described
from toast.microbatch.colour import Colour, bytes_of, shape_of
from toast.microbatch.early import Early, is_costly
from toast.microbatch.kinds import FREE, Dependence, Kinds
from toast.microbatch.linear import is_linear, makes_zeros
from toast.microbatch.roles import WHOLE, BatchRole, Roles
from toast.microbatch.tree import WHILE, Block, OpNode

PAIRWISE = "stablehlo.optimization_barrier"
"""Passes each operand on by itself."""
_EFFECTS = frozenset({"stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send", "stablehlo.recv"})


class _Stuck(Exception):
    """An op within a loop or a branch that is not exact."""

    def __init__(self, node: OpNode, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why


class Classifier:
    """Kinds of the values of one program for one colour."""

    def __init__(self, main: Block, colour: Colour, roles: Roles) -> None:
        self._main = main
        self._colour = colour
        self._roles = roles
        self._kinds = Kinds()
        self._early = Early(main, self._kinds)
        self._forced: set[Any] = set()

    def run(self) -> Kinds:
        """The kinds; raises `Blocked`.

        Begins anew with each sum that turns out to be wanted before the loop.
        """
        known = -1
        while known != len(self._forced):
            known = len(self._forced)
            self._kinds.clear()
            self._pass()
        return self._kinds

    def _pass(self) -> None:
        for value in self._main.arguments:
            self._kinds.of[value] = self._entering(Dependence.FREE, value)
        for node in self._main.nodes:
            try:
                self._give(node, self._top(node))
            except _Stuck as stuck:
                raise Blocked(stuck.node, stuck.why) from None

    def _give(self, node: OpNode, kinds: Sequence[Dependence]) -> None:
        for value, kind in zip(node.results, kinds, strict=True):
            self._kinds.of[value] = Dependence.FREE if value in self._forced else kind
        looped = self._kinds.looped
        if looped and any(value in looped for value in node.read):
            made = zip(node.results, kinds, strict=True)
            looped.update(value for value, kind in made if kind in FREE)

    def _read(self, node: OpNode) -> list[Dependence]:
        return [self._kinds.of[value] for value in node.read]

    def _top(self, node: OpNode) -> list[Dependence]:
        """The kinds of an op's results, which may also run when the loop is over."""
        kinds = self._read(node)
        clash = Dependence.AFTER in kinds and Dependence.CUT in kinds
        if not clash and Dependence.AFTER in kinds:
            if is_costly(node) and any(self._colour.place(value) for value in node.read):
                raise _Stuck(node, self._telling(node, _Stuck(node, WHOLE)))
            return self._after(node)
        if not clash and node.blocks and Dependence.SUM in kinds and Dependence.CUT not in kinds:
            return self._after(node)
        try:
            return self._op(node)
        except _Stuck as stuck:
            if Dependence.CUT not in kinds:
                return self._after(node)
            if self._begin_early(node):
                return self._top(node)
            if not clash and not is_costly(node) and self._is_small(node):
                return self._after(node)
            raise _Stuck(stuck.node, self._telling(node, stuck)) from None

    def _after(self, node: OpNode) -> list[Dependence]:
        return [Dependence.AFTER] * len(node.results)

    def _begin_early(self, node: OpNode) -> bool:
        """Whether the sums that an op on microbatches needs are had before the loop."""
        wanted = [v for v in node.read if self._kinds.of[v] in (Dependence.SUM, Dependence.AFTER)]
        sums = [self._early.sums(value) for value in wanted]
        if not wanted or any(one is None for one in sums):
            return False
        for found in sums:
            self._forced |= found or set()
        self._kinds.of |= dict.fromkeys(self._forced, Dependence.FREE)
        return True

    def _is_small(self, node: OpNode) -> bool:
        """Whether what an op reads of the batch is no more than an argument of it."""
        arguments = [v for v in self._main.arguments if self._kinds.of[v] is Dependence.CUT]
        most = max(map(bytes_of, arguments), default=0)
        read = [value for value in node.read if self._kinds.of[value] is Dependence.CUT]
        return all(bytes_of(value) <= most for value in read)

    def _telling(self, node: OpNode, stuck: _Stuck) -> str:
        """Names the sum that an op on microbatches would have to wait for."""
        for value in node.read:
            maker = self._early.maker(value)
            if self._kinds.of[value] in (Dependence.SUM, Dependence.AFTER) and maker is not None:
                chief = self._early.chief(value) or maker
                return f"it needs the whole batch's {described(chief.op)} for each part of it"
        return stuck.why

    def _op(self, node: OpNode) -> list[Dependence]:
        """The kinds of an op's results where it runs in the loop."""
        kinds = self._read(node)
        if all(kind in FREE for kind in kinds):
            if node.name == WHILE:
                self._try_parts(node)
            zero = makes_zeros(node, kinds)
            return [Dependence.ZERO if zero else Dependence.FREE] * len(node.results)
        if node.name in _EFFECTS:
            raise _Stuck(node, "it has effects beside its results")
        if node.name == PAIRWISE:
            return kinds
        mixed = Dependence.SUM in kinds and Dependence.CUT in kinds and not node.blocks
        if Dependence.AFTER in kinds or mixed:
            raise _Stuck(node, "it joins parts of the batch with a sum over all of it")
        if node.blocks:
            return self._while(node) if node.name == WHILE else self._branches(node)
        if Dependence.CUT not in kinds:
            if not is_linear(node, kinds):
                raise _Stuck(node, "it is not linear in a sum over the batch")
            return [Dependence.SUM] * len(node.results)
        return self._cut(node, kinds)

    def _cut(self, node: OpNode, kinds: Sequence[Dependence]) -> list[Dependence]:
        role = self._roles.of(node)
        if role is BatchRole.ALONG:
            return [Dependence.CUT] * len(node.results)
        if role is not BatchRole.SUMMED:
            raise _Stuck(node, str(role))
        # What a sum begins with is added once for each part.
        begins = {"stablehlo.reduce": 1, "stablehlo.scatter": 0}.get(node.name)
        if begins is not None and kinds[begins] not in (Dependence.ZERO, Dependence.SUM):
            raise _Stuck(node, "what its sum begins with would be added for each part")
        return [Dependence.SUM]

    def _entering(self, kind: Dependence, value: Any) -> Dependence:
        """What is carried into a loop with the batch as a dimension is cut there."""
        if kind in FREE and self._colour.place(value) is not None:
            return Dependence.CUT
        return kind

    def _while(self, node: OpNode) -> list[Dependence]:
        carried = self._through(node)
        made = zip(node.results, carried, strict=True)
        self._kinds.looped.update(value for value, kind in made if kind in FREE)
        return carried

    def _try_parts(self, node: OpNode) -> None:
        """Note a loop that makes each element of the batch by itself, as random bits are made."""
        try:
            carried = self._through(node)
        except _Stuck:
            return
        if Dependence.CUT in carried and Dependence.SUM not in carried:
            self._kinds.divisible.add(node)

    def _through(self, node: OpNode) -> list[Dependence]:
        """The kinds of what a loop carries."""
        if node.captured:
            raise _Stuck(node, "its body reads values that it does not carry")
        condition, body = node.blocks
        carried = [
            self._entering(kind, value)
            for kind, value in zip(self._read(node), body.arguments, strict=True)
        ]
        while True:
            for block in (condition, body):
                self._kinds.of.update(zip(block.arguments, carried, strict=True))
            self._condition(node, condition)
            self._inside(body)
            yields = [self._kinds.of[value] for value in body.yields]
            joined = [
                self._joined(node, one, other, value)
                for one, other, value in zip(carried, yields, body.arguments, strict=True)
            ]
            if joined == carried:
                return carried
            carried = joined

    def _condition(self, node: OpNode, condition: Block) -> None:
        why = "how often the loop runs depends on the batch"
        try:
            self._inside(condition)
        except _Stuck:
            raise _Stuck(node, why) from None
        if self._kinds.of[condition.yields[0]] not in FREE:
            raise _Stuck(node, why)

    def _inside(self, block: Block) -> None:
        for node in block.nodes:
            self._kinds.of.update(zip(node.results, self._op(node), strict=True))

    def _joined(self, node: OpNode, one: Dependence, other: Dependence, value: Any) -> Dependence:
        """What is of either kind, by turns or by branch."""
        if one is other:
            return one
        low, high = sorted((one, other))
        placed = self._colour.place(value) is not None
        if low is Dependence.ZERO or (low is Dependence.FREE and high is Dependence.CUT and placed):
            return high
        raise _Stuck(node, f"a value of {shape_of(value)} is a sum over the batch only at times")

    def _branches(self, node: OpNode) -> list[Dependence]:
        if self._kinds.of[node.operands[0]] not in FREE:
            raise _Stuck(node, "which branch runs depends on the batch")
        found: list[Dependence] = []
        for block in node.blocks:
            self._inside(block)
            kinds = [
                self._entering(self._kinds.of[value], value) if value not in self._zeros(block)
                else self._kinds.of[value]
                for value in block.yields
            ]  # fmt: skip
            pairs = zip(found or kinds, kinds, node.results, strict=True)
            found = [self._joined(node, one, other, value) for one, other, value in pairs]
        made = zip(node.results, found, strict=True)
        self._kinds.looped.update(value for value, kind in made if kind in FREE)
        return found

    def _zeros(self, block: Block) -> set[Any]:
        return {value for value in block.yields if self._kinds.of[value] is Dependence.ZERO}
