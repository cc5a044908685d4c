"""A training or inference step cut into the modules of a pipeline.

MLIR may end the process over a module, so call this in one that may die.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxlib.mlir import ir

from toast.analysis.errors import InvalidRequest
from toast.microbatch.time_axis import Accumulate, Dimension, TimeAxis
from toast.microbatch.tree import OpNode
from toast.stages.build import needed
from toast.stages.ending import after_modules
from toast.stages.groups import OpGroups
from toast.stages.homes import LayerNumbers, check_cuts, even_cuts, find_layers
from toast.stages.microbatch import PlacedBody, before_modules, body_modules
from toast.stages.parts import Parts, read_parts
from toast.stages.wiring import PipelineProgram, StageModule


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """How a step is to be cut.

    `cuts` are the first layers of all chunks but the first; None for chunks of as many layers.
    `batch` is a dimension of an argument that is the batch; None for the likeliest.
    """

    stages: int
    microbatches: int
    chunks: int = 1
    cuts: tuple[int, ...] | None = None
    batch: Dimension | None = None
    accumulate: Accumulate = "program"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutProgram:
    """The modules of a pipeline, in the order of `program.modules`."""

    program: PipelineProgram
    modules: list[ir.Module]

    def texts(self) -> list[str]:
        """Each module as text without locations, so that equal stages have equal texts."""
        return [str(module) for module in self.modules]


def cut_program(module: ir.Module, names: Sequence[str], cutting: Cutting) -> CutProgram:
    """Cut the module of a step, whose arguments have these names.

    Raises:
        Blocked: the batch cannot run in microbatches; names the op in the way.
        InvalidRequest: there are no layers of their own, or fewer than chunks.
    """
    written = _in_microbatches(module, cutting)
    with written.context:
        return _Cutter(written, names, cutting).run()


def count_layers(module: ir.Module, names: Sequence[str], microbatches: int) -> int:
    """How many repeated layers a step has; raises as `cut_program` does."""
    written = _in_microbatches(module, Cutting(stages=1, microbatches=microbatches))
    with written.context:
        parts = read_parts(written)
        return len(find_layers(names, _read_forward(parts, arguments_of(parts))).entries)


def batch_size(module: ir.Module) -> int:
    """How large the likeliest batch of a step is; raises `Blocked` where none can be cut."""
    return TimeAxis(module).best().size


def _in_microbatches(module: ir.Module, cutting: Cutting) -> ir.Module:
    axis = TimeAxis(module)
    leaf = None if cutting.batch is None else axis.named(cutting.batch, cutting.microbatches)
    batch = axis.best() if leaf is None else axis.cut(leaf)
    if batch.size % cutting.microbatches:
        raise InvalidRequest(
            f"A batch of {batch.size} cannot be cut into {cutting.microbatches} microbatches.",
            "Give a number that divides it.",
        )
    return axis.write(batch, cutting.microbatches, cutting.accumulate)


class _Cutter:
    """Cuts one module that is written in microbatches."""

    def __init__(self, written: ir.Module, names: Sequence[str], cutting: Cutting) -> None:
        self._written = written
        self._names = names
        self._cutting = cutting
        self._parts = read_parts(written)

    def run(self) -> CutProgram:
        """The modules and how they are wired."""
        parts, cutting = self._parts, self._cutting
        total = cutting.stages * cutting.chunks
        made_of = arguments_of(parts)
        layers = find_layers(self._names, _read_forward(parts, made_of))
        cuts = even_cuts(len(layers.entries), total) if cutting.cuts is None else cutting.cuts
        if len(cuts) != total - 1:
            raise InvalidRequest(
                f"{len(cuts)} cuts make {len(cuts) + 1} chunks, not {total}.",
                "Give one cut fewer than there are chunks.",
            )
        check_cuts(cuts, len(layers.entries))
        chunk_of = layers.chunks(cuts)
        homes = {
            parts.body.arguments[number]: max(
                chunk_of[one] for one in made_of[number] & set(chunk_of)
            )
            for number in parts.given
            if made_of[number] & set(chunk_of)
        }
        groups = OpGroups(body=parts.body, homes=homes, chunks=total).run()
        body = PlacedBody(parts=parts, groups=groups, stages=cutting.stages)
        return self._written_out(body, layers, cuts)

    def _written_out(
        self, body: PlacedBody, layers: LayerNumbers, cuts: Sequence[int]
    ) -> CutProgram:
        source = self._written
        made: list[tuple[StageModule, ir.Module]] = [
            *before_modules(source, body),
            *body_modules(source, body),
        ]
        ends, results = after_modules(source, body)
        made += ends
        program = PipelineProgram(
            stages=self._cutting.stages,
            chunks=self._cutting.chunks,
            microbatches=self._cutting.microbatches,
            training=body.training,
            arguments=tuple(self._names),
            results=tuple(results),
            layers=tuple(layers.entries[first] for first in (0, *cuts)),
            modules=tuple(wiring for wiring, _ in made),
        )
        return CutProgram(program=program, modules=[module for _, module in made])


def arguments_of(parts: Parts) -> list[set[int]]:
    """By number of what the loop carries, the arguments of the step that it is made of."""
    numbers = {value: number for number, value in enumerate(parts.main.arguments)}
    found: list[set[int]] = []
    for value in parts.loop.operands:
        nodes = needed(parts.before, {value})
        reads = [value, *(read for node in nodes for read in node.read)]
        found.append({numbers[read] for read in reads if read in numbers})
    return found


def _read_forward(parts: Parts, made_of: Sequence[set[int]]) -> Iterator[int]:
    """The arguments that the forward pass reads, in that order."""
    numbers = {value: number for number, value in enumerate(parts.body.arguments)}
    for node in parts.body.nodes:
        if _is_forward(node):
            for value in node.read:
                if value in numbers and numbers[value] in parts.given:
                    yield from sorted(made_of[numbers[value]])


def _is_forward(node: OpNode) -> bool:
    return "transpose(" not in str(node.op.location)
