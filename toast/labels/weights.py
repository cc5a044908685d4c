"""Which weights an op works with: those that it reads, or those behind its operands."""

from __future__ import annotations

import re
from functools import lru_cache

from toast.analysis.program import ARGUMENT, Program
from toast.labels.layers import Layers
from toast.labels.value_flow import CONTRACTIONS, FLOWING
from toast.request.patterns import unnumbered

_WORD = re.compile(r"[A-Za-z_]\w*")
_PLAIN = frozenset(
    {"kernel", "weight", "weights", "w", "b", "bias", "scale", "embedding", "value", "values"}
)
"""Last steps of paths that say too little without the step before."""
_CONTAINERS = frozenset({"params", "layers", "blocks", "state", "states", "model"})
"""Steps of paths that say nothing of what is in them."""
_PRODUCTS = frozenset({"stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"})
_STEPS = 3
"""Elementwise ops between a product and where its result joins the residual stream."""
_JOINS = "stablehlo.add"
_ELEMENTWISE = frozenset(
    {"stablehlo.add", "stablehlo.multiply", "stablehlo.divide", "stablehlo.select"}
)


class Weights:
    """Says with which arguments the ops of a program work."""

    def __init__(self, program: Program, layers: Layers) -> None:
        self._program = program
        self._layers = layers
        self._names = [short_name(argument.name) for argument in program.arguments]

    def name(self, argument: int) -> str:
        """The short name of an argument."""
        return self._names[argument]

    def of_op(self, op: int) -> str:
        """`with wq`, `of wq and wk`, `behind wo`; '' where nothing telling is near."""
        read = self._read(op)
        if read >= 0 and self._names[read]:
            return f"with {self._names[read]}"
        kind = self._program.kind(op)
        if kind in CONTRACTIONS:
            sides = [self._made_with(source) for source in operands(self._program, op)]
            names = list(dict.fromkeys(name for name in sides if name))
            return f"of {' and '.join(names)}" if len(names) > 1 else ""
        joined = self._joined(op) if kind == _JOINS else ""
        return f"behind {joined}" if joined else ""

    def _read(self, op: int) -> int:
        """The argument of more than one element that an op reads, or -1; of several its own."""
        program = self._program
        held = [self._layers.argument_of(source) for source in operands(program, op)]
        elements = program.elements
        found = [one for one in held if one >= 0 and elements[program.arguments[one].value] > 1]
        owner = self._layers.owner_of(op)
        return owner if owner in found else found[0] if found else -1

    def _made_with(self, value: int) -> str:
        owner = self._layers.owner_of(self._program.makers[value])
        return self._names[owner] if owner >= 0 else ""

    def _joined(self, op: int) -> str:
        """The weight of the product that an addition joins to a stream of other origin."""
        found = [self._product(source) for source in operands(self._program, op)]
        weights = [one for one in found if one >= 0]
        return self._names[weights[0]] if len(found) == 2 and len(weights) == 1 else ""

    def _product(self, value: int) -> int:
        """The weight of the product that a value is, but for a bias and other small steps."""
        program = self._program
        for _ in range(2 * _STEPS):
            op = program.makers[value]
            kind = program.kind(op)
            if kind in _PRODUCTS:
                return self._read(op)
            if kind == ARGUMENT or kind not in FLOWING | _ELEMENTWISE:
                return -1
            sources = [s for s in operands(program, op) if self._layers.argument_of(s) < 0]
            if len(sources) != 1 and kind not in FLOWING:
                return -1
            if not sources:
                return -1
            value = sources[0]
        return -1


def operands(program: Program, op: int) -> list[int]:
    """The values that an op takes."""
    return [program.sources[use] for use in program.uses_of(op)]


@lru_cache(maxsize=1 << 14)
def short_name(argument: str) -> str:
    """The last words of a path: `wq` of `params['layers'][0]['wq']`, `up/kernel`; '' for none."""
    words = [word for word in _WORD.findall(unnumbered(argument)) if word not in _CONTAINERS]
    return "/".join(words[-2:] if words and words[-1] in _PLAIN else words[-1:])
