"""What there is to know of a kind of cost row: a `Term` stands at the end of the file of each kind.

`tables` lists all terms. It composes of them what the kernels read, the arrays that they work on,
what depends on which unit, and how long a journal may be. `explain` asks a term what its rows are
made of, and the search's relaxation what they cost at least.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toast.analysis.program import Ints
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.terms.dependents import OwningUnits, Pairs
from toast.costmodel.terms.journal import Entry

if TYPE_CHECKING:
    from toast.costmodel.terms.bounds import Bounds
    from toast.costmodel.terms.listing import Listing
    from toast.costmodel.terms.sources import Runs, Sent, Sources, Stored

R = TypeVar("R")
C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Term(Generic[R, C]):
    """A kind of cost row.

    `name` is its field of `Tables` and of `Scratch`, `kernel` what prices its rows (in `kernels`).
    `list_rows` makes the rows of a program, `columns` what the kernel reads of them.

    Rows that are kept from state to state have a `scratch`, made for the columns and for the flags
    that say which rows are stale: as many as `rows`. `dependencies` are the units that each of them
    depends on. Rows without a scratch are priced every time.

    `entries` says how many entries of a journal one state may have. For each kind of entry `fused`,
    `sent` or `stored` says what a row is made of: ops that run, values that a collective brings to
    ops, or values in memory.

    `begins` are the positions of the schedule where something of the rows comes to be alive.
    `bound` adds to the search's relaxation what the rows cost at least, if that is not nothing.
    """

    name: str
    kernel: str
    list_rows: Callable[[Listing], R]
    columns: Callable[[R, Listing], C]
    rows: Callable[[C], int]
    dependencies: Callable[[C, OwningUnits], Pairs] | None = None
    scratch: Callable[[C, Bools], Any] | None = None
    entries: Callable[[C], int] = lambda columns: 0  # noqa: ARG005
    fused: Mapping[Entry, Callable[[Sources, int, int], Runs]] = field(default_factory=dict)
    sent: Mapping[Entry, Callable[[Sources, int, int], list[Sent]]] = field(default_factory=dict)
    stored: Mapping[Entry, Callable[[Sources, int], Stored]] = field(default_factory=dict)
    begins: Callable[[R], Ints] | None = None
    bound: Callable[[Bounds], None] | None = None
