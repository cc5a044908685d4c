"""Runs a program in shards exactly as a state's layouts say, with no partitioner.

Every value is held as one array per device. At each use it is brought to the layout that the use
wants; the op then runs on each device's own operands; partial results over split reductions are
combined; the result is brought to the layout of the value. That the outcome equals the unsharded
run proves the names: which factor splits which dimension, which are reductions, which need strips
of neighbours, which cannot be split.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from tests.laws.layout import Array, Grid, Shards, assemble, cut, moves
from tests.laws.regions import Node, tree
from tests.laws.spmd import Placed, run_placed
from toast.analysis.load import Source
from toast.analysis.program import FactorKind
from toast.costmodel.evaluator import Evaluator, State
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import ResolvedPlan, resolve
from toast.emit.specs import Specs
from toast.plans.plan import Spec


@dataclass(slots=True)
class Executor:
    """One program under one state. `collectives` counts what resharding and combining took."""

    source: Source
    evaluator: Evaluator
    state: State
    grid: Grid | None = None
    collectives: Counter[str] = field(default_factory=Counter)
    _held: dict[int, Shards] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._program = self.source.program
        self._resolved = resolve(self.evaluator, self.state)
        self._specs = Specs(self._resolved)
        self._grid = self.grid or Grid(self.evaluator.mesh)
        self._layouts = self.evaluator.layouts

    _program: Any = field(init=False)
    _resolved: ResolvedPlan = field(init=False)
    _specs: Specs = field(init=False)
    _grid: Grid = field(init=False)
    _layouts: Any = field(init=False)
    _results: list[Array] = field(default_factory=list)

    def _axes(self, item: int) -> list[str]:
        axes = self.evaluator.mesh.axes
        return [axes[number].name for number in self._resolved.axes_of(item)]

    def run(self, inputs: list[Array]) -> list[Array]:
        """The results of `main`, put together from their shards."""
        for argument, array in zip(self._program.arguments, inputs, strict=True):
            spec = self._specs.value(argument.value)
            self._check_even(array.shape, spec)
            self._held[argument.value] = cut(array, spec, self._grid)
        with self.source.loaded.module.context, ir.Location.unknown():
            self._nodes(tree(self.source))
        return self._results

    def _check_even(self, shape: tuple[int, ...], spec: Spec) -> None:
        for size, axes in zip(shape, spec, strict=True):
            count = self._grid.part(axes, 0)[1]
            assert size % count == 0, "an argument or result in uneven parts"

    def _nodes(self, nodes: list[Node]) -> None:
        for node in nodes:
            match self._program.kind(node.op):
                case "argument":
                    pass
                case "return":
                    self._return(node.op)
                case "loop_begin":
                    self._loop(node)
                case "case_end":
                    self._case(node)
                case "stablehlo.optimization_barrier":
                    self._move(self._used(node.op), node.op, list(self._program.values_of(node.op)))
                case _:
                    self._op(node.op)

    def _return(self, op: int) -> None:
        for use, shards in zip(self._program.uses_of(op), self._used(op), strict=True):
            shape = self._program.shape(self._program.use_value[use])
            self._check_even(shape, self._specs.use(use))
            self._results.append(assemble(shards, self._specs.use(use), shape, self._grid))

    def _used(self, op: int) -> list[Shards]:
        """The operands of an op, laid out as it wants them."""
        found = []
        for use in self._program.uses_of(op):
            value = int(self._program.use_value[use])
            shape = self._program.shape(value)
            source, target = self._specs.value(value), self._specs.use(use)
            found.append(self._reshard(self._held[value], shape, source, target))
        return found

    def _reshard(
        self, shards: Shards, shape: tuple[int, ...], source: Spec, target: Spec
    ) -> Shards:
        if source == target:
            return shards
        self.collectives.update(moves(source, target))
        return cut(assemble(shards, source, shape, self._grid), target, self._grid)

    def _move(self, tensors: list[Shards], source_op: int, values: list[int]) -> None:
        """Bring the operands of transfer `source_op` to `values` of another."""
        uses = self._program.uses_of(source_op)
        for shards, use, value in zip(tensors, uses, values, strict=True):
            shape, target = self._program.shape(value), self._specs.value(value)
            self._held[value] = self._reshard(shards, shape, self._specs.use(use), target)

    def _loop(self, node: Node) -> None:
        arguments = list(self._program.values_of(node.op))
        half = len(arguments) // 2
        source, tensors = node.op, self._used(node.op)
        while True:
            self._move(tensors, source, arguments[:half])
            self._move(tensors, source, arguments[half:])
            self._nodes(node.regions[0])
            if not bool(self._scalar(node.predicate)):
                break
            self._nodes(node.regions[1])
            source, tensors = node.end, self._used(node.end)
        self._move(tensors, source, list(self._program.values_of(node.end)))

    def _case(self, node: Node) -> None:
        index = self._scalar(node.predicate)
        if self.source.handles[node.op].name == "stablehlo.if":
            chosen = 0 if bool(index) else 1
        else:
            chosen = int(index) if 0 <= int(index) < len(node.regions) else len(node.regions) - 1
        self._nodes(node.regions[chosen])
        branch = node.ends[chosen]
        self._move(self._used(branch), branch, list(self._program.values_of(node.op)))

    def _scalar(self, value: int) -> Any:
        return self._held[value][0][()]

    def _op(self, op: int) -> None:
        program, layouts = self._program, self._layouts
        placed = Placed(
            program=program,
            op=op,
            handle=self.source.handles[op],
            grid=self._grid,
            operands=[self._specs.use(use) for use in program.uses_of(op)],
            results=[
                self._specs.tensor(int(layouts.result_tensor[value]))
                for value in program.values_of(op)
            ],
            reduced=self._reduced(op),
        )
        computed = run_placed(placed, self._used(op), self.collectives)
        for value, shards, spec in zip(
            program.values_of(op), computed, placed.results, strict=True
        ):
            target = self._specs.value(value)
            self._held[value] = self._reshard(shards, program.shape(value), spec, target)

    def _reduced(self, op: int) -> list[str]:
        """The axes over which the op leaves partial results; nothing blocked may be split."""
        program, layouts = self._program, self._layouts
        start = layouts.unit_start[layouts.op_unit[op]]
        found: list[str] = []
        for index, name in enumerate(program.factors_of(op)):
            axes = self._axes(start + index)
            kind = program.factor_kind[name]
            assert not axes or kind != FactorKind.BLOCKED, "a blocked factor is split"
            if kind == FactorKind.REDUCTION:
                found += axes
        assert len(set(found)) == len(found)
        return found


def unsharded(source: Source, evaluator: Evaluator, inputs: list[Array]) -> list[Array]:
    """The program on one device, op by op.

    (The interpreter is not given the whole program: its scatter writes into its operand, which
    later ops may still read.)
    """
    return Executor(source, evaluator, (), grid=Grid(Mesh(axes=()))).run(inputs)


def same(expected: list[Array], actual: list[Array]) -> bool:
    """Whether two runs agree to the last bit."""
    return all(np.array_equal(a, b) for a, b in zip(expected, actual, strict=True))
