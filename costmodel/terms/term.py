"""What there is to know of a kind of cost row: a `Term` stands at the end of the file of each kind.

`tables` lists all terms. It composes of them what the kernels read, the arrays that they work on,
what depends on which unit, and how long a journal may be. `explain` asks a term what its rows are
made of, and the search's relaxation what they cost at least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toast.analysis.program import Ints
from toast.costmodel.program.dataflow import Bools
from toast.costmodel.terms.dependents import Pairs, Reach
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

    `journal` are the entries that tell of the rows, and `entries` how many of them one state may
    have. `fused`, `sent` and `stored` say what a row is made of: ops that run, values that a
    collective brings to ops, or values in memory.

    `begins` are the positions of the schedule where something of the rows comes to be alive.
    `bound` adds to the search's relaxation what the rows cost at least, if that is not nothing.
    """

    name: str
    kernel: str
    list_rows: Callable[[Listing], R]
    columns: Callable[[R, Listing], C]
    rows: Callable[[C], int]
    dependencies: Callable[[C, Reach], Pairs] | None = None
    scratch: Callable[[C, Bools], Any] | None = None
    journal: tuple[Entry, ...] = ()
    entries: Callable[[C], int] = lambda columns: 0  # noqa: ARG005
    fused: Callable[[Sources, Entry, int, int], Runs] | None = None
    sent: Callable[[Sources, int, int], list[Sent]] | None = None
    stored: Callable[[Sources, Entry, int], Stored] | None = None
    begins: Callable[[R], Ints] | None = None
    bound: Callable[[Bounds], None] | None = None
