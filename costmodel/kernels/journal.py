"""Kernels that write the journal of an evaluation; `terms.journal` says what is in it."""

from __future__ import annotations

from toast.analysis.jit import inner
from toast.costmodel.terms.journal import (
    COMBINED,
    COUNT,
    DETAIL,
    KIND,
    PARTIAL,
    PLACE,
    ROW,
    SECONDS,
    SIZE,
    TABLE,
    WHY,
    Journal,
)


@inner
def mark(journal: Journal, table: int, row: int, place: int) -> None:
    """Say what the collectives that are priced next are of."""
    if len(journal.entries) > 0:
        journal.noted[1] = table
        journal.noted[2] = row
        journal.noted[3] = place


@inner
def note(
    journal: Journal, table: int, row: int, place: int, kind: int, detail: int,
    count: float, size: float, seconds: float,
) -> None:  # fmt: skip
    """Write one entry, where there is room."""
    if journal.noted[0] < len(journal.entries):
        n = journal.noted[0]
        journal.noted[0] = n + 1
        journal.entries[n, TABLE] = table
        journal.entries[n, ROW] = row
        journal.entries[n, PLACE] = place
        journal.entries[n, KIND] = kind
        journal.entries[n, DETAIL] = detail
        journal.entries[n, COUNT] = count
        journal.entries[n, SIZE] = size
        journal.entries[n, SECONDS] = seconds
        journal.entries[n, WHY], journal.entries[n, COMBINED] = 0, 0


@inner
def replace_collective(
    journal: Journal, row: int, place: int, kinds: tuple[int, int], size: float,
    seconds: float, why: int,
) -> None:  # fmt: skip
    """Write the second kind of collective over the first (row of partials, place in it)."""
    for n in range(min(journal.noted[0], len(journal.entries))):
        of = (
            journal.entries[n, TABLE] == PARTIAL
            and journal.entries[n, ROW] == row
            and journal.entries[n, PLACE] == place
        )
        if of and journal.entries[n, KIND] == kinds[0]:
            journal.entries[n, KIND], journal.entries[n, SIZE], journal.entries[n, SECONDS] = (
                kinds[1],
                size,
                seconds,
            )
            journal.entries[n, WHY] = why


@inner
def note_collective(
    journal: Journal, kind: int, axes: int, count: float, size: float, seconds: float, why: int
) -> None:
    """Write an entry for a collective of what was marked, for a `CollectiveReason`."""
    if journal.noted[0] < len(journal.entries):
        note(
            journal,
            journal.noted[1],
            journal.noted[2],
            journal.noted[3],
            kind,
            axes,
            count,
            size,
            seconds,
        )
        journal.entries[journal.noted[0] - 1, WHY] = why
