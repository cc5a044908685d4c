"""What ops and values are called, for people: by place in the source, by path of the argument."""

from __future__ import annotations

from analysis.analyse import Analysis
from analysis.load import Source
from analysis.program import LOOP_BEGIN, LOOP_END, PSEUDO
from toast.explanation import Direction
from toast.inspection_words import Words, short
from toast.layers import NO_GROUP, Layers
from toast.naming import pattern

_PSEUDO = {"return": "end of the step", "argument": "arguments"}


class Telling:
    """Speaks of the ops and values of one loaded module."""

    def __init__(self, source: Source, analysis: Analysis) -> None:
        self._program = source.program
        self._words = Words(source, analysis)
        self._layers = Layers(source.program)
        self._places: dict[int, str] = {}
        self._directions: dict[int, Direction] = {}
        self._arguments = {item.value: item.name for item in self._program.arguments}

    def name(self, value: int) -> str:
        """An argument by its path, another value by the op that makes it."""
        if value in self._arguments:
            return pattern(self._arguments[value])
        return self.op(self._program.makers[value])

    def op(self, op: int) -> str:
        """`mlp/dot_general`: where an op is and what it does."""
        kind = self.kind(op)
        if kind in PSEUDO:
            return _PSEUDO.get(kind, kind.replace("_", " "))
        place = self.place(op)
        return kind if place in ("", kind) else f"{place}/{kind}"

    def kind(self, op: int) -> str:
        """The name of an op, less that of its dialect."""
        return self._program.kind(op).removeprefix("stablehlo.")

    def place(self, op: int) -> str:
        """The function or scope of an op; '' for what is none."""
        if op not in self._places:
            known = self._program.kind(op) not in PSEUDO
            self._places[op] = self._words.place(op) if known else ""
        return self._places[op]

    def line(self, op: int) -> str:
        """`gemma.py:99`, or '' where nothing is known."""
        if self._program.kind(op) in PSEUDO - {LOOP_BEGIN, LOOP_END}:
            return ""
        return short(self._words.line(op))

    def line_of(self, value: int) -> str:
        """The line that makes a value; '' for an argument."""
        return "" if value in self._arguments else self.line(self._program.makers[value])

    def direction(self, op: int) -> Direction:
        """Whether an op is of the forward or of the backward pass, as jax names them."""
        if op not in self._directions:
            self._directions[op] = self._direction(op)
        return self._directions[op]

    def _direction(self, op: int) -> Direction:
        if self._program.kind(op) in PSEUDO - {LOOP_BEGIN, LOOP_END}:
            return ""
        stack = self._words.locations[op].label
        if "transpose(" in stack:
            return "backward"
        return "forward" if "jvp(" in stack else ""

    def layer(self, op: int, value: int | None = None) -> str:
        """The layer group of an op, or where it has none of the value that it takes."""
        group = self._layers.of_op(op)
        return self._layers.of_value(value) if group == NO_GROUP and value is not None else group

    def layer_of(self, value: int) -> str:
        """The layer group that made a value."""
        return self._layers.of_value(value)
