"""What would fit, and slices of chips, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.advice import Advice, Microbatches, RecomputedBlocks, Slice
from toast.plans.tables import plain_table

_Row = tuple[str, str, str, str, bool | None]
"""What to change, to what, the time of a step, the peak, and whether that fits."""


def render_advice(advice: Advice) -> Group:
    """What would fit in one table, and what is not known."""
    table = plain_table("What would fit", "change", "to", ">step", ">peak", "fits")
    for what, to, step, peak, fits in advice_rows(advice):
        table.add_row(what, Text(to), step, peak, _fits(fits))
    parts: list[RenderableType] = [table]
    if advice.microbatches is not None or advice.recompute:
        parts.append(Text("~ is an estimate: docs/explain.md says of what.", style="dim"))
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
    yield from (_slice_row("more chips", row) for row in _telling(advice))
    batch = advice.batch
    if batch is not None:
        now = f"{batch.size:,} of {batch.argument}"
        if batch.fits is None:
            yield "batch", f"{batch.too_large:,} in place of {now}", "", "", False
        else:
            to = f"{batch.fits:,} in place of {now}; {batch.too_large:,} does not fit"
            yield "batch", to, _seconds(batch.step_seconds), _bytes(batch.peak_bytes), True
    if advice.microbatches is not None:
        yield _microbatch_row(advice.microbatches)
    yield from map(_recompute_row, advice.recompute)
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


def _microbatch_row(row: Microbatches) -> _Row:
    to = f"{row.count:,} of {row.size:,}: plan with --microbatches {row.count}, or --fit"
    return (
        "microbatches",
        to,
        f"~ {_seconds(row.step_seconds)}",
        f"~ {_bytes(row.peak_bytes)}",
        True,
    )


def _recompute_row(row: RecomputedBlocks) -> _Row:
    saved = format_bytes(row.saved_bytes)
    to = f"{row.name}, {row.blocks:,} blocks: saves {saved}; plan with --recompute all, or --fit"
    return (
        "recompute",
        to,
        f"~ +{_seconds(row.extra_seconds)}",
        f"~ {_bytes(row.peak_bytes)}",
        row.fits,
    )


def _fits(fits: bool | None) -> Text:
    if fits is None:
        return Text("?", style="yellow")
    return Text("yes", style="green") if fits else Text("no", style="red")


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else format_seconds(seconds)


def _bytes(size: int | None) -> str:
    return "" if size is None else format_bytes(size)
