"""An op that can be had at other sizes: MetaDist's MetaOp.

StableHLO states the types of results, so a copy of an op at other sizes needs new ones. Where
MLIR's verifier infers the types itself, they are read from its message; elsewhere every plausible
shape is tried, and those that verify are taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.shardcombine import composites
from toast.analysis.shardcombine.extract import add_copy, finish, place

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
Overrides = dict[str, Any]

GROUPS = ("feature_group_count", "batch_group_count")
_INFERRED_TYPES = re.compile(r"inferred type\(s\) (.*?) are incompatible")
_INFERRED_SHAPE = re.compile(r"inferred shape '\[([\d, ]*)\]' is incompatible")
_TYPE = re.compile(r"'(tensor<[^']*>)'")
_MAX_GUESSES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCopy:
    """An op in a module of its own, verified; `operands` and `results` are its shapes.

    `divided` names the attribute, a count of groups, that is smaller than in the op it was made of.
    """

    module: Any
    op: Any
    operands: Shapes
    results: Shapes
    divided: str = ""

    @property
    def name(self) -> str:
        """The kind of op, such as `stablehlo.add`."""
        return str(self.op.name)

    def dtypes(self, values: Sequence[Any]) -> tuple[str, ...]:
        """The element types of operands or results."""
        return tuple(str(ir.RankedTensorType(value.type).element_type) for value in values)

    def at(self, operands: Shapes, guess: Shapes, changes: Overrides) -> OpCopy | None:
        """The op at other sizes; None when there is no such op.

        `guess` are the shapes of the results, used where the verifier does not name them;
        `changes` are attributes that mention sizes.
        """
        if self.name == composites.NAME:
            return self._composite_at(operands)
        module = ir.Module.create()
        types = _types(self.op.operands, operands)
        block = place(module, types)
        copy = add_copy(self.op, block, list(block.arguments))
        for name, value in changes.items():
            copy.attributes[name] = value
        if not _settle(copy, guess):
            return None
        finish(block, copy.results)
        return OpCopy(
            module=module,
            op=copy,
            operands=operands,
            results=_shapes(copy.results),
            divided=next((name for name in changes if name in GROUPS), ""),
        )

    def _composite_at(self, operands: Shapes) -> OpCopy | None:
        text = composites.resized(self.module, self.operands, operands)
        return None if text is None else parse(text)


def parse(text: str) -> OpCopy | None:
    """The op in a module that `extract.text_of` wrote; None when the text does not verify."""
    try:
        module = ir.Module.parse(text)
    except ir.MLIRError:
        return None
    for function in module.body.operations:
        if ir.StringAttr(function.operation.attributes["sym_name"]).value == "main":
            op = function.operation.regions[0].blocks[0].operations[0].operation
            shapes = _shapes(op.operands), _shapes(op.results)
            return OpCopy(module=module, op=op, operands=shapes[0], results=shapes[1])
    return None


def guesses(results: Shapes, factor: int = 2) -> Iterator[Shapes]:
    """Shapes that the results may have in one of `factor` shards: whole, or one dimension cut."""
    yield results
    options = [[shape, *_cuts(shape, factor)] for shape in results]
    together = max((len(shape) for shape in results), default=0)
    for dim in range(together):
        cut = tuple(_cut(shape, dim, factor) for shape in results)
        if cut != results:
            yield cut
    if len(results) == 1:
        return
    for index, choices in list(enumerate(options))[:_MAX_GUESSES]:
        for choice in choices[1:]:
            yield (*results[:index], choice, *results[index + 1 :])


def _cuts(shape: Shape, factor: int) -> list[Shape]:
    cuts = (_cut(shape, dim, factor) for dim in range(len(shape)))
    return [cut for cut in cuts if cut != shape]


def _cut(shape: Shape, dim: int, factor: int) -> Shape:
    if dim >= len(shape) or shape[dim] % factor or shape[dim] < factor:
        return shape
    return (*shape[:dim], shape[dim] // factor, *shape[dim + 1 :])


def _types(values: Sequence[Any], shapes: Shapes) -> list[Any]:
    return [
        ir.RankedTensorType.get(list(shape), ir.RankedTensorType(value.type).element_type)
        for value, shape in zip(values, shapes, strict=True)
    ]


def _shapes(values: Sequence[Any]) -> Shapes:
    return tuple(tuple(ir.RankedTensorType(value.type).shape) for value in values)


def _settle(copy: Any, guess: Shapes) -> bool:
    """Give the results the types that the verifier wants; False when nothing pleases it."""
    _set_types(copy, _types(copy.results, guess))
    complaint = _complaint(copy)
    if complaint is None:
        return True
    inferred = _inferred(copy, complaint)
    if inferred is None:
        return False
    _set_types(copy, inferred)
    return _complaint(copy) is None


def _set_types(copy: Any, types: list[Any]) -> None:
    for result, kind in zip(copy.results, types, strict=True):
        result.set_type(kind)


def _complaint(copy: Any) -> str | None:
    try:
        copy.verify()
    except ir.MLIRError as error:
        return str(error)
    return None


def _inferred(copy: Any, complaint: str) -> list[Any] | None:
    """The result types that the verifier's message says it inferred."""
    match = _INFERRED_TYPES.search(complaint)
    if match is not None:
        types = [ir.Type.parse(text) for text in _TYPE.findall(match[1])]
        same = len(types) == len(copy.results)
        return types if same and all(_is_static(kind) for kind in types) else None
    match = _INFERRED_SHAPE.search(complaint)
    if match is None:
        return None
    shape = tuple(int(size) for size in match[1].split(",") if size.strip())
    return _types(copy.results, (shape,)) if len(copy.results) == 1 else None


def _is_static(kind: Any) -> bool:
    tensor = ir.RankedTensorType(kind)
    return bool(tensor.has_static_shape) and 0 not in tensor.shape
