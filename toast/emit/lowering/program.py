"""Writes a whole program anew, every move between layouts as explicit steps.

Each value is held in the layout that the plan keeps it in. Before a use it is brought to what that
wants, once for all uses of a block; behind an op partial sums are put together, and results brought
to where they are kept. The plan decides all of it (`ResolvedPlan`); nothing is chosen here but the
order of the steps, and where an op cannot be computed in parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.errors import UnsupportedModule
from toast.analysis.load import Source
from toast.analysis.manual import ManualRegion
from toast.analysis.operations import BRANCHING
from toast.analysis.program import ARGUMENT, BRANCH_END, CASE_END, CONSTRAINT, LOOP_BEGIN, RETURN
from toast.costmodel.resolved import ResolvedPlan
from toast.emit.lowering.loop_sums import find_loop_sums
from toast.emit.lowering.narrow import NarrowMoves
from toast.emit.lowering.ops import undone
from toast.emit.lowering.placed import Placed
from toast.emit.lowering.reductions import ADD, combiner, is_full_of
from toast.emit.lowering.sums import PartialSum, PlannedSums
from toast.emit.lowering.target import LocalTarget, LoweringTarget
from toast.emit.lowering.trades import steps_along
from toast.emit.lowering.ways import PlannedWays
from toast.emit.specs import Specs
from toast.plans.plan import Spec

LOOP = "stablehlo.while"
BARRIER = "stablehlo.optimization_barrier"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A collective that is written, and the op that it is for."""

    kind: str
    axes: tuple[str, ...]
    op: int


class Lowering:
    """Writes the body of a program through a target.

    `undone` counts, by op name, what is computed over fewer axes than planned; `sent` has every
    collective.
    """

    def __init__(
        self, source: Source, resolved: ResolvedPlan, specs: Specs, target: LoweringTarget
    ) -> None:
        self.undone: Counter[str] = Counter()
        self.sent: list[Sent] = []
        self._source, self._specs, self._target = source, specs, target
        self._program, self._layouts = source.program, resolved.evaluator.layouts
        self._sums = PlannedSums(source, resolved, specs)
        self._in_loops = find_loop_sums(source, resolved, specs, self._sums)
        self._ways = PlannedWays(resolved, specs)
        self._constants = resolved.carried_constants()
        self._narrow = NarrowMoves(source.program, resolved, specs)
        self._held: dict[int, Any] = {}
        self._beside: dict[int, list[Any]] = {}
        self._scopes: list[dict[tuple[int, str], Any]] = [{}]
        self._op = 0
        self._reader = -1
        self._numbers: dict[Any, int] = {}

    def write(self, arguments: Sequence[Any]) -> list[Any]:
        """Write what `main` does to arguments laid out as planned; the results, as planned."""
        program = self._program
        for argument, value in zip(program.arguments, arguments, strict=True):
            self._held[argument.value] = value
        self._op = len(program.arguments)
        block = self._source.main.regions[0].blocks[0]
        return self._block(block, "func.return")

    # Blocks

    def _block(self, block: Any, end: str) -> list[Any]:
        """Write the ops of a block; what its last op wants, which is left to be written."""
        for view in block.operations:
            op = view.operation
            self._target.code.location = op.location
            if op.name == end:
                return self._end() if end == "func.return" else []
            if op.name == LOOP:
                self._loop(op)
            elif op.name in BRANCHING:
                self._branches(op)
            else:
                self._single(op)
        return []

    def _end(self) -> list[Any]:
        self._reader = self._op
        return [self._use(use) for use in self._program.uses_of(self._op)]

    def _single(self, op: Any) -> None:
        number, program = self._op, self._program
        self._op += 1
        self._reader = number
        values = program.values_of(number)
        if values and all(bool(program.constant[value]) for value in values):
            return
        if program.kind(number) == CONSTRAINT:
            self._transfer(number, number)
        elif op.name == BARRIER:
            self._barrier(number, op)
        elif self._sums.is_beside(number):
            self._add_beside(number)
        else:
            self._compute(number, op)

    def _transfer(self, uses_of: int, values_of: int) -> None:
        """Values that are what is used, in their own layouts."""
        program = self._program
        pairs = zip(program.uses_of(uses_of), program.values_of(values_of), strict=True)
        for use, value in pairs:
            self._held[value] = self._brought(use, self._specs.value(value))

    def _barrier(self, number: int, op: Any) -> None:
        program, code = self._program, self._target.code
        operands = [self._use(use) for use in program.uses_of(number)]
        copy = op.clone(ip=code.at).operation
        for index, operand in enumerate(operands):
            copy.operands[index] = operand
            copy.results[index].set_type(operand.type)
        rows = zip(program.uses_of(number), program.values_of(number), copy.results, strict=True)
        self._target.annotate(copy, [self._specs.use(use) for use in program.uses_of(number)])
        for use, value, made in rows:
            here, there = self._specs.use(use), self._specs.value(value)
            self._held[value] = self._moved(made, here, there)

    # Ops

    def _placed(self, number: int, op: Any) -> Placed:
        """An op as it is planned."""
        program, specs = self._program, self._specs
        uses, values = program.uses_of(number), program.values_of(number)
        planned = Placed(
            handle=op,
            devices=self._target.code.devices,
            shapes=tuple(program.shape(program.sources[use]) for use in uses),
            made=tuple(program.shape(value) for value in values),
            operands=tuple(specs.use(use) for use in uses),
            results=tuple(specs.tensor(int(self._layouts.result_tensor[v])) for v in values),
            reduced=self._sums.reduced(number),
            passed=self._in_loops.axes(values.start) if values else (),
        )
        partial = self._sums.passed_on(number)
        if partial is None:
            return planned
        operands, results = (partial.given,) * len(uses), (partial.made,)
        return replace(planned, operands=operands, results=results, passed=partial.axes)

    def _compute(self, number: int, op: Any) -> None:
        uses, values = self._program.uses_of(number), self._program.values_of(number)
        whole = self._placed(number, op)
        axes = undone(whole)
        placed = whole.without(axes)
        if axes & whole.axes:
            self.undone[whole.name] += 1
        operands = [
            self._operand(use, want) for use, want in zip(uses, placed.operands, strict=True)
        ]
        region = self._region(op)
        if region is not None and isinstance(self._target, LocalTarget):
            results = self._inlined(region, operands)
        else:
            results = self._target.compute(placed, operands)
        self._collect()
        rows = zip(values, results, placed.results, whole.results, strict=True)
        for place, (value, made, here, there) in enumerate(rows):
            sum_of = self._sums.of(number, place, placed.reduced)
            self._keep(value, made, here, there, sum_of, combiner(placed) or ADD)

    def _add_beside(self, number: int) -> None:
        """An addition to partial sums of what is whole, and waits until they are summed."""
        program, target = self._program, self._target
        (value,), partial, whole = program.values_of(number), list[Any](), list[Any]()
        passed, kept = self._sums.passed_on(number), self._specs.value(value)
        assert passed is not None
        for use in program.uses_of(number):
            source = program.sources[use]
            if self._sums.is_later(source):
                partial.append(self._held[source])
                whole += self._beside.pop(source, [])
            else:
                whole.append(self._use(use))
        if len(partial) > 1:
            partial = [target.added(partial[0], partial[1], passed.made, passed.axes)]
        if len(whole) > 1:
            whole = [target.added(whole[0], whole[1], kept)]
        (made,) = partial
        if self._sums.is_later(value):
            self._held[value], self._beside[value] = made, whole
            return
        self._keep(value, made, passed.made, passed.made, self._sums.of(number, 0, ()), ADD)
        self._held[value] = target.added(self._held[value], whole[0], kept)

    def _operand(self, use: int, want: Spec) -> Any:
        value = self._program.sources[use]
        if self._sums.is_later(value):
            return self._held[value]
        return self._value(value, want)

    def _keep(
        self, value: int, made: Any, here: Spec, there: Spec, sum_of: PartialSum | None, body: str
    ) -> None:
        """Hold a result, once it is summed and in its layout."""
        if self._sums.is_later(value):
            self._held[value] = made
            return
        kept = self._specs.value(value)
        if sum_of is not None and not self._in_loops.axes(value):
            made, here = self._summed(made, here, kept, sum_of, body)
        elif here != there:
            made, here = self._moved(made, here, there), there
        self._held[value] = self._moved(made, here, kept)

    def _summed(
        self, made: Any, here: Spec, kept: Spec, sum_of: PartialSum, body: str
    ) -> tuple[Any, Spec]:
        """A partial result put together, scattered where the plan says so."""
        axes = list(sum_of.axes)
        for dim, wanted in enumerate(kept):
            taken = [axis for axis in wanted if axis in sum_of.scattered and axis in axes]
            if taken:
                left = [axis for axis in axes if axis not in taken]
                made = self._target.scattered(made, here, dim, taken, left, body)
                here = [[*on, *taken] if n == dim else on for n, on in enumerate(here)]
                axes = left
                break
        if axes:
            made = self._target.summed(made, here, axes, body)
        self._collect()
        return made, here

    # Values

    def _use(self, use: int) -> Any:
        return self._value(self._program.sources[use], self._specs.use(use))

    def _brought(self, use: int, spec: Spec) -> Any:
        """What is used, as what takes it on is kept; a constant is made so."""
        if self._program.constant[self._program.sources[use]]:
            return self._value(self._program.sources[use], spec)
        return self._moved(self._use(use), self._specs.use(use), spec)

    def _value(self, value: int, want: Spec) -> Any:
        """A value in the layout that is wanted, moved there once for all of a block."""
        value = self._constants.get(value, value)
        key = value, str(want)
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        if self._program.constant[value]:
            found = self._constant(value, want)
        else:
            found = self._sent_to(value, want)
        self._scopes[-1][key] = found
        return found

    def _sent_to(self, value: int, want: Spec) -> Any:
        """A value in another layout, sent in 16 bits where it is priced so."""
        held, have = self._held[value], self._specs.value(value)
        narrow = self._narrow.of(value, want) if have != want else None
        if narrow is None:
            return self._moved(held, have, want)
        target, own = self._target, self._program.dtype(value)
        return target.converted(
            self._moved(target.converted(held, narrow, have), have, want), own, want
        )

    def _moved(self, value: Any, have: Spec, want: Spec) -> Any:
        for step in steps_along(self._ways.of(have, want), have, want, self._target.code.devices):
            value = self._target.take(value, step)
        self._collect()
        return value

    def _collect(self) -> None:
        sent, op = self._target.code.sent, self._reader
        self.sent += [Sent(kind=kind, axes=tuple(sorted(axes)), op=op) for kind, axes in sent]
        sent.clear()

    def _constant(self, value: int, want: Spec) -> Any:
        """What holds no more than constants, made in the layout that is wanted."""
        program = self._program
        number = program.makers[value]
        op, place = self._source.handles[number], value - program.values_of(number).start
        uses = program.uses_of(number)
        shapes = [program.shape(program.sources[use]) for use in uses]
        whole = program.shape(value)
        nothing: Spec = [[] for _ in whole]
        if op.name == "stablehlo.broadcast_in_dim":
            dims = [int(dim) for dim in op.attributes["broadcast_dimensions"]]
            wanted = [
                [
                    want[dim] if n == whole[dim] else []
                    for n, dim in zip(shapes[0], dims, strict=True)
                ]
            ]
        elif len(op.results) == 1 and not op.regions and all(shape == whole for shape in shapes):
            wanted = [want] * len(shapes)
        else:
            wanted = [[[] for _ in shape] for shape in shapes]
            copy = op.clone(ip=self._target.code.at).operation
            for index, use in enumerate(uses):
                copy.operands[index] = self._value(program.sources[use], wanted[index])
            self._target.annotate(copy, [[[] for _ in one.type.shape] for one in copy.results])
            return self._target.cut(copy.results[place], want)
        operands = [
            self._value(program.sources[use], spec) for use, spec in zip(uses, wanted, strict=True)
        ]
        splittable = op.name in _IN_PARTS or len(shapes) > 0
        made = self._target.constant(op, want if splittable else nothing, operands)
        return made if splittable else self._target.cut(made, want)

    # Regions

    @contextmanager
    def _inside(self, block: Any) -> Iterator[None]:
        code = self._target.code
        outer, code.at = code.at, ir.InsertionPoint(block)
        self._scopes.append({})
        yield
        self._scopes.pop()
        code.at = outer

    def _loop(self, op: Any) -> None:
        program, specs, code = self._program, self._specs, self._target.code
        begin = self._reader = self._op
        location = op.location
        inner = list(program.values_of(begin))
        half = len(inner) // 2
        carried = [specs.value(value) for value in inner[half:]]
        partial = [self._in_loops.carried.get(value, ()) for value in inner[half:]]
        initial = [
            self._target.zeros(old.type, spec, axes) if axes else self._brought(use, spec)
            for use, spec, axes, old in zip(
                program.uses_of(begin), carried, partial, op.operands, strict=True
            )
        ]
        self._op += 1
        code.location = location
        made = code.operation(LOOP, initial, [value.type for value in initial], regions=2)
        self._target.annotate(made, carried, partial)
        for region, values in ((0, inner[:half]), (1, inner[half:])):
            old = op.regions[region].blocks[0]
            locations = [argument.location for argument in old.arguments]
            new = made.regions[region].blocks.append(
                *(value.type for value in initial), arg_locs=locations
            )
            with self._inside(new):
                for value, argument, spec in zip(values, new.arguments, carried, strict=True):
                    self._held[value] = self._moved(argument, spec, specs.value(value))
                self._block(old, "stablehlo.return")
                results = self._predicate(old) if not region else self._yielded(carried)
                code.op("stablehlo.return", results, [])
        code.location = location
        self._behind_loop(begin, made.results, carried, partial)

    def _behind_loop(
        self, begin: int, results: Any, carried: list[Spec], partial: list[tuple[str, ...]]
    ) -> None:
        """Hold the results of a loop, once those are summed that it carried partial sums of."""
        program = self._program
        end = self._reader = self._op
        self._op += 1
        rows = zip(program.values_of(end), results, carried, partial, strict=True)
        for place, (value, result, spec, axes) in enumerate(rows):
            found = result
            if axes:
                found = self._target.summed(result, spec, axes, ADD)
                found = self._begun_with(program.uses_of(begin)[place], found, spec)
            self._held[value] = self._moved(found, spec, self._specs.value(value))

    def _begun_with(self, use: int, total: Any, spec: Spec) -> Any:
        """What a loop added up, and what it began with."""
        source = self._program.sources[use]
        maker = self._program.makers[source]
        if self._program.constant[source] and is_full_of(self._source.handles[maker].results[0], 0):
            return total
        return self._target.added(total, self._brought(use, spec), spec)

    def _predicate(self, block: Any) -> list[Any]:
        """What the condition of a loop comes to, whole."""
        operations = block.operations
        wanted = operations[len(operations) - 1].operation.operands[0]
        return [self._value(self._numbered(wanted), [])]

    def _yielded(self, carried: list[Spec]) -> list[Any]:
        self._reader = self._op
        uses = self._program.uses_of(self._op)
        return [self._brought(use, spec) for use, spec in zip(uses, carried, strict=True)]

    def _numbered(self, value: Any) -> int:
        if not self._numbers:
            self._numbers.update(_numbers_of(self._source))
        return self._numbers[value]

    def _branches(self, op: Any) -> None:
        program, specs, code = self._program, self._specs, self._target.code
        index = self._value(self._numbered(op.operands[0]), [])
        location, ends = op.location, self._last_op(op)
        values = program.values_of(ends)
        kept = [specs.value(value) for value in values]
        types = [
            self._target.kind(result.type, spec)
            for result, spec in zip(op.results, kept, strict=True)
        ]
        code.location = location
        made = code.operation(op.name, [index], types, regions=len(op.regions))
        self._target.annotate(made, kept)
        for old, region in zip(op.regions, made.regions, strict=True):
            new = region.blocks.append()
            with self._inside(new):
                self._block(old.blocks[0], "stablehlo.return")
                self._reader = self._op
                uses = program.uses_of(self._op)
                results = [self._brought(use, spec) for use, spec in zip(uses, kept, strict=True)]
                code.op("stablehlo.return", results, [])
            self._op += 1
        assert self._op == ends
        self._op += 1
        self._held.update(zip(values, made.results, strict=True))

    def _last_op(self, op: Any) -> int:
        """The number of the op that stands for the results of branches."""
        number = self._op
        while self._program.kind(number) != CASE_END or self._source.handles[number] != op:
            number += 1
        return number

    # Regions of shard_map

    def _region(self, op: Any) -> ManualRegion | None:
        return self._source.regions.of(op)

    def _inlined(self, region: ManualRegion, operands: list[Any]) -> list[Any]:
        """The ops of a region in its place, where it is for one device."""
        block = region.op.regions[0].blocks[0]
        if [one.type for one in operands] != [argument.type for argument in block.arguments]:
            raise UnsupportedModule(
                "A `shard_map` of the module leaves axes of the mesh to the compiler, so it is no "
                "program of one device.",
                "Ask for the form `collectives`, or one that is annotated.",
            )
        mapped = dict(zip(block.arguments, operands, strict=True))
        for view in block.operations:
            inner = view.operation
            if inner.name == "sdy.return":
                return [mapped[value] for value in inner.operands]
            copy = inner.clone(ip=self._target.code.at).operation
            for index, operand in enumerate(inner.operands):
                copy.operands[index] = mapped[operand]
            mapped.update(zip(inner.results, copy.results, strict=True))
        raise AssertionError("a region without an end")


_IN_PARTS = frozenset({"stablehlo.constant", "stablehlo.iota"})
"""Ops without operands that can be made in parts."""


def _numbers_of(source: Source) -> Iterator[tuple[Any, int]]:
    """Each MLIR value of a program with its number."""
    program = source.program
    for op, handle in enumerate(source.handles):
        values = program.values_of(op)
        kind = program.kind(op)
        if kind == ARGUMENT:
            yield handle, values.start
        elif kind == LOOP_BEGIN:
            inner = [a for region in handle.regions for a in region.blocks[0].arguments]
            yield from zip(inner, values, strict=True)
        elif kind not in (RETURN, BRANCH_END):
            yield from zip(handle.results, values, strict=True)
