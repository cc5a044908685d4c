"""The layers of one stage as a program that is priced: all microbatches, no bubble.

In the step the loops stand one behind another. What one keeps for the next is cut into microbatches
by both, so no reshape of it is left between them. A program of one loop alone would have these at
its ends, where what is given and what is made are buffers of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from toast.microbatch.colour import bytes_of, shape_of
from toast.microbatch.tree import WHILE
from toast.recompute.loops import terminator
from toast.spmd.batch import ProvenStage
from toast.spmd.layouts import Layout

_RESHAPE = "stablehlo.reshape"
Source = tuple[int, int]
"""The number of a loop, and of what it makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgram:
    """The layers of one stage as a module that goes through all microbatches, to be priced.

    `arguments` are layouts over the axes beside the stages, None where XLA chooses; `sources` say
    which of them other loops make; `shared` are the arguments that are arguments of the step too;
    `sent_bytes` what a stage hands to the next for a microbatch.
    """

    text: str
    arguments: tuple[Layout | None, ...]
    sources: tuple[Source | None, ...]
    shared: tuple[int, ...]
    sent_bytes: int


def stage_program(
    proven: ProvenStage,
    layouts: Sequence[Layout | None],
    before: Sequence[ProvenStage],
    count: int,
) -> StageProgram:
    """The program of a stage in so many microbatches, behind the loops `before` it."""
    stage, cut, axis = proven.stage, proven.cut, proven.axis
    op = stage.layers.loop.op
    operands = [op.operands[slot] for slot in stage.slots]
    handed = [op.operands[slot] for slot in stage.layers.carried]
    shared = tuple(
        place for place, value in enumerate(operands) if isinstance(value, ir.BlockArgument)
    )
    module = axis.write(cut, count)
    main: Any = ir.SymbolTable(module.operation)["main"]
    split = _split_ends(main.operation, shared)
    found = list(layouts)
    for number in split:
        value = axis.block.arguments[number]
        place, layout = cut.colour.place(value), found[number]
        if place is not None and layout is not None:
            more = len(shape_of(main.arguments[number])) - len(layout)
            found[number] = (*layout[: place.dim + 1], *[()] * more, *layout[place.dim + 1 :])
    sources = [_source(value, before) for value in operands]
    return StageProgram(
        text=str(module),
        arguments=tuple(found),
        sources=(*sources, *[None] * (len(found) - len(sources))),
        shared=shared,
        sent_bytes=sum(map(bytes_of, handed)) // count,
    )


def _source(value: Any, before: Sequence[ProvenStage]) -> Source | None:
    """The loop that makes a value, and which of its results that is."""
    for number, one in enumerate(before):
        layers = one.stage.layers
        for place, slot in enumerate(layers.made):
            if layers.loop.op.results[slot] == value:
                return number, place
    return None


def _split_ends(main: Any, shared: Sequence[int]) -> list[int]:
    """Take and make in microbatches what is cut and joined at the ends; returns the arguments."""
    block = main.regions[0].blocks[0]
    split = []
    for number, value in enumerate(block.arguments):
        readers = [use.owner.operation for use in value.uses]
        if number not in shared and [one.name for one in readers] == [_RESHAPE]:
            value.set_type(readers[0].results[0].type)
            readers[0].results[0].replace_all_uses_with(value)
            readers[0].erase()
            split.append(number)
    end = terminator(block)
    for number, value in enumerate(end.operands):
        joined = None if isinstance(value, ir.BlockArgument) else value.owner.operation
        if joined is not None and joined.name == _RESHAPE and _is_loop(joined.operands[0].owner):
            end.operands[number] = joined.operands[0]
            if not list(joined.results[0].uses):
                joined.erase()
    kinds = [[value.type for value in some] for some in (block.arguments, end.operands)]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*kinds))
    return split


def _is_loop(owner: Any) -> bool:
    return isinstance(owner, (ir.Operation, ir.OpView)) and owner.operation.name == WHILE
