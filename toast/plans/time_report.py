"""The time axis of a plan in words, and the rewritings that were compared as a table."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.tables import plain_table
from toast.plans.time import RewritingTried, TimeAxes


def time_sentence(time: TimeAxes | None) -> str:
    """What runs in parts, and what is carried from part to part; '' where nothing does."""
    if time is None:
        return ""
    count = time.microbatches
    dtype = "f32" if time.accumulate == "f32" else "the program's type"
    batch = f"dimension {time.dimension} of {time.argument}"
    sums = sum(row.count for row in time.sums)
    added = f"{_values(sums, 'sum')} of {format_bytes(time.sum_bytes)}, kept in {dtype}"
    stacks = sum(row.count for row in time.stacks)
    written = f"; {_values(stacks, 'result')} along the batch" if stacks else ""
    return (
        f"Time: the batch ({batch}, {time.size:,}) runs in {count} microbatches of "
        f"{time.size // count:,}; the loop carries {added}, before sharding{written}."
    )


def _values(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def render_time(time: TimeAxes) -> Group:
    """The sentence, and the table where several rewritings were planned."""
    said = Text(time_sentence(time))
    if not time.tried:
        return Group(said)
    again = any(row.recompute for row in time.tried)
    columns = [">microbatches", *(["recompute"] if again else []), ">step", ">peak", "fits", ""]
    title = "Rewritings that were tried" if again else "Microbatches that were tried"
    table = plain_table(title, *columns)
    for row in time.tried:
        policy = [row.recompute or "none"] if again else []
        said_of = row.reason or _mark(row)
        table.add_row(str(row.microbatches), *policy, *_figures(row), said_of)
    return Group(said, "", table)


def _figures(row: RewritingTried) -> tuple[str, str, str]:
    if row.step_seconds is None or row.peak_bytes is None:
        return "", "", ""
    fits = "yes" if row.fits else "no"
    return format_seconds(row.step_seconds), format_bytes(row.peak_bytes), fits


def _mark(row: RewritingTried) -> str:
    return "this plan" if row.chosen else ""
