"""What the rows of the tables stand for: fusions, ops, values and uses of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import numpy as np

from toast.analysis.program import Floats, Ints, Program

if TYPE_CHECKING:
    from toast.costmodel.terms.listing import Listing
    from toast.costmodel.terms.rows import Source, WeightedRows
    from toast.costmodel.terms.tables import Tables
    from toast.costmodel.terms.term import Term

T = TypeVar("T")

Sent = tuple[int, tuple[int, ...], float]
"""A value, the ops that need it sent, and how often it is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs(Sequence[tuple[tuple[int, ...], float]]):
    """The ops of each of equal fusions and how often it runs, found when they are asked for.

    `first` are the first ops and `runs` how often, of each; `ops` gives all ops of one.
    """

    first: Ints
    runs: Floats
    ops: Callable[[int], tuple[int, ...]]

    @classmethod
    def listed(cls, rows: Sequence[tuple[tuple[int, ...], float]]) -> Runs:
        """Of ops and runs that are known."""
        first = np.array([ops[0] for ops, _ in rows], dtype=np.int64)
        runs = np.array([runs for _, runs in rows])
        return cls(first=first, runs=runs, ops=lambda number: rows[number][0])

    def __len__(self) -> int:
        """How many fusions there are."""
        return len(self.first)

    @overload
    def __getitem__(self, number: int) -> tuple[tuple[int, ...], float]: ...
    @overload
    def __getitem__(self, number: slice) -> list[tuple[tuple[int, ...], float]]: ...
    def __getitem__(self, number: int | slice) -> Any:
        """The ops of one of them, and its runs."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        return self.ops(range(len(self))[number]), float(self.runs[number])


class Stored(NamedTuple):
    """What is in memory: the tensor, the values that have it, and the uses that a copy is for."""

    tensor: int
    values: Sequence[int]
    uses: tuple[int, ...] = ()


class Sources:
    """What terms ask when they are asked what a row is made of."""

    def __init__(self, listing: Listing, tables: Tables) -> None:
        self.listing = listing
        self.tables = tables
        self.program: Program = listing.program
        self._made: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` makes, made at the first call with this name."""
        if name not in self._made:
            self._made[name] = make()
        found: T = self._made[name]
        return found

    def of_row(self, term: Term[WeightedRows[Any], Any], row: int) -> list[Source]:
        """What a row of a term is made of."""
        rows = self.once(term.name, lambda: self.listing.of(term).grouped())
        numbers, parts = rows[row]
        return list(zip(numbers.tolist(), parts.tolist(), strict=True))

    def results(self, op: int) -> list[int]:
        """The values of an op that are summed over devices or laid out otherwise."""
        program = self.program
        return [value for value in program.values_of(op) if not program.constant[value]]

    def users(self, value: int, tensor: int) -> tuple[int, ...]:
        """The ops that want a value as a tensor."""
        _, uses = self.listing.sent[value][tensor]
        return tuple(dict.fromkeys(self.program.user(use) for use in uses))
