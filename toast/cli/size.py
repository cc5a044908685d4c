"""`toast size`: its flags are in `app`; here is what it does and prints."""

from __future__ import annotations

from toast.api import size_slices
from toast.cli.terminal import Answer
from toast.costmodel.hardware.quantities import format_seconds
from toast.plans.advice_report import slice_table
from toast.request.size_request import SizeRequest


def print_slices(module: bytes, request: SizeRequest, answer: Answer) -> bool:
    """Print the slices of a request; whether the program fits any of them."""
    with answer.progress() as bar, answer.interrupts() as interrupt:
        table = size_slices(module, request, bar.update, interrupt)
    answer.document(table.model_dump_json(indent=2))
    spent = format_seconds(table.seconds)
    title = f"Slices, those that fit by chip-seconds a step; found in {spent}"
    fitting = [row for row in table.slices if row.fits]
    names = [f"{row.device} {row.devices} {row.mesh}" for row in fitting]
    answer.names(names, slice_table(table.slices, title), *map(_warning, table.warnings))
    return bool(fitting)


def _warning(text: str) -> str:
    return f"Warning: {text}"
