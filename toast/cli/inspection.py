"""`toast inspect` and `toast devices`: tables of what is known."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from toast.analysis.errors import InvalidRequest
from toast.costmodel.compiler_passes import PASSES
from toast.costmodel.hardware.devices import Device, Link, catalogue
from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.report import make_console

MAX_ROWS = 40
"""Rows shown of each table; `--json` has them all."""


def print_inspection(inspection: dict[str, Any], *, as_json: bool) -> None:
    """What `toast.inspect.inspect_module.inspect_module` found, as tables or as JSON."""
    console = make_console()
    if as_json:
        console.file.write(json.dumps(inspection, indent=2) + "\n")
        return
    counts = [f"{value:,} {key}" for key, value in inspection.items() if isinstance(value, int)]
    if counts:
        console.print(Text(", ".join(counts), style="bold"), "")
    for key, title in TITLES.items():
        rows = inspection.get(key)
        if isinstance(rows, list):
            _print_rows(console, title, rows)
    if stages := inspection.get("stages"):
        rows = [{"stage": k, "time": format_seconds(v)} for k, v in stages.items()]
        _print_rows(console, "Time by stage", rows)


def write_page(inspection: dict[str, Any], path: Path, title: str) -> None:
    """The same as one HTML page at `path`; raises InvalidRequest where it cannot be written."""
    from toast.inspect.page import render_page

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_page(inspection, title), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be written: {error.strerror}.", "Give another file with --html."
        ) from error
    make_console(stderr=True).print(f"Written to {path}.", soft_wrap=True)


TITLES = {
    "colours": "Colours (named dimensions)",
    "conflicts": "Conflicts",
    "sets": "Compatibility sets",
    "groups": "Groups of repeated layers",
    "no_rule": "Ops without a rule",
}


def _print_rows(console: Console, title: str, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        console.print(f"{title}: none.\n")
        return
    table = Table(title=f"{title}: {len(rows):,}", title_justify="left", title_style="bold")
    table.box, table.pad_edge = None, False
    for column, value in rows[0].items():
        is_number = isinstance(value, int | float)
        table.add_column(column.replace("_", " "), justify="right" if is_number else "left")
    for row in rows[:MAX_ROWS]:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    console.print(table)
    if len(rows) > MAX_ROWS:
        console.print(f"... and {len(rows) - MAX_ROWS:,} more; --json prints all.")
    console.print()


def _cell(value: Any) -> str:
    """A value in at most about one line: long lists are cut and counted."""
    if isinstance(value, list):
        shown = ", ".join(str(item) for item in value[:3])
        return f"{shown}, ... ({len(value):,})" if len(value) > 3 else shown
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_devices(*, as_json: bool) -> None:
    """The catalogue of chips."""
    console = make_console()
    devices = list(catalogue().values())
    if as_json:
        records = [dataclasses.asdict(device) for device in devices]
        console.file.write(json.dumps(records, indent=2) + "\n")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "kind", "memory", "bandwidth", "bf16 peak", "networks", "description"):
        table.add_column(column)
    for device in devices:
        table.add_row(*_device_row(device))
    console.print(table)


def print_passes() -> None:
    """The passes of the registry."""
    table = Table(box=None, pad_edge=False)
    for column in ("pass", "what it models", "file"):
        table.add_column(column)
    for one in PASSES.values():
        table.add_row(one.name, one.models, one.file)
    make_console().print(table)


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
