"""`toast inspect` and `toast devices`: tables of what is known."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from toast.analysis.errors import InvalidRequest
from toast.cli.terminal import Answer
from toast.costmodel.compiler_passes import PASSES
from toast.costmodel.hardware.devices import Device, Link, catalogue
from toast.costmodel.hardware.quantities import format_bytes, format_seconds

MAX_ROWS = 40
"""Rows shown of each table; `--json` has them all."""


def print_inspection(inspection: dict[str, Any], answer: Answer) -> None:
    """What `toast.inspect.inspect_module.inspect_module` found, as tables or as JSON."""
    answer.document(json.dumps(inspection, indent=2))
    answer.tables(*_tables(inspection))


def _tables(inspection: dict[str, Any]) -> Iterator[RenderableType]:
    counts = [f"{value:,} {key}" for key, value in inspection.items() if isinstance(value, int)]
    if counts:
        yield Text(", ".join(counts) + "\n", style="bold")
    for key, title in TITLES.items():
        rows = inspection.get(key)
        if isinstance(rows, list):
            yield from _rows(title, rows)
    if stages := inspection.get("stages"):
        rows = [{"stage": k, "time": format_seconds(v)} for k, v in stages.items()]
        yield from _rows("Time by stage", rows)


def write_page(inspection: dict[str, Any], path: Path, title: str, answer: Answer) -> None:
    """The same as one HTML page at `path`; raises InvalidRequest where it cannot be written."""
    from toast.inspect.page import render_page

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_page(inspection, title), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be written: {error.strerror}.", "Give another file with --html."
        ) from error
    answer.written(path, f"Written to {path}.")


TITLES = {
    "colours": "Colours (named dimensions)",
    "conflicts": "Conflicts",
    "sets": "Compatibility sets",
    "groups": "Groups of repeated layers",
    "no_rule": "Ops without a rule",
}


def _rows(title: str, rows: Sequence[dict[str, Any]]) -> Iterator[RenderableType]:
    if not rows:
        yield f"{title}: none.\n"
        return
    table = Table(title=f"{title}: {len(rows):,}", title_justify="left", title_style="bold")
    table.box, table.pad_edge = None, False
    for column, value in rows[0].items():
        is_number = isinstance(value, int | float)
        table.add_column(column.replace("_", " "), justify="right" if is_number else "left")
    for row in rows[:MAX_ROWS]:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    yield table
    if len(rows) > MAX_ROWS:
        yield f"... and {len(rows) - MAX_ROWS:,} more; --json prints all."
    yield ""


def _cell(value: Any) -> str:
    """A value in at most about one line: long lists are cut and counted."""
    if isinstance(value, list):
        shown = ", ".join(str(item) for item in value[:3])
        return f"{shown}, ... ({len(value):,})" if len(value) > 3 else shown
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_devices(answer: Answer) -> None:
    """The catalogue of chips."""
    devices = list(catalogue().values())
    answer.document(json.dumps([dataclasses.asdict(device) for device in devices], indent=2))
    table = Table(box=None, pad_edge=False)
    for column in ("name", "kind", "memory", "bandwidth", "bf16 peak", "networks", "description"):
        table.add_column(column)
    for device in devices:
        table.add_row(*_device_row(device))
    answer.names([device.name for device in devices], table)


def print_passes(answer: Answer) -> None:
    """The passes of the registry."""
    answer.document(
        json.dumps(
            [{"name": one.name, "models": one.models, "file": one.file} for one in PASSES.values()],
            indent=2,
        )
    )
    table = Table(box=None, pad_edge=False)
    for column in ("pass", "what it models", "file"):
        table.add_column(column)
    for one in PASSES.values():
        table.add_row(one.name, one.models, one.file)
    answer.names(PASSES, table)


def _network(link: Link) -> str:
    """A network's name, how many devices it joins and what one sends over it."""
    dims = f" {'x'.join(map(str, link.dims))}" if link.dims else ""
    return f"{link.name}{dims} ({link.span}, {link.bandwidth / 1e9:,.0f} GB/s)"


def _device_row(device: Device) -> tuple[str, ...]:
    peak = device.flops.get("bf16") or max(device.flops.values(), default=0.0)
    return (
        device.name,
        device.kind,
        format_bytes(device.memory_bytes),
        f"{device.bandwidth / 1e9:,.0f} GB/s",
        f"{peak / 1e12:,.1f} TFLOP/s",
        ", ".join(map(_network, device.links)),
        device.description,
    )
