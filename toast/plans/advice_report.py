"""What would fit, and slices of chips, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.advice import Advice, Slice
from toast.plans.tables import plain_table
from toast.plans.time import RewritingTried

_Row = tuple[str, str, str, str, bool | None]
"""What to change, to what, the time of a step, the peak, and whether that fits."""
_REWRITINGS = 3
"""So many of them are told; `plan.json` has all."""


def render_advice(advice: Advice) -> Group:
    """What would fit in one table, and what is not known."""
    table = plain_table("What would fit", "change", "to", ">step", ">peak", "fits")
    for what, to, step, peak, fits in advice_rows(advice):
        table.add_row(what, Text(to), step, peak, _fits(fits))
    parts: list[RenderableType] = [table]
    if advice.left_out:
        parts.append(Text("Not known: " + "; ".join(advice.left_out) + ".", style="dim"))
    return Group(*parts)


def advice_sentences(advice: Advice) -> list[str]:
    """The changes that fit, for a warning."""
    found = []
    for what, to, step, _, fits in advice_rows(advice):
        if fits:
            found.append(f"{what}: {to}" + (f" ({step} a step)" if step else ""))
    return found


def slice_table(rows: Sequence[Slice], title: str) -> Table:
    """Slices, one a row."""
    table = plain_table(title, "chip", ">chips", "mesh", "fits", ">step", ">peak", ">memory",
                        ">chip-seconds", "")  # fmt: skip
    for row in rows:
        table.add_row(
            row.device,
            f"{row.devices:,}",
            Text(row.mesh),
            _fits(row.fits),
            _seconds(row.step_seconds),
            _bytes(row.peak_bytes),
            format_bytes(row.memory_bytes),
            "" if row.chip_seconds is None else f"{row.chip_seconds:.4g}",
            Text(row.reason),
        )
    return table


def advice_rows(advice: Advice) -> Iterator[_Row]:
    """What to change, each with what that gives."""
    yield from map(_rewriting_row, _shown(advice.rewritings))
    yield from (_slice_row("more chips", row) for row in _telling(advice))
    batch = advice.batch
    if batch is not None:
        now = f"{batch.size:,} of {batch.argument}"
        if batch.fits is None:
            yield "batch", f"{batch.too_large:,} in place of {now}", "", "", False
        else:
            to = f"{batch.fits:,} in place of {now}; {batch.too_large:,} does not fit"
            yield "batch", to, _seconds(batch.step_seconds), _bytes(batch.peak_bytes), True
    own = advice.slices[0].device if advice.slices else ""
    yield from (_slice_row("other chips", row) for row in advice.slices if row.device != own)


def _telling(advice: Advice) -> list[Slice]:
    """Of the plan's own chips the fewest that fit, and half as many; or the most that do not."""
    own = [row for row in advice.slices if row.device == advice.slices[0].device]
    if advice.fewest is None:
        return own[-1:]
    return [row for row in own if row.devices in (advice.fewest, advice.fewest // 2)][::-1]


def _slice_row(what: str, row: Slice) -> _Row:
    mesh = f" as {row.mesh}" if row.mesh else ""
    why = f": {row.reason}" if row.reason else ""
    to = f"{row.devices:,} x {row.device}{mesh}{why}"
    return what, to, _seconds(row.step_seconds), _bytes(row.peak_bytes), row.fits


def _rewriting_row(row: RewritingTried) -> _Row:
    """A rewriting, by the flags of `toast plan` that make it."""
    to = f"plan with {row.flags}"
    return "rewritten", to, _seconds(row.step_seconds), _bytes(row.peak_bytes), row.fits


def _shown(rows: Sequence[RewritingTried]) -> list[RewritingTried]:
    """The best rewriting, and the others that fit, the fastest first."""
    best = [row for row in rows if row.chosen]
    fitting = [row for row in rows if row.fits and not row.chosen]
    return [*best, *sorted(fitting, key=lambda row: row.step_seconds or 0.0)][:_REWRITINGS]


def _fits(fits: bool | None) -> Text:
    if fits is None:
        return Text("?", style="yellow")
    return Text("yes", style="green") if fits else Text("no", style="red")


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else format_seconds(seconds)


def _bytes(size: int | None) -> str:
    return "" if size is None else format_bytes(size)
