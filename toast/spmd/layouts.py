"""Where arguments and results of a step lie whose layers are on stages.

Layers lie over the axis of the stages. On the axes beside it each value has the layout that a
planner found for the step as a whole, as far as stages and microbatches can have it; without a
planner these axes share the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from toast.emit.shardy import Shardings
from toast.emit.writer import annotate_function, release
from toast.microbatch.colour import shape_of
from toast.microbatch.time_axis import TimeAxis
from toast.recompute.loops import terminator
from toast.resize.sizes import Node
from toast.spmd.batch import ProvenStage
from toast.spmd.writer import PipeAxis

Layout = tuple[tuple[str, ...], ...]
"""The axes of each dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutsBeside:
    """The layouts of a step's arguments and results on the axes beside the stages."""

    arguments: tuple[Layout, ...]
    results: tuple[Layout, ...]


LayoutPlanner = Callable[[Mapping[int, Layout]], LayoutsBeside]
"""Finds layouts for the step, given those that some arguments, by number, must have."""


class PipelineLayouts:
    """The layouts of arguments and results, and the axes over which a microbatch is shared."""

    def __init__(
        self,
        main: ir.Operation,
        named: TimeAxis,
        axis: PipeAxis,
        proven: Sequence[ProvenStage],
        count: int,
        planner: LayoutPlanner | None,
    ) -> None:
        self._main = main
        self._equations = named.equations
        self._axis = axis
        self._sizes = dict(axis.axes)
        self._microbatch = min(one.cut.size for one in proven) // count
        self._stage_layers = {
            leaf: one.stage.count for one in proven for slot in one.stage.layers.stacked
            for leaf in self._leaves(one.stage.layers.loop.op.operands[slot], 0)[:1]
        }  # fmt: skip
        self._batch = {
            leaf for one in proven
            for leaf in self._leaves(
                one.stage.layers.loop.op.operands[one.stage.slots[one.dimension[0]]],
                one.dimension[1],
            )
        }  # fmt: skip
        entry = main.regions[0].blocks[0]
        given, made = list(entry.arguments), list(terminator(entry).operands)
        beside = self._shared_batch(given, made) if planner is None else self._planned(planner)
        self.arguments = tuple(map(self._on_stages, given, beside.arguments))
        self.results = tuple(map(self._on_stages, made, beside.results))
        self.batch_axes = max(
            (
                axes
                for value, layout in zip(given, self.arguments, strict=True)
                for dim, axes in enumerate(layout)
                if self._is_batch(value, dim)
            ),
            key=len,
            default=(),
        )

    def _leaves(self, value: Any, dim: int) -> list[Node]:
        return self._equations.sizes.leaves(self._equations.values[value][dim])

    def _is_batch(self, value: Any, dim: int) -> bool:
        return bool(self._batch.intersection(self._leaves(value, dim)[:1]))

    def _dividing(self, axes: Sequence[str], size: int) -> tuple[str, ...]:
        """The axes over which so many can be shared."""
        found = []
        for name in axes:
            if size % self._sizes[name] == 0:
                found.append(name)
                size //= self._sizes[name]
        return tuple(found)

    def _shared_batch(self, given: Sequence[Any], made: Sequence[Any]) -> LayoutsBeside:
        """The batch over all axes that divide a microbatch, all else whole."""
        others = [name for name, _ in self._axis.axes if name != self._axis.name]
        axes = self._dividing(others, self._microbatch)

        def layout(value: Any) -> Layout:
            dims = range(len(self._equations.values.get(value, ())))
            first = next((dim for dim in dims if self._is_batch(value, dim)), None)
            return tuple(axes if dim == first else () for dim in dims)

        return LayoutsBeside(arguments=tuple(map(layout, given)), results=tuple(map(layout, made)))

    def _planned(self, planner: LayoutPlanner) -> LayoutsBeside:
        """What the planner finds; where microbatches or stages cannot have that, once more."""
        found = planner({})
        arguments = list(self._main.regions[0].blocks[0].arguments)
        pins = {
            number: fitting
            for number, (value, layout) in enumerate(zip(arguments, found.arguments, strict=True))
            if (fitting := self._without_stages(self._on_stages(value, layout))) != layout
        }
        return planner(pins) if pins else found

    def _on_stages(self, value: Any, beside: Layout) -> Layout:
        """A layout with the layers over the stages, less the axes that do not divide the rest."""
        staged = False
        dims = []
        for dim, axes in enumerate(beside):
            leaf = next(iter(self._leaves(value, dim)), None)
            if leaf in self._batch:
                dims.append(self._dividing(axes, self._microbatch))
            elif leaf in self._stage_layers and not staged:
                staged = True
                rest = self._dividing(axes, self._stage_layers[leaf])
                dims.append((self._axis.name, *rest))
            else:
                dims.append(axes)
        return tuple(dims)

    def _without_stages(self, layout: Layout) -> Layout:
        return tuple(tuple(name for name in axes if name != self._axis.name) for axes in layout)

    def in_stage(self, proven: ProvenStage) -> tuple[Layout | None, ...]:
        """The layouts that the arguments of a stage's program have, if they are known.

        They are those of the step's arguments, also of what these are converted to, and that of
        what stages hand on. Others, such as what the forward pass keeps, are XLA's choice.
        """
        stage = proven.stage
        block = proven.axis.block
        found = [
            self._of_argument(stage.layers.loop.op.operands[slot])
            or (self._of_batch(proven, inside) if slot in stage.layers.carried else None)
            for slot, inside in zip(stage.slots, block.arguments, strict=False)
        ]
        return (*found, *[()] * (len(block.arguments) - len(found)))

    def _of_argument(self, value: Any) -> Layout | None:
        while not isinstance(value, ir.BlockArgument):
            op = value.owner.operation
            if op.name != "stablehlo.convert":
                return None
            value = op.operands[0]
        return self._without_stages(self.arguments[value.arg_number])

    def _of_batch(self, proven: ProvenStage, value: Any) -> Layout:
        place = proven.cut.colour.place(value)
        dims = range(len(shape_of(value)))
        return tuple(
            self.batch_axes if place is not None and place.dim == dim else () for dim in dims
        )

    def annotate(self) -> None:
        """Write the layouts on the arguments and results of `main`."""
        shardings = Shardings()
        arguments, results = (
            [[list(axes) for axes in layout] for layout in layouts]
            for layouts in (self.arguments, self.results)
        )
        annotate_function(self._main, "arg_attrs", arguments, shardings)
        annotate_function(self._main, "res_attrs", results, shardings)
        release(self._main, arguments, results)
