"""A program in microbatches as three parts: what is before the loop over them, in it, and after.

`toast/microbatch` writes it so. The body of the loop is what a pipeline runs for each microbatch.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxlib.mlir import ir

from toast.microbatch.tree import WHILE, Block, OpNode, read_block


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The loop over microbatches of a `main`, with the ops before and after it.

    The first value that the loop carries is the number of the microbatch. Others are handed on as
    they are (`given`) or made anew in each turn (`sums`): numbers of what the loop carries.
    """

    main: Block
    loop: OpNode
    before: list[OpNode]
    after: list[OpNode]
    given: list[int]
    sums: list[int]

    @property
    def body(self) -> Block:
        """What runs for each microbatch."""
        return self.loop.blocks[1]


def read_parts(module: ir.Module) -> Parts:
    """The parts of a module that `toast.microbatch` wrote."""
    functions = [view.operation for view in module.body.operations]
    entry = next(one for one in functions if one.name == "func.func").regions[0].blocks[0]
    main = read_block(entry)
    place = max(place for place, node in enumerate(main.nodes) if _is_over_microbatches(node))
    loop = main.nodes[place]
    body = loop.blocks[1]
    carried = range(1, len(body.arguments))
    given = [one for one in carried if body.yields[one] == body.arguments[one]]
    return Parts(
        main=main,
        loop=loop,
        before=main.nodes[:place],
        after=main.nodes[place + 1 :],
        given=given,
        sums=[one for one in carried if body.yields[one] != body.arguments[one]],
    )


def _is_over_microbatches(node: OpNode) -> bool:
    return node.name == WHILE and str(node.op.location) == 'loc("microbatches")'
