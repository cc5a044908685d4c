"""What is launched, as arrays: each fusion's ops, the uses that it reads and its contractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from toast.analysis.program import Ints, Program
from toast.costmodel.program.arrays import spans
from toast.costmodel.program.dataflow import Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedFusion:
    """One or more ops that write and run as one fusion, with several results if there are more.

    `reads` are the uses that it reads memory through, `contractions` those inside it.
    """

    ops: tuple[int, ...]
    reads: tuple[int, ...]
    contractions: tuple[int, ...]

    @property
    def op(self) -> int:
        """The first op that writes."""
        return self.ops[0]


_COLUMNS = ("op_start", "ops", "read_start", "reads", "dot_start", "dots")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaunchedFusions(Sequence[LaunchedFusion]):
    """Fusions as columns: those of fusion n are from `X_start[n]` to `X_start[n + 1]`."""

    op_start: Ints
    ops: Ints
    read_start: Ints
    reads: Ints
    dot_start: Ints
    dots: Ints

    @classmethod
    def of(
        cls, ops: tuple[Ints, Ints, Ints], reads: tuple[Ints, Ints, Ints], dots: tuple[Ints, ...]
    ) -> LaunchedFusions:
        """From (pool, firsts, ends) of each column."""
        columns = []
        for pool, firsts, ends in (ops, reads, dots):
            counts = ends - firsts
            starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            columns += [starts, pool[spans(firsts, counts)]]
        return cls(**dict(zip(_COLUMNS, columns, strict=True)))

    def joined(self, program: Program, into: Ints, inner: Bools) -> LaunchedFusions:
        """Each fusion as a part of the one that it goes `into`, whose ops come first.

        `inner` are ops that then write nothing. What a fusion makes itself it does not read.
        """
        row, group = self.rows(self.op_start), into[self.rows(self.op_start)]
        home = np.full(program.ops, -1)
        home[self.ops] = group
        kept = np.flatnonzero(~inner[self.ops])
        kept = kept[np.lexsort((row[kept] != group[kept], group[kept]))]
        reader, value = into[self.rows(self.read_start)], program.use_value[self.reads]
        order = np.lexsort((self.reads, reader))
        order = order[(home[program.value_op[value]] != reader)[order]]
        once = np.unique(reader[order] * program.values + value[order], return_index=True)[1]
        order = order[np.sort(once)]
        multiplier = into[self.rows(self.dot_start)]
        dots = np.lexsort((self.dots, multiplier))
        left = np.unique(into)
        columns: list[Ints] = []
        for owner, pool in (
            (group[kept], self.ops[kept]),
            (reader[order], self.reads[order]),
            (multiplier[dots], self.dots[dots]),
        ):
            ends = np.searchsorted(owner, left, side="right")
            columns += [np.concatenate([[0], ends]), pool]
        return LaunchedFusions(**dict(zip(_COLUMNS, columns, strict=True)))

    @property
    def first_op(self) -> Ints:
        """The first op of each."""
        return self.ops[self.op_start[:-1]]

    @property
    def heads(self) -> Ints:
        """The first contraction of each, or of what has none the first op."""
        found, multiplies = self.first_op.copy(), np.diff(self.dot_start) > 0
        found[multiplies] = self.dots[self.dot_start[:-1][multiplies]]
        return found

    def rows(self, starts: Ints) -> Ints:
        """The fusion of each entry of a column with these starts."""
        return np.repeat(np.arange(len(self)), np.diff(starts))

    def __len__(self) -> int:
        """How many there are."""
        return len(self.op_start) - 1

    @overload
    def __getitem__(self, number: int) -> LaunchedFusion: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[LaunchedFusion]: ...
    def __getitem__(self, number: int | slice) -> LaunchedFusion | Sequence[LaunchedFusion]:
        """One of them by itself."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        ops, reads, dots = (
            tuple(column[starts[number] : starts[number + 1]].tolist())
            for starts, column in (
                (self.op_start, self.ops),
                (self.read_start, self.reads),
                (self.dot_start, self.dots),
            )
        )
        return LaunchedFusion(ops=ops, reads=reads, contractions=dots)

    def __eq__(self, other: object) -> bool:
        """Whether the columns are equal."""
        return isinstance(other, LaunchedFusions) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in _COLUMNS
        )

    __hash__ = None  # type: ignore[assignment]
