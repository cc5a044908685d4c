"""Reads the functions of a program into templates, and that of `main` into the `Program`.

A body is read once, at the first call of its function, so that names, types and whatever else is
numbered comes up in the order in which the program's ops have it. It is read again only where a
call passes other numbers that say how often its loops run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.argument_names import argument_names, dictionaries, name_in
from toast.analysis.builder import build_program
from toast.analysis.calls import CALLS, Calls, callee_of
from toast.analysis.errors import InvalidModule
from toast.analysis.facts import Stated
from toast.analysis.operations import BRANCHING
from toast.analysis.program import (
    BRANCH_END,
    CASE_END,
    CONSTRAINT,
    LOOP_BEGIN,
    LOOP_END,
    RETURN,
    Argument,
    Program,
)
from toast.analysis.reader import CONSTANTS, OpReader
from toast.analysis.shardcombine import Discoverer
from toast.analysis.template import CONSTANT, VARIES, Template, TemplateBuilder, passed
from toast.analysis.trips import DEFAULT_TRIPS, TripCounter

_SPREADING = frozenset(
    {
        "stablehlo.broadcast_in_dim",
        "stablehlo.broadcast",
        "stablehlo.convert",
        "stablehlo.reshape",
    }
)
"""Ops of one operand that make a constant of a constant."""

_ALIAS = "tf.aliasing_output"

Answer = Callable[[int], int | None]
"""The whole number that an argument of a function is, by its index; None where nobody knows."""


class Walk:
    """Reads one program, `stated` are the shardings of its constraints."""

    def __init__(self, calls: Calls, stated: Stated, argument_names: Sequence[str] | None) -> None:
        self.calls = calls
        self.stated = stated
        self._given_names = argument_names
        self._discoverer = Discoverer()
        self.reader = OpReader(self._discoverer)
        self._templates: dict[str, list[Template]] = {}

    def run(self) -> tuple[Program, Template]:
        """The program of `main`, and the template that it is made of."""
        block = self.calls.main.regions[0].blocks[0]
        with self._discoverer:
            body = _Body(self, block, lambda _: None)
            values = body.define_arguments()
            body.read()
            results = body.end()
            template = body.template()
        program = build_program(template, self.reader.prototypes, self._arguments(values), results)
        return program, template

    def template(self, name: str, answer: Answer) -> Template:
        """The body of a function whose arguments are what `answer` says."""
        known = self._templates.setdefault(name, [])
        for template in known:
            if all(answer(index) == told for index, told in template.asked.items()):
                return template
        body = _Body(self, self.calls.functions[name].regions[0].blocks[0], answer)
        body.pass_arguments()
        body.read()
        known.append(body.template())
        return known[-1]

    def _arguments(self, values: list[int]) -> list[Argument]:
        main = self.calls.main
        attributes = dictionaries(main, "arg_attrs", len(values))
        names = argument_names(main, self._given_names)
        results = len(ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results)
        found: list[Argument] = []
        for name, given, value in zip(names, attributes, values, strict=True):
            aliases = _aliased_result(name, given, results)
            donated = aliases >= 0 or "jax.buffer_donor" in given
            found.append(Argument(name=name, value=value, donated=donated, aliases=aliases))
        return found


def _aliased_result(argument: str, given: Any, results: int) -> int:
    """The one of so many results that takes an argument's memory, or -1; raises InvalidModule."""
    if _ALIAS not in given:
        return -1
    said = given[_ALIAS]
    number = int(said) if isinstance(said, ir.IntegerAttr) else -1
    if not 0 <= number < results:
        raise InvalidModule(
            f"{argument} is to alias result {said}, and the module has {results} results.",
            "Leave donation to jax.jit (donate_argnums), or correct tf.aliasing_output.",
        )
    return number


class _Body:
    """Reads the body of one function."""

    def __init__(self, walk: Walk, entry: Any, answer: Answer) -> None:
        self._walk = walk
        self._reader = walk.reader
        self._entry = entry
        self._answer = answer
        self._asked: dict[int, int | None] = {}
        self._trips = TripCounter(entry=entry, body_of=walk.calls.body, argument=self._ask)
        self._values: dict[Any, int] = {}
        self._builder = TemplateBuilder()

    def define_arguments(self) -> list[int]:
        """Make each argument an op, as those of `main` are; returns the numbers of their values."""
        for index, value in enumerate(self._entry.arguments):
            read = self._reader.argument(value, f"argument {index}")
            self._add(read, value, 1.0, [], [value])
        return [self._values[value] for value in self._entry.arguments]

    def pass_arguments(self) -> None:
        """Let each argument be what a call passes."""
        for index, value in enumerate(self._entry.arguments):
            self._values[value] = passed(index)

    def read(self) -> None:
        """Read all ops of the body."""
        self._block(self._entry, 1.0)

    def end(self) -> list[str]:
        """Make returning an op, as that of `main` is; returns the names of the results."""
        op = _last(self._entry)
        attributes = dictionaries(self._walk.calls.main, "res_attrs", len(op.operands))
        self._transfer(RETURN, op, list(op.operands), [], 1.0)
        return [
            item["jax.result_info"].value if "jax.result_info" in item else f"result{index}"
            for index, item in enumerate(attributes)
        ]

    def template(self) -> Template:
        """The finished template."""
        returned = [self._values[value] for value in _last(self._entry).operands]
        return self._builder.build(returned, self._asked)

    def _ask(self, index: int) -> int | None:
        if index not in self._asked:
            self._asked[index] = self._answer(index)
        return self._asked[index]

    def _block(self, block: Any, trips: float) -> None:
        for view in block.operations:
            op = view.operation
            name = op.name
            if name == "stablehlo.while":
                self._while(op, trips)
            elif name in BRANCHING:
                self._case(op, trips)
            elif name in CALLS:
                self._call(op, trips)
            elif name not in ("stablehlo.return", "func.return"):
                self._op(op, name, trips)

    def _op(self, op: ir.Operation, name: str, trips: float) -> None:
        operands, results = list(op.operands), list(op.results)
        read = self._reader.op(op, operands, results)
        sources = [self._values[value] for value in operands]
        constancy = VARIES
        if name in CONSTANTS:
            constancy = CONSTANT
        elif name in _SPREADING:
            constancy = self._builder.constancy(sources[0])
        elif name == CONSTRAINT and results[0] in self._walk.stated:
            stated = self._walk.stated[results[0]]
            self._builder.shardings.append((self._builder.ops, stated))
        self._add(read, op, trips, sources, results, constancy)

    def _call(self, op: ir.Operation, trips: float) -> None:
        operands = list(op.operands)
        name = callee_of(op)
        assert name is not None
        template = self._walk.template(name, lambda index: self._trips.constant(operands[index]))
        sources = [self._values[value] for value in operands]
        made = self._builder.call(template, sources, op.location.attr, trips)
        self._values.update(zip(op.results, made, strict=True))

    def _transfer(
        self, name: str, op: ir.Operation, sources: list[Any], targets: list[Any], trips: float
    ) -> int:
        """A pseudo op that moves `sources` to `targets`, one set of factors per tensor."""
        read = self._reader.transfer(name, op, sources, targets)
        return self._add(read, op, trips, [self._values[value] for value in sources], targets)

    def _add(
        self,
        read: tuple[int, int],
        handle: Any,
        trips: float,
        sources: list[int],
        results: list[Any],
        constancy: int = VARIES,
    ) -> int:
        """Append an op and remember the numbers of the MLIR values that it defines."""
        first = self._builder.values
        for offset, value in enumerate(results):
            self._values[value] = first + offset
        location = handle.location.attr
        return self._builder.add(read, location, trips, sources, len(results), constancy)

    def _while(self, op: ir.Operation, trips: float) -> None:
        """A loop that never runs is priced as if it ran once, as a branch is that is not taken."""
        condition, body = (region.blocks[0] for region in op.regions)
        count = self._trips.count(op)
        if count is None:
            count = DEFAULT_TRIPS
            self._builder.warnings.append(
                f"The trip count of the loop at {_place(op)} is unknown; taken to be {count}."
            )
        elif count == 0:
            count = 1
            self._builder.warnings.append(
                f"The loop at {_place(op)} never runs; it is priced as if it ran once."
            )
        inner = trips * count
        arguments = [*condition.arguments, *body.arguments]
        begin = self._transfer(LOOP_BEGIN, op, list(op.operands), arguments, trips)
        self._block(condition, inner)
        self._block(body, inner)
        yields = list(_last(body).operands)
        end = self._transfer(LOOP_END, op, yields, list(op.results), trips)
        self._builder.link(begin, end)

    def _case(self, op: ir.Operation, trips: float) -> None:
        """Every branch is walked and priced: no branch makes the step look cheaper."""
        ends: list[int] = []
        for region in op.regions:
            block = region.blocks[0]
            self._block(block, trips)
            yields = list(_last(block).operands)
            ends.append(self._transfer(BRANCH_END, op, yields, [], trips))
        end = self._transfer(CASE_END, op, [], list(op.results), trips)
        for branch in ends:
            self._builder.link(branch, end)


def _place(op: ir.Operation) -> str:
    return name_in(op.location) or str(op.location)


def _last(block: Any) -> ir.Operation:
    operations = block.operations
    return operations[len(operations) - 1].operation
