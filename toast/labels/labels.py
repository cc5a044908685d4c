"""What ops and values are called, for people: by place in the source, by path of the argument."""

from __future__ import annotations

from collections.abc import Callable

from toast.analysis.analyse import Analysis
from toast.analysis.load import Source
from toast.analysis.program import LOOP_BEGIN, LOOP_END, PSEUDO, Ints
from toast.costmodel.program_facts import distinct_rows
from toast.labels.colours import pattern
from toast.labels.conflict_words import ConflictWords, short
from toast.labels.layers import NO_GROUP, Layers
from toast.plans.explanation import Direction

_PSEUDO = {"return": "end of the step", "argument": "arguments"}


class Labels:
    """Speaks of the ops and values of one loaded module."""

    def __init__(self, source: Source, analysis: Analysis) -> None:
        self._program = source.program
        self.words = ConflictWords(source, analysis)
        self._layers = Layers(source.program)
        self.origin, _ = distinct_rows(self._program.op_name, source.places)
        """Equal for ops of one name and location: of those the same is said."""
        self._said: dict[tuple[str, int], str] = {}
        self._directions: dict[int, Direction] = {}
        self._arguments = {item.value: item.name for item in self._program.arguments}

    def name(self, value: int) -> str:
        """An argument by its path, another value by the op that makes it."""
        if value in self._arguments:
            return pattern(self._arguments[value])
        return self.op(self._program.makers[value])

    def op(self, op: int) -> str:
        """`mlp/dot_general`: where an op is and what it does."""
        return self._once("op", self._op, op)

    def _op(self, op: int) -> str:
        kind = self.kind(op)
        if kind in PSEUDO:
            return _PSEUDO.get(kind, kind.replace("_", " "))
        place = self.place(op)
        return kind if place in ("", kind) else f"{place}/{kind}"

    def _once(self, what: str, say: Callable[[int], str], op: int) -> str:
        """What is said of an op, and of all of its name and location."""
        key = (what, int(self.origin[op]))
        if key not in self._said:
            self._said[key] = say(op)
        return self._said[key]

    def kind(self, op: int) -> str:
        """The name of an op, less that of its dialect."""
        return self._program.kind(op).removeprefix("stablehlo.")

    def place(self, op: int) -> str:
        """The function or scope of an op; '' for what is none."""
        return self._once("place", self._place, op)

    def _place(self, op: int) -> str:
        return "" if self._program.kind(op) in PSEUDO else self.words.place(op)

    def line(self, op: int) -> str:
        """`gemma.py:99`, or '' where nothing is known."""
        return self._once("line", self._line, op)

    def _line(self, op: int) -> str:
        if self._program.kind(op) in PSEUDO - {LOOP_BEGIN, LOOP_END}:
            return ""
        return short(self.words.line(op))

    def line_of(self, value: int) -> str:
        """The line that makes a value; '' for an argument."""
        return "" if value in self._arguments else self.line(self._program.makers[value])

    def direction(self, op: int) -> Direction:
        """Whether an op is of the forward or of the backward pass, as jax names them."""
        origin = int(self.origin[op])
        if origin not in self._directions:
            self._directions[origin] = self._direction(op)
        return self._directions[origin]

    def _direction(self, op: int) -> Direction:
        if self._program.kind(op) in PSEUDO - {LOOP_BEGIN, LOOP_END}:
            return ""
        stack = self.words.locations[op].label
        if "transpose(" in stack:
            return "backward"
        return "forward" if "jvp(" in stack else ""

    def layer(self, op: int, value: int | None = None) -> str:
        """The layer group of an op, or where it has none of the value that it takes."""
        group = self._layers.of_op(op)
        return self._layers.of_value(value) if group == NO_GROUP and value is not None else group

    def layers(self, ops: Ints) -> Ints:
        """A number for each op by its layer group."""
        return self._layers.numbers(ops)

    def layer_of(self, value: int) -> str:
        """The layer group that made a value."""
        return self._layers.of_value(value)
