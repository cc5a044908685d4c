"""Memory of arguments, which are there throughout."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from toast.analysis.program import Floats, Ints
from toast.costmodel.program.arrays import floats, ints
from toast.costmodel.terms.journal import Entry
from toast.costmodel.terms.sources import Sources, Stored
from toast.costmodel.terms.term import Term

if TYPE_CHECKING:
    from toast.costmodel.terms.bounds import Bounds
    from toast.costmodel.terms.listing import Listing


class Arguments(NamedTuple):
    """Arguments of one `tensor`: how many there are, and how many copies go to and from the chip.

    Such copies (`fetched`) have a table in main memory each.
    """

    tensor: Ints
    times: Floats
    fetched: Floats


class ArgumentRows(NamedTuple):
    """By tensor how many arguments have it; and how often they go to the chip's own memory."""

    times: Counter[int]
    fetched: Counter[int]


def argument_rows(listing: Listing) -> ArgumentRows:
    """Arguments, and results that come from the chip where they take over an argument's buffer."""
    tensors = listing.layouts.value_tensor
    arguments = {argument.value for argument in listing.program.arguments}
    times = Counter(int(tensors[value]) for value in arguments)
    kept = Counter(int(tensors[value]) for value in listing.reused.values())
    return ArgumentRows(times, times + kept)


def argument_columns(rows: ArgumentRows, _listing: Listing) -> Arguments:
    """The rows as columns."""
    return Arguments(
        tensor=ints(list(rows.times)),
        times=floats(list(rows.times.values())),
        fetched=floats([rows.fetched[tensor] for tensor in rows.times]),
    )


def _values(sources: Sources) -> list[list[int]]:
    """The arguments of each row."""
    listing = sources.listing
    found: dict[int, list[int]] = {tensor: [] for tensor in listing.of(ARGUMENTS).times}
    for argument in listing.program.arguments:
        found[int(listing.layouts.value_tensor[argument.value])].append(argument.value)
    return list(found.values())


def _stored(sources: Sources, row: int) -> Stored:
    """The arguments of a tensor."""
    values = sources.once("arguments", lambda: _values(sources))[row]
    return Stored(tensor=int(sources.tables.arguments.tensor[row]), values=values)


def _bound(bounds: Bounds) -> None:
    """What arguments take without what pads them."""
    arguments, end = bounds.tables.arguments, len(bounds.tables.schedule.position)
    for tensor, times in zip(arguments.tensor.tolist(), arguments.times.tolist(), strict=True):
        bounds.hold(tensor, 0, end, times * bounds.local(tensor))


ARGUMENTS = Term(
    name="arguments",
    kernel="memory.find_peaks",
    list_rows=argument_rows,
    columns=argument_columns,
    rows=lambda arguments: len(arguments.tensor),
    entries=lambda arguments: len(arguments.tensor),
    stored={Entry.BASE: _stored},
    bound=_bound,
)
