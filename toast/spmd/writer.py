"""Writes what one stage does: a loop over the microbatches, which come and go by permutes.

In step t the stage of rank r works on microbatch t - r. What it makes in the steps before and after
its microbatches is thrown away: sums and stacks select what is valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from toast.microbatch.build import Build
from toast.microbatch.kinds import Dependence
from toast.microbatch.time_axis import Cut, wide
from toast.microbatch.tree import WHILE, Block
from toast.microbatch.writer import Writer, copy_node


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeAxis:
    """The axis of a mesh along which the stages lie; `axes` are name and size of all."""

    name: str
    axes: tuple[tuple[str, int], ...]

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return dict(self.axes)[self.name]

    @property
    def devices(self) -> int:
        """The devices of the whole mesh."""
        return int(np.prod([size for _, size in self.axes]))

    def rows(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """The devices, a row for each place on the other axes, a column for each stage."""
        sizes = [size for _, size in self.axes]
        place = [name for name, _ in self.axes].index(self.name)
        numbers = np.arange(self.devices, dtype=np.int64).reshape(sizes)
        return np.moveaxis(numbers, place, -1).reshape(-1, self.stages)


class StageWriter(Writer):
    """Writes the program of a stage (`StageLayers`) into the region of a manual computation."""

    def __init__(
        self,
        block: Block,
        cut: Cut,
        count: int,
        axis: PipeAxis,
        carried: Sequence[int],
        rising: bool,
    ) -> None:
        """`carried` are the slots that go from stage to stage, up where the order is `rising`."""
        super().__init__(block, cut.colour, cut.roles, cut.kinds, cut.needs, count, wide("program"))
        self._axis = axis
        self._carried = tuple(carried)
        self._rising = rising
        self._node = next(node for node in block.nodes if node.name == WHILE)
        self._last = {self._node.results[slot] for slot in carried}
        self._received: list[Any] = []
        self._rank: Any = None

    def write_stage(self, arguments: Sequence[Any], rank: Any) -> list[Any]:
        """What the program results in, on the arguments that the stage of a rank has."""
        self._before = dict(zip(self._main.arguments, arguments, strict=True))
        self._rank = rank
        for node in self._main.nodes:
            if node in self._needs.before:
                copy_node(node, self._before)
        self._loop()
        found = self._before | self._after
        return [
            self._from_last(found[made]) if made in self._last else found[made]
            for made in self._main.yields
        ]

    def _loop(self) -> None:
        needs, build = self._needs, self._build
        sliced = [value for value in needs.sliced if value in self._before]
        carried = [build.number(0), self._rank]
        carried += [self._before[value] for value in needs.imports]
        carried += [build.split(self._before[value], self._place(value)) for value in sliced]
        hands = len(carried)
        carried += [build.zeros(self._handed_type(slot)) for slot in self._carried]
        first = len(carried)
        carried += [build.zeros(self._carried_type(value)) for value in needs.outputs]
        types = [value.type for value in carried]
        loop = ir.Operation.create(WHILE, results=types, operands=carried, regions=2)
        named = [ir.Location.name("pipeline")] * len(types)
        condition = loop.regions[0].blocks.append(*types, arg_locs=named)
        with ir.InsertionPoint(condition):
            steps = self._count + self._axis.stages - 1
            Build(self._colour, steps).less(condition.arguments[0])
        body = loop.regions[1].blocks.append(*types, arg_locs=named)
        with ir.InsertionPoint(body):
            self._step(list(body.arguments), sliced, hands, first)
        for value, made in zip(needs.outputs, list(loop.results)[first:], strict=True):
            self._after[value] = self._finished(value, made)

    def _handed_type(self, slot: int) -> Any:
        value = self._node.results[slot]
        cut = self._kinds.of[value] is Dependence.CUT
        return self._build.part_type(value) if cut else value.type

    def _step(self, given: list[Any], sliced: list[Any], hands: int, first: int) -> None:
        """The body of the loop: one microbatch of this stage, or a step of the bubble."""
        needs, build = self._needs, self._build
        step, self._rank = given[:2]
        number = hlo.subtract(step, self._rank)
        low, high = build.number(0), build.number(self._count - 1)
        self._time = hlo.clamp(low, number, high)
        valid = _compared("EQ", number, self._time)
        at_end = _compared("EQ", self._rank, build.number(self._axis.stages - 1))
        ahead = 2 + len(needs.imports)
        self._wholes = dict(zip(needs.imports, given[2:ahead], strict=True))
        for value, whole in zip(sliced, given[ahead:hands], strict=True):
            self._parts[value] = build.part(whole, value, self._time)
        self._received = given[hands:first]
        for node in self._main.nodes:
            if node is self._node:
                self._receive()
            self._inside(node)
        sent = [self._handed_on(slot) for slot in self._carried]
        valid_at_end = hlo.and_(valid, at_end)
        kept = []
        for value, old in zip(needs.outputs, given[first:], strict=True):
            kept.append(self._kept(value, old, valid_at_end if value in self._last else valid))
        hlo.ReturnOp([build.next(step), *given[1:hands], *sent, *kept])

    def _receive(self) -> None:
        """The first stage begins with what the loop begins with, others with what they are sent."""
        start = _compared("EQ", self._rank, self._build.number(0))
        inside = self._node.blocks[1].arguments
        for slot, received in zip(self._carried, self._received, strict=True):
            init, like = self._node.operands[slot], inside[slot]
            own = self._carry(init, like)
            cut = self._kinds.of[like] is Dependence.CUT
            (self._parts if cut else self._wholes)[init] = hlo.select(start, own, received)

    def _handed_on(self, slot: int) -> Any:
        """What the next stage gets."""
        made = self._node.results[slot]
        rows = self._axis.rows()
        pairs = np.stack([rows[:, :-1].ravel(), rows[:, 1:].ravel()], axis=1)
        if not self._rising:
            pairs = pairs[:, ::-1]
        return ir.Operation.create(
            "stablehlo.collective_permute",
            results=[self._handed_type(slot)],
            operands=[self._carry(made, made)],
            attributes={
                "source_target_pairs": ir.DenseIntElementsAttr.get(np.ascontiguousarray(pairs)),
                "channel_handle": _channel(),
            },
        ).results[0]

    def _kept(self, value: Any, old: Any, valid: Any) -> Any:
        """A sum or stack with what this step makes, if that is any of a microbatch."""
        build, kind = self._build, self._kinds.of[value]
        if kind is Dependence.CUT:
            before = build.part(old, value, self._time)
            part = hlo.select(valid, self._parts[value], before)
            return build.put(old, part, value, self._time)
        made = self._wholes[value]
        if kind is Dependence.SUM:
            return hlo.add(old, hlo.select(valid, made, build.zeros(made.type)))
        return hlo.select(valid, made, old)

    def _from_last(self, value: Any) -> Any:
        """What the last stage has, on all of them: the others have zeros."""
        groups = ir.DenseIntElementsAttr.get(np.ascontiguousarray(self._axis.rows()))
        made = ir.Operation.create(
            "stablehlo.all_reduce",
            results=[value.type],
            operands=[value],
            attributes={
                "replica_groups": groups,
                "channel_handle": _channel(),
                "use_global_device_ids": ir.UnitAttr.get(),
            },
            regions=1,
        )
        element = ir.RankedTensorType.get([], ir.RankedTensorType(value.type).element_type)
        location = ir.Location.name("pipeline")
        block = made.regions[0].blocks.append(element, element, arg_locs=[location] * 2)
        with ir.InsertionPoint(block):
            boolean = str(element.element_type) == "i1"
            hlo.ReturnOp([(hlo.or_ if boolean else hlo.add)(*block.arguments)])
        return made.results[0]


def _compared(direction: str, left: Any, right: Any) -> Any:
    how = hlo.ComparisonDirectionAttr.get(direction)
    return hlo.compare(left, right, how, compare_type=hlo.ComparisonTypeAttr.get("SIGNED"))


def _channel() -> Any:
    return hlo.ChannelHandle.get(1, 1)
