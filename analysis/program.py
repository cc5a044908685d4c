"""The program as flat arrays: what every later stage works on, with no MLIR in it.

Ops are numbered in program order, nested regions in place. Four kinds of pseudo op make the rest
uniform: `argument` defines one argument of `main`; `return` uses its results; `loop_begin` uses the
initial values of a `while` and defines the arguments of its regions, `loop_end` uses what the body
yields and defines the results; `branch_end` and `case_end` do the same for `if` and `case`.

A *factor* is one way to split an op, as in Shardy's rules. A *name* (TOAST section 3.1, after the
identities I) is an (op, factor) pair, so names and factors share one numbering. Every dimension of
a definition or a use carries the name of its major-most factor, or -1 where it has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class FactorKind(IntEnum):
    """What splitting a factor means for the op."""

    PARALLEL = 0
    REDUCTION = 1
    """Shards compute partial results that must be combined."""
    BLOCKED = 2
    """Cannot be split at this op: it needs the whole dimension, or is minor in a compound one."""
    HALO = 3
    """Shards need a strip of their neighbours' data."""


ARGUMENT = "argument"
RETURN = "return"
LOOP_BEGIN = "loop_begin"
LOOP_END = "loop_end"
BRANCH_END = "branch_end"
CASE_END = "case_end"
PSEUDO = frozenset({ARGUMENT, RETURN, LOOP_BEGIN, LOOP_END, BRANCH_END, CASE_END})
CONSTRAINT = "sdy.sharding_constraint"
BARRIER = "stablehlo.optimization_barrier"
OUTER_PRODUCT = "outer_product"
"""A `stablehlo.dot_general` that sums over nothing: compilers multiply element by element."""
TRANSFERS = PSEUDO | {BARRIER, CONSTRAINT}
"""Ops that pass each tensor on by itself: factors of different tensors never meet in them."""
PASSING = frozenset(
    {
        "stablehlo.broadcast_in_dim",
        "stablehlo.convert",
        "stablehlo.dynamic_slice",
        BARRIER,
        "stablehlo.reshape",
        "stablehlo.slice",
        "stablehlo.transpose",
    }
)
"""Ops whose results hold what their operands hold, at most in part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of `main`; `aliases` is the result that takes over its buffer, or -1."""

    name: str
    value: int
    donated: bool
    aliases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result of `main`: use number `use` of the `return` op."""

    name: str
    use: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedCollective:
    """A collective that a region of `shard_map` asks for: an op of the region's program.

    `groups` are devices that work together, or where `paired` those that send and receive.
    """

    op: int
    groups: tuple[tuple[int, ...], ...]
    paired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region of `shard_map`: the program of one device, and the collectives that it asks for."""

    program: Program
    collectives: tuple[StatedCollective, ...]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A module as arrays. `X_start` arrays have one entry more than there are X.

    Per op: `op_name` (index into `names`), `op_signature` (equal for ops of equal kind, attributes
    and types), `op_content` (equal for those that make the same of the same operands, -1 where
    nobody knows), `op_trips` (how often it runs), `op_strided` (of a slice with strides and of a
    pad between elements one more than the dimensions behind the innermost that is strided, else 0),
    `op_padded` (how many times its own size the image of a convolution has once it is padded, where
    that is not the same on both sides or between the elements; else 1), `op_splits` (how the pixels
    of a convolution fall into blocks that it puts apart: 0, or as in `windows.splits`), `op_placed`
    (how many windows a gather or scatter places in dimensions that they keep, else 0),
    `op_transformed` (how many of its last dimensions a Fourier transform runs along), `op_folds`
    (index into `names` of the one op by which it combines elements, or -1), `op_literal` (whether
    it is a constant of more than one number repeated), `op_uses`, `op_values`, `op_factors`
    (starts).
    Per use: `use_value`, `use_dims` (start into `use_name`). Per value: `value_op`, `value_dims`
    (start into `dim_size` and `dim_name`), `value_type` (index into `dtypes`), `value_shape` (index
    into `known_shapes`). Per factor:
    `factor_size`, `factor_kind`, `factor_halo` (strip width in elements). `links` are pairs of
    factors joined beside the map M: loop inits with yields, branch yields with results.
    `constant` marks values that hold no more than constants: each use of one stands alone.
    `regions` are those of `shard_map`, each by the number of its stand-in (`rules.REGION`).
    """

    names: Sequence[str]
    dtypes: Sequence[str]
    known_shapes: Sequence[tuple[int, ...]]
    op_name: Ints
    op_signature: Ints
    op_content: Ints
    op_trips: Floats
    op_strided: Ints
    op_padded: Floats
    op_splits: Ints
    op_placed: Ints
    op_transformed: Ints
    op_folds: Ints
    op_literal: NDArray[np.bool_]
    op_uses: Ints
    op_values: Ints
    op_factors: Ints
    use_value: Ints
    use_dims: Ints
    use_name: Ints
    value_op: Ints
    value_dims: Ints
    value_type: Ints
    value_shape: Ints
    dim_size: Ints
    dim_name: Ints
    factor_size: Ints
    factor_kind: NDArray[np.int8]
    factor_halo: NDArray[np.int32]
    links: Ints
    constant: NDArray[np.bool_]
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    no_rule: dict[str, int]
    warnings: tuple[str, ...]
    regions: tuple[Region, ...] = ()

    @property
    def ops(self) -> int:
        """Number of ops, pseudo ops included."""
        return len(self.op_name)

    @property
    def values(self) -> int:
        """Number of values."""
        return len(self.value_op)

    def kind(self, op: int) -> str:
        """The name of an op, such as `stablehlo.add`."""
        return self.names[self._names[op]]

    def ops_named(self, *names: str) -> list[int]:
        """The ops of these names, in order."""
        numbers = [number for number, name in enumerate(self.names) if name in names]
        found: list[int] = np.flatnonzero(np.isin(self.op_name, numbers)).tolist()
        return found

    def uses_of(self, op: int) -> range:
        """The uses of an op, one per operand."""
        return range(self._uses[op], self._uses[op + 1])

    def values_of(self, op: int) -> range:
        """The values that an op defines."""
        return range(self._values[op], self._values[op + 1])

    def user(self, use: int) -> int:
        """The op that a use belongs to."""
        return self.users[use]

    def factors_of(self, op: int) -> range:
        """The factors, and so the names, of an op."""
        return range(self._factors[op], self._factors[op + 1])

    def shape(self, value: int) -> tuple[int, ...]:
        """The dimensions of a value."""
        return self.known_shapes[self._shapes[value]]

    def of_shapes(self, function: Callable[[tuple[int, ...]], Any], dtype: Any) -> NDArray[Any]:
        """Something of every value that follows from its shape."""
        known = [function(shape) for shape in self.known_shapes]
        return np.array(known, dtype=dtype)[self.value_shape]

    @cached_property
    def use_op(self) -> Ints:
        """The op that each use belongs to."""
        return np.repeat(np.arange(self.ops), np.diff(self.op_uses))

    @cached_property
    def users(self) -> Sequence[int]:
        """The op that each use belongs to."""
        return self.use_op.data

    @cached_property
    def sources(self) -> Sequence[int]:
        """The value that each use takes, as `use_value`."""
        return self.use_value.data

    @cached_property
    def makers(self) -> Sequence[int]:
        """The op that defines each value, as `value_op`."""
        return self.value_op.data

    @cached_property
    def readers(self) -> tuple[Ints, Ints]:
        """(starts, uses): the uses of each value, one value after another."""
        counts = np.bincount(self.use_value, minlength=self.values)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return starts, np.argsort(self.use_value, kind="stable")

    @cached_property
    def elements(self) -> list[int]:
        """The number of elements of every value."""
        known = [math.prod(shape) for shape in self.known_shapes]
        return [known[number] for number in self.value_shape.tolist()]

    def def_names(self, value: int) -> Ints:
        """The name of each dimension of a value at its definition, -1 for none."""
        return self.dim_name[self.value_dims[value] : self.value_dims[value + 1]]

    def use_names(self, use: int) -> Ints:
        """The name of each dimension of a value at a use, -1 for none."""
        return self.use_name[self.use_dims[use] : self.use_dims[use + 1]]

    def dtype(self, value: int) -> str:
        """Element type of a value, as MLIR spells it."""
        return self.dtypes[self.value_type[value]]

    # Views of what is asked for op by op: reading one number of an array takes three times as
    # long, and a list of all takes longer to make than most that is asked of it.

    @cached_property
    def _names(self) -> Sequence[int]:
        return self.op_name.data

    @cached_property
    def _shapes(self) -> Sequence[int]:
        return self.value_shape.data

    @cached_property
    def _uses(self) -> Sequence[int]:
        return self.op_uses.data

    @cached_property
    def _values(self) -> Sequence[int]:
        return self.op_values.data

    @cached_property
    def _factors(self) -> Sequence[int]:
        return self.op_factors.data
