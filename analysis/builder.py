"""Appends ops to the lists that become a `Program`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from toast.analysis.program import Argument, Program, Result
from toast.analysis.rules import Dims, Rule, major
from toast.analysis.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOp:
    """An op to append.

    `operands` are value numbers; `key` is equal for ops that are alike; `content` for those of them
    that make the same of the same operands, None where nobody knows; `constant` says that it makes
    constants; `halos` has a width for each factor, or is None.
    """

    name: str
    rule: Rule
    operands: list[int]
    results: list[TensorType]
    key: Any
    trips: float
    handle: Any
    content: Any = None
    constant: bool = False
    halos: tuple[int, ...] | None = None


class ProgramBuilder:
    """Collects ops, uses, values and factors in program order.

    `handles` keeps for each op the MLIR operation behind it (for pseudo ops the one that they
    stand for), `places` the number of its location among `locations`. They are the only tie between
    the arrays and the module.
    """

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._dtypes: dict[str, int] = {}
        self._shapes: dict[tuple[int, ...], int] = {}
        self._signatures: dict[Any, int] = {}
        self._contents: dict[Any, int] = {}
        self.op_name: list[int] = []
        self.op_signature: list[int] = []
        self.op_content: list[int] = []
        self.op_trips: list[float] = []
        self.op_uses = [0]
        self.op_values = [0]
        self.op_factors = [0]
        self.use_value: list[int] = []
        self.use_dims = [0]
        self.use_name: list[int] = []
        self.value_op: list[int] = []
        self.value_dims = [0]
        self.value_type: list[int] = []
        self.value_shape: list[int] = []
        self.dim_size: list[int] = []
        self.dim_name: list[int] = []
        self.factor_size: list[int] = []
        self.factor_kind: list[int] = []
        self.factor_halo: list[int] = []
        self.links: list[tuple[int, int]] = []
        self.constant: list[bool] = []
        self.handles: list[Any] = []
        self.places: list[int] = []
        self.locations: dict[Any, int] = {}
        self.no_rule: dict[str, int] = {}
        self.warnings: list[str] = []

    def add(self, new: NewOp) -> int:
        """Append one op; returns its number."""
        op = len(self.op_name)
        base = len(self.factor_size)
        rule, key = new.rule, (new.name, new.key)
        self.op_name.append(self._names.setdefault(new.name, len(self._names)))
        self.op_signature.append(self._signatures.setdefault(key, len(self._signatures)))
        known = (self.op_signature[-1], new.content)
        number = self._contents.setdefault(known, len(self._contents))
        self.op_content.append(number if new.content is not None else -1)
        self.op_trips.append(new.trips)
        self.handles.append(new.handle)
        location = new.handle.location.attr
        self.places.append(self.locations.setdefault(location, len(self.locations)))
        self.factor_size.extend(rule.sizes)
        self.factor_kind.extend(rule.kinds)
        self.factor_halo.extend(new.halos or (0,) * len(rule.sizes))
        self.op_factors.append(len(self.factor_size))
        for value, dims in zip(new.operands, rule.operands, strict=True):
            self._add_use(value, dims, rule, base)
        self.op_uses.append(len(self.use_value))
        for tensor, dims in zip(new.results, rule.results, strict=True):
            self._add_value(op, tensor, dims, rule, base, new.constant)
        self.op_values.append(len(self.value_op))
        if not rule.known:
            self.no_rule[new.name] = self.no_rule.get(new.name, 0) + 1
        return op

    def _add_use(self, value: int, dims: Dims, rule: Rule, base: int) -> None:
        self.use_value.append(value)
        self.use_name.extend(_names(dims, rule, base))
        self.use_dims.append(len(self.use_name))

    def _add_value(
        self, op: int, tensor: TensorType, dims: Dims, rule: Rule, base: int, constant: bool
    ) -> None:
        self.value_op.append(op)
        self.value_type.append(self._dtypes.setdefault(tensor.dtype, len(self._dtypes)))
        self.value_shape.append(self._shapes.setdefault(tensor.shape, len(self._shapes)))
        self.dim_size.extend(tensor.shape)
        self.dim_name.extend(_names(dims, rule, base))
        self.value_dims.append(len(self.dim_size))
        self.constant.append(constant)

    def shape(self, value: int) -> tuple[int, ...]:
        """The dimensions of a value added before."""
        return tuple(self.dim_size[self.value_dims[value] : self.value_dims[value + 1]])

    def link(self, op: int, other: int) -> None:
        """Join the factors of two ops one by one: the same tensors seen at two places."""
        first, second = self.op_factors[op], self.op_factors[other]
        count = self.op_factors[op + 1] - first
        self.links.extend((first + i, second + i) for i in range(count))

    def build(self, arguments: list[Argument], results: list[Result]) -> Program:
        """The finished arrays."""

        def ints(values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
            return np.asarray(values, dtype=np.int64)

        return Program(
            names=tuple(self._names),
            dtypes=tuple(self._dtypes),
            known_shapes=tuple(self._shapes),
            op_name=ints(self.op_name),
            op_signature=ints(self.op_signature),
            op_content=ints(self.op_content),
            op_trips=np.asarray(self.op_trips, dtype=np.float64),
            op_uses=ints(self.op_uses),
            op_values=ints(self.op_values),
            op_factors=ints(self.op_factors),
            use_value=ints(self.use_value),
            use_dims=ints(self.use_dims),
            use_name=ints(self.use_name),
            value_op=ints(self.value_op),
            value_dims=ints(self.value_dims),
            value_type=ints(self.value_type),
            value_shape=ints(self.value_shape),
            dim_size=ints(self.dim_size),
            dim_name=ints(self.dim_name),
            factor_size=ints(self.factor_size),
            factor_kind=ints(self.factor_kind),
            factor_halo=ints(self.factor_halo),
            links=ints(self.links).reshape(-1, 2),
            constant=np.asarray(self.constant, dtype=np.bool_),
            arguments=tuple(arguments),
            results=tuple(results),
            no_rule=dict(self.no_rule),
            warnings=tuple(self.warnings),
        )


def _names(dims: Dims, rule: Rule, base: int) -> list[int]:
    """The name of each dimension: its major-most factor above 1, or -1."""
    found = (major(rule.sizes, factors) for factors in dims)
    return [base + factor if factor >= 0 else -1 for factor in found]
