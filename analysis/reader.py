"""Reads ops into prototypes, each kind of op with its attributes and types once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.halos import with_halos
from toast.analysis.iota_indices import Pair, counted_pairs, split_together
from toast.analysis.placed_windows import placed
from toast.analysis.program import ARGUMENT, OUTER_PRODUCT, FactorKind
from toast.analysis.prototypes import Prototypes, Traits
from toast.analysis.rules import RULE, Rule, RuleReader, identities, own_rule, pointwise
from toast.analysis.shardcombine import Discoverer
from toast.analysis.size import is_literal
from toast.analysis.transformed import transformed
from toast.analysis.types import TensorType, TypeReader
from toast.analysis.windows import padded, splits, strided

CONSTANTS = frozenset({"stablehlo.constant", "stablehlo.iota", "sdy.constant", "chlo.constant"})
"""Ops that make constants."""
_PLACES = frozenset({"start_indices", "limit_indices", "edge_padding_low", "edge_padding_high"})
"""Where a slice or pad stands in the whole tensor; layers that each take their own part of one
tensor (a mask for each layer, stacked parameters) are equal all the same."""
_IGNORED_ATTRIBUTES = frozenset({RULE, "sdy.sharding", "mhlo.sharding"}) | _PLACES
_CUSTOM = "stablehlo.custom_call"
_PRODUCT = "stablehlo.dot_general"
_FOLDING = frozenset({"stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter"})
"""Ops that combine elements by a region, which the name of its one op describes."""
_BY_OPERANDS = frozenset({"stablehlo.gather", "stablehlo.scatter", "stablehlo.convolution"})
"""Ops of which more is known by what makes their operands: which rows they name, how they pad."""
_ALONE: tuple[tuple[Pair, ...], float] = ((), 1.0)
_EACH_ITS_OWN = frozenset(
    f"{dialect}.{name}"
    for dialect, names in {
        "stablehlo": ("custom_call", "rng", "infeed", "recv", "optimization_barrier"),
        "sdy": ("sharding_constraint",),
    }.items()
    for name in names
)
"""Ops of which two may make two things of the same operands, or are to be kept apart."""

Read = tuple[int, int]
"""The prototype of an op and its content (as `Program.op_content`)."""


class OpReader:
    """Reads ops whose rules are attached to them; `discoverer` finds those of the others."""

    def __init__(self, discoverer: Discoverer) -> None:
        self.prototypes = Prototypes()
        self._types = TypeReader()
        self._rules = RuleReader()
        self._discoverer = discoverer
        self._read: dict[Any, Read] = {}

    def op(self, op: ir.Operation, operands: Sequence[Any], results: Sequence[Any]) -> Read:
        """An op of these operands and results."""
        name, attributes = op.name, _attributes(op)
        types = tuple([value.type for value in operands] + [value.type for value in results])
        inner = _names_within(op)
        operand_facts = (counted_pairs(op), padded(op)) if name in _BY_OPERANDS else _ALONE
        key = (name, attributes, types, inner, operand_facts)
        found = self._read.get(key)
        if found is None:
            found = self._new(op, len(operands), *key)
            # A rule that is found by running the op depends on all that is in its regions.
            if not inner or RULE in op.attributes:
                self._read[key] = found
        return found

    def argument(self, value: Any, where: str) -> Read:
        """An argument of `main`."""
        tensor = self._types.read(value.type, where)
        rule = pointwise(0, [tensor.shape])
        return self._pseudo(ARGUMENT, rule, [tensor], (tensor.shape, tensor.dtype))

    def transfer(
        self, name: str, op: ir.Operation, sources: Sequence[Any], targets: Sequence[Any]
    ) -> Read:
        """A pseudo op that moves `sources` to `targets`, one set of factors per tensor."""
        types = tuple([value.type for value in sources or targets])
        key = (name, types, bool(sources), len(targets))
        found = self._read.get(key)
        if found is None:
            tensors = [self._types.read(kind, op) for kind in types]
            copies = len(targets) // len(tensors) if tensors else 0
            sizes, dims = identities([tensor.shape for tensor in tensors])
            rule = Rule(
                sizes=sizes,
                kinds=(FactorKind.PARALLEL,) * len(sizes),
                operands=dims if sources else (),
                results=dims * copies,
            )
            alike = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
            found = self._read[key] = self._pseudo(name, rule, tensors * copies, alike)
        return found

    def _pseudo(self, name: str, rule: Rule, results: Sequence[TensorType], key: Any) -> Read:
        prototype = self.prototypes.add(name, rule, results, key)
        return prototype, self.prototypes.content(prototype, None)

    def _new(
        self,
        op: ir.Operation,
        operands: int,
        name: str,
        given: Any,
        types: Any,
        inner: Any,
        operand_facts: tuple[tuple[Pair, ...], float],
    ) -> Read:
        """Read an op that equals none that was read before."""
        attributes = op.attributes
        tensors = [self._types.read(kind, op) for kind in types]
        shapes = [tensor.shape for tensor in tensors[:operands]]
        made = [tensor.shape for tensor in tensors[operands:]]
        if RULE in attributes:
            rule = self._rules.read(attributes[RULE])
        else:
            rule = own_rule(_called(op) if name == _CUSTOM else name, shapes, made)
            if not rule.known:
                rule = self._discoverer.rule(op) or rule
        rule, halos = with_halos(op, split_together(rule, operand_facts[0]), shapes, made)
        items = tuple((k, v) for k, v in given if k not in _IGNORED_ATTRIBUTES)
        content: Any = tuple((k, v) for k, v in given if k in _IGNORED_ATTRIBUTES and k != RULE)
        literal = is_literal(op)
        if name in CONSTANTS:
            content = (*content, *(item for item in items if item[0] == "value"))
            items = (("literal", literal),) if any(k == "value" for k, _ in items) else items
        folding = name in _FOLDING and len(inner) == 2
        known = folding if inner else name not in _EACH_ITS_OWN
        folds = inner[0] if folding else ""
        traits = Traits(
            strided=strided(op),
            padded=operand_facts[1],
            splits=splits(op),
            placed=placed(op),
            transformed=transformed(op),
            folds=folds,
            literal=literal,
        )
        if name == _CUSTOM:
            name = _called(op)
        elif name == _PRODUCT and FactorKind.REDUCTION not in rule.kinds:
            name = OUTER_PRODUCT
        prototype = self.prototypes.add(
            name, rule, tensors[operands:], (items, types, inner, operand_facts), halos, traits
        )
        return prototype, self.prototypes.content(prototype, content if known else None)


def _attributes(op: ir.Operation) -> tuple[tuple[str, Any], ...]:
    """The attributes of an op by name.

    One that has no form in Python, such as complex numbers, is the text of the op.
    """
    try:
        return tuple(op.attributes.items())
    except TypeError:
        return tuple((name, _attribute(op, name)) for name in op.attributes)


def _attribute(op: ir.Operation, name: str) -> Any:
    try:
        return op.attributes[name]
    except TypeError:
        return str(op)


def _called(op: ir.Operation) -> str:
    """What a custom call is called in a program."""
    return f"custom_call {op.attributes['call_target_name'].value}"


def _names_within(op: ir.Operation) -> tuple[str, ...]:
    """The names of the ops in the regions of an op."""
    return tuple(
        [
            view.operation.name
            for region in op.regions
            for block in region.blocks
            for view in block.operations
        ]
    )
