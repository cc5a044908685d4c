"""What ops and values are called, for people: by place in the source, by path of the argument."""

from __future__ import annotations

from collections.abc import Callable

from toast.analysis.analyse import Analysis
from toast.analysis.load import Source
from toast.analysis.program import LOOP_BEGIN, LOOP_END, PSEUDO, Ints
from toast.costmodel.program_facts import distinct_rows
from toast.labels.colours import groups_of
from toast.labels.conflict_words import DOT, ConflictWords, short
from toast.labels.layers import NO_GROUP, Layers, argument_patterns, result_patterns
from toast.labels.name_stack import NameStack
from toast.labels.resolution_words import ResolutionWords
from toast.labels.weights import Weights, operands, short_name
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
        self._arguments = dict(
            zip(
                (item.value for item in self._program.arguments),
                argument_patterns(self._program),
                strict=True,
            )
        )
        self._results = {
            self._program.sources[item.use]: pattern
            for item, pattern in zip(
                self._program.results, result_patterns(self._program), strict=True
            )
            if short_name(item.name).rstrip("0123456789") not in ("", "result")
        }
        self._weights = Weights(self._program, self._layers)
        self._analysis = analysis
        self.resolutions = ResolutionWords(analysis, self.words)

    def colours(self, value: int) -> list[int]:
        """The colour group of each dimension of a value, -1 for none."""
        return groups_of(self._analysis, self._program.def_names(value)).tolist()

    def name(self, value: int) -> str:
        """An argument by its path, another value by the op that makes it."""
        if value in self._arguments:
            return self._arguments[value]
        told = self.op(self._program.makers[value])
        return f"{told} ({self._results[value]})" if value in self._results else told

    def op(self, op: int) -> str:
        """Where an op is, what it does, and with which weights.

        `mlp/dot_general with up`, `attention/bqhk,bshk->bhqs of wq and wk` for scores, `layer/add
        behind wo` for the residual stream; `gradient of` and `recomputed` before that.
        """
        kind = self.kind(op)
        if kind in PSEUDO:
            return _PSEUDO.get(kind, kind.replace("_", " "))
        if self._makes_gradient(op):
            return f"gradient of {self._weights.name(self._layers.owner_of(op))}, {self._base(op)}"
        lead = "gradient of" if self.direction(op) == "backward" else ""
        if self._stack(op).recomputed:
            lead = "recomputed"
        return " ".join(filter(None, (lead, self._base(op), self._weights.of_op(op))))

    def _base(self, op: int) -> str:
        return self._once("base", self._place_and_kind, op)

    def _place_and_kind(self, op: int) -> str:
        kind = self._stack(op).equation if self._program.kind(op) == DOT else ""
        kind, place = kind or self.kind(op), self.place(op)
        return kind if place in ("", self.kind(op)) else f"{place}/{kind}"

    def _stack(self, op: int) -> NameStack:
        return NameStack.parse(self.words.locations[op].label)

    def _makes_gradient(self, op: int) -> bool:
        """Whether an op makes the gradient of the argument that it belongs to."""
        program, owner = self._program, self._layers.owner_of(op)
        if owner < 0 or self.direction(op) != "backward" or self._stack(op).recomputed:
            return False
        weight = program.arguments[owner].value
        made = program.values_of(op)[0]
        read = [self._layers.argument_of(source) for source in operands(program, op)]
        same = program.elements[made] == program.elements[weight]
        return same and owner not in read and bool(self._weights.name(owner))

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
