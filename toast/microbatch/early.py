"""Sums over the batch that are cheap enough to be made before the loop, such as those of a mask.

They read arguments of the program through a few ops that cost next to nothing: no products, no
loops, and nothing much larger than the arguments with the batch.
"""

from __future__ import annotations

from typing import Any

from toast.microbatch.colour import bytes_of
from toast.microbatch.kinds import FREE, Dependence, Kinds
from toast.microbatch.roles import adds
from toast.microbatch.tree import Block, OpNode

_COSTLY = frozenset(
    f"stablehlo.{name}"
    for name in (
        "convolution", "custom_call", "dot", "dot_general", "fft", "gather", "rng",
        "rng_bit_generator", "scatter", "select_and_scatter", "triangular_solve",
    )
)  # fmt: skip
_LARGER = 4
"""Times as large as the largest argument with the batch."""


def is_costly(node: OpNode) -> bool:
    """Whether an op on the whole batch may take most of the time or of the memory."""
    return bool(node.blocks) or node.name in _COSTLY


class Early:
    """Looks back from a sum to the arguments that it is made of."""

    def __init__(self, main: Block, kinds: Kinds) -> None:
        self._arguments = main.arguments
        self._kinds = kinds.of
        self._looped = kinds.looped
        self._makers = {value: node for node in main.nodes for value in node.results}

    def maker(self, value: Any) -> OpNode | None:
        """The op that makes a value; None for an argument."""
        return self._makers.get(value)

    def chief(self, value: Any) -> OpNode | None:
        """The sum over the batch that a value is made of."""
        seen: set[OpNode] = set()
        waiting = [value]
        while waiting:
            node = self._makers.get(waiting.pop())
            if node is None or node in seen:
                continue
            seen.add(node)
            kinds = [self._kinds[one] for one in node.read]
            if Dependence.CUT in kinds and (node.name.startswith("stablehlo.reduce") or adds(node)):
                return node
            waiting += [one for one, kind in zip(node.read, kinds, strict=True) if kind not in FREE]
        return None

    def sums(self, value: Any) -> set[Any] | None:
        """The sums that a value is made of, itself among them; None where they cost much."""
        cut = [bytes_of(one) for one in self._arguments if self._kinds[one] is Dependence.CUT]
        most = _LARGER * max(cut, default=0)
        found: set[Any] = set()
        seen: set[OpNode] = set()
        waiting = [value]
        while waiting:
            one = waiting.pop()
            node = self._makers.get(one)
            if self._kinds[one] is not Dependence.CUT:
                found.add(one)
            if node is None or node in seen:
                continue
            large = any(bytes_of(result) > most for result in node.results)
            if large or is_costly(node):
                return None
            if any(read in self._looped for read in node.read):
                return None
            seen.add(node)
            waiting += [read for read in node.read if self._kinds[read] not in FREE]
        return found
