"""One walk over the flattened `main` that fills the `Program`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.builder import NewOp, ProgramBuilder
from toast.analysis.halos import with_halos
from toast.analysis.program import (
    ARGUMENT,
    BRANCH_END,
    CASE_END,
    LOOP_BEGIN,
    LOOP_END,
    RETURN,
    Argument,
    FactorKind,
    Program,
    Result,
)
from toast.analysis.rules import RULE, Rule, RuleReader, identities, own_rule, pointwise
from toast.analysis.shardcombine import Discoverer
from toast.analysis.trips import DEFAULT_TRIPS, trip_count
from toast.analysis.types import TypeReader

_BRANCHING = frozenset({"stablehlo.case", "stablehlo.if"})
_CONSTANTS = frozenset({"stablehlo.constant", "stablehlo.iota", "sdy.constant", "chlo.constant"})
_SPREADING = frozenset(
    {
        "stablehlo.broadcast_in_dim",
        "stablehlo.broadcast",
        "stablehlo.convert",
        "stablehlo.reshape",
    }
)
_PLACES = frozenset({"start_indices", "limit_indices", "edge_padding_low", "edge_padding_high"})
"""Where a slice or pad stands in the whole tensor; layers that each take their own part of one
tensor (a mask for each layer, stacked parameters) are alike all the same."""
_IGNORED_ATTRIBUTES = frozenset({RULE, "sdy.sharding", "mhlo.sharding"}) | _PLACES
_FOLDING = frozenset({"stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter"})
"""Ops that combine elements by a region, which the name of its one op describes."""
_EACH_ITS_OWN = frozenset(
    f"{dialect}.{name}"
    for dialect, names in {
        "stablehlo": ("custom_call", "rng", "infeed", "recv", "optimization_barrier"),
        "sdy": ("sharding_constraint",),
    }.items()
    for name in names
)
"""Ops of which two may make two things of the same operands, or are to be kept apart."""
_NAME = re.compile(r'loc\("((?:[^"\\]|\\.)*)"[()]')


class Walk:
    """Walks one `main`; afterwards `builder.handles` ties op numbers to MLIR operations."""

    def __init__(self, main: ir.Operation, argument_names: Sequence[str] | None) -> None:
        self._main = main
        self._given_names = argument_names
        self._types = TypeReader()
        self._rules = RuleReader()
        self._discoverer = Discoverer()
        self._values: dict[Any, int] = {}
        self.builder = ProgramBuilder()

    def run(self) -> Program:
        """The program of `main`."""
        block = self._main.regions[0].blocks[0]
        arguments = self._arguments(block)
        with self._discoverer:
            self._block(block, 1.0)
        results = self._results(block)
        return self.builder.build(arguments, results)

    def _arguments(self, block: Any) -> list[Argument]:
        attributes = _dictionaries(self._main, "arg_attrs", len(block.arguments))
        names = self._argument_names(block, attributes)
        found: list[Argument] = []
        for index, argument in enumerate(block.arguments):
            tensor = self._types.read(argument.type, f"argument {index}")
            rule = pointwise(0, [tensor.shape])
            key = (tensor.shape, tensor.dtype)
            new = NewOp(
                name=ARGUMENT,
                rule=rule,
                operands=[],
                results=[tensor],
                key=key,
                trips=1.0,
                handle=argument,
            )
            self._define(new, [argument])
            given = attributes[index]
            aliases = int(given["tf.aliasing_output"]) if "tf.aliasing_output" in given else -1
            donated = aliases >= 0 or "jax.buffer_donor" in given
            value = self._values[argument]
            found.append(Argument(name=names[index], value=value, donated=donated, aliases=aliases))
        return found

    def _argument_names(self, block: Any, attributes: Sequence[Any]) -> list[str]:
        """The names of the function's own parameters, with the paths of their leaves.

        They are the module's locations; where those are lost, what came beside the module.
        """
        given = list(self._given_names or ())
        extra = sum("jax.global_constant" in item for item in attributes)
        if len(given) + extra != len(block.arguments):
            given, extra = [], 0
        names = []
        for index, argument in enumerate(block.arguments):
            match = _NAME.match(str(argument.location))
            beside = given[index - extra] if given and index >= extra else f"arg{index}"
            names.append(match[1] if match else beside)
        return names

    def _results(self, block: Any) -> list[Result]:
        op = block.operations[len(block.operations) - 1].operation
        attributes = _dictionaries(self._main, "res_attrs", len(op.operands))
        first = self.builder.op_uses[len(self.builder.op_name) - 1]
        names = [
            item["jax.result_info"].value if "jax.result_info" in item else f"result{index}"
            for index, item in enumerate(attributes)
        ]
        return [Result(name=name, use=first + index) for index, name in enumerate(names)]

    def _block(self, block: Any, trips: float) -> None:
        for view in block.operations:
            op = view.operation
            match op.name:
                case "stablehlo.while":
                    self._while(op, trips)
                case name if name in _BRANCHING:
                    self._case(op, trips)
                case "func.return":
                    self._transfer(RETURN, op, list(op.operands), [], trips)
                case "stablehlo.return":
                    pass
                case _:
                    self._op(op, trips)

    def _op(self, op: ir.Operation, trips: float) -> None:
        attributes = op.attributes
        operands = list(op.operands)
        shapes = [self.builder.shape(self._values[value]) for value in operands]
        results = [self._types.read(value.type, op) for value in op.results]
        name = op.name
        if name == "stablehlo.custom_call":
            name = f"custom_call {attributes['call_target_name'].value}"
        if RULE in attributes:
            rule = self._rules.read(attributes[RULE])
        else:
            rule = own_rule(op.name, shapes, [tensor.shape for tensor in results])
            if not rule.known:
                rule = self._discoverer.rule(op) or rule
        rule, halos = with_halos(op, rule, shapes, [tensor.shape for tensor in results])
        key, content = self._key(op, attributes, operands)
        new = NewOp(
            name=name,
            rule=rule,
            operands=[self._values[value] for value in operands],
            results=results,
            key=key,
            content=content,
            trips=trips,
            handle=op,
            constant=self._is_constant(name, operands),
            halos=halos,
        )
        self._define(new, list(op.results))

    def _is_constant(self, name: str, operands: list[Any]) -> bool:
        if name in _CONSTANTS:
            return True
        known = self.builder.constant
        return name in _SPREADING and all(known[self._values[value]] for value in operands)

    def _define(self, new: NewOp, values: list[Any]) -> int:
        """Append an op and remember the numbers of the MLIR values that it defines."""
        first = len(self.builder.value_op)
        op = self.builder.add(new)
        for offset, value in enumerate(values):
            self._values[value] = first + offset
        return op

    def _key(self, op: ir.Operation, attributes: Any, operands: list[Any]) -> tuple[Any, Any]:
        """Equal for ops that do the same to tensors of the same types; what else tells them apart.

        That is None where what they make does not follow from that.
        """
        given = [(k, v) for k, v in attributes.items() if k != RULE]
        items = tuple((k, v) for k, v in given if k not in _IGNORED_ATTRIBUTES)
        content: Any = tuple((k, v) for k, v in given if k in _IGNORED_ATTRIBUTES)
        if op.name in _CONSTANTS:
            content = (*content, *(item for item in items if item[0] == "value"))
            items = () if any(k == "value" for k, _ in items) else items
        types = tuple(value.type for value in operands) + tuple(value.type for value in op.results)
        inner = tuple(
            view.operation.name
            for region in op.regions
            for block in region.blocks
            for view in block.operations
        )
        known = op.name in _FOLDING and len(inner) == 2 if inner else op.name not in _EACH_ITS_OWN
        return (items, types, inner), content if known else None

    def _transfer(
        self, name: str, op: ir.Operation, sources: list[Any], targets: list[Any], trips: float
    ) -> int:
        """A pseudo op that moves `sources` to `targets`, one set of factors per tensor."""
        tensors = [self._types.read(value.type, op) for value in sources or targets]
        sizes, dims = identities([tensor.shape for tensor in tensors])
        copies = len(targets) // len(tensors) if tensors else 0
        rule = Rule(
            sizes=sizes,
            kinds=(FactorKind.PARALLEL,) * len(sizes),
            operands=dims if sources else (),
            results=dims * copies,
        )
        new = NewOp(
            name=name,
            rule=rule,
            operands=[self._values[value] for value in sources],
            results=tensors * copies,
            key=tuple((tensor.shape, tensor.dtype) for tensor in tensors),
            trips=trips,
            handle=op,
        )
        return self._define(new, targets)

    def _while(self, op: ir.Operation, trips: float) -> None:
        condition, body = (region.blocks[0] for region in op.regions)
        count = trip_count(op)
        if count is None:
            count = DEFAULT_TRIPS
            self.builder.warnings.append(
                f"The trip count of the loop at {_place(op)} is unknown; taken to be {count}."
            )
        inner = trips * count
        arguments = [*condition.arguments, *body.arguments]
        begin = self._transfer(LOOP_BEGIN, op, list(op.operands), arguments, trips)
        self._block(condition, inner)
        self._block(body, inner)
        yields = list(body.operations[len(body.operations) - 1].operation.operands)
        end = self._transfer(LOOP_END, op, yields, list(op.results), trips)
        self.builder.link(begin, end)

    def _case(self, op: ir.Operation, trips: float) -> None:
        """Every branch is walked and priced: no branch makes the step look cheaper."""
        ends: list[int] = []
        for region in op.regions:
            block = region.blocks[0]
            self._block(block, trips)
            yields = list(block.operations[len(block.operations) - 1].operation.operands)
            ends.append(self._transfer(BRANCH_END, op, yields, [], trips))
        end = self._transfer(CASE_END, op, [], list(op.results), trips)
        for branch in ends:
            self.builder.link(branch, end)


def _place(op: ir.Operation) -> str:
    match = _NAME.match(str(op.location))
    return match[1] if match else str(op.location)


def _dictionaries(main: ir.Operation, name: str, count: int) -> list[Any]:
    if name not in main.attributes:
        return [{}] * count
    return list(ir.ArrayAttr(main.attributes[name]))
