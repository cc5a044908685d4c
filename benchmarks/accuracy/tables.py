"""The tables as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from benchmarks.accuracy.records import Record, compiled
from benchmarks.accuracy.running import hlo_name
from benchmarks.accuracy.statistics import (
    memory_error,
    needed_bytes,
    step_seconds,
    wire_bytes,
    wire_error,
)
from benchmarks.accuracy.summary import Fit, Ranks, by, memory, traffic, wire, worst
from toast.costmodel.hardware.devices import MARGIN

MISSES = 10


def report(records: list[Record], *, verbose: bool = False) -> str:
    """All tables over the cases that compiled, and the cases that failed."""
    good = compiled(records)
    if not good:
        return "No case has been compiled yet."
    parts = [by_target(good), by_model(good), rank_table(good), feasibility(good)]
    parts += [collectives(good), misses(good)]
    failed = [f"- {row['key']}: {row['error']}" for row in records if "error" in row]
    parts += ["\n".join(["Cases that no compiler finished:", "", *failed])] if failed else []
    parts += [cases(good)] if verbose else []
    return "\n\n".join(part for part in parts if part)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


_ERRORS = (
    *("cases", "memory median", "memory 9 in 10", "within 15 %"),
    *("with traffic", "wire median", "wire 9 in 10", "within 10 %"),
)


def by_target(records: list[Record]) -> str:
    """Errors of memory and traffic a target, and all together."""
    groups = by(records, "target")
    rows = [[target, *_errors(some)] for target, some in groups.items()]
    rows += [["all", *_errors(records)]] if len(groups) > 1 else []
    return table(("target", *_ERRORS), rows)


def by_model(records: list[Record]) -> str:
    """Errors of memory and traffic a target and model."""
    rows = [
        [target, model, *_errors(some)]
        for target, rows in by(records, "target").items()
        for model, some in by(rows, "model").items()
    ]
    return table(("target", "model", *_ERRORS), rows)


def _errors(records: list[Record]) -> list[str]:
    peak, moved = memory(records), wire(records)
    return [
        str(len(records)),
        *(_percent(share) for share in (peak.median, peak.ninth)),
        _percent(peak.near, 0),
        str(moved.cases),
        *(_percent(share) for share in (moved.median, moved.ninth)),
        _percent(moved.near, 0),
    ]


def rank_table(records: list[Record]) -> str:
    """Rank correlations of step times a target and model, where the compiler gives cycles."""
    rows = []
    for target, some in by(records, "target").items():
        for model, plans in by(some, "model").items():
            ranks = Ranks.of(plans)
            if not math.isnan(ranks.all):
                close = "" if math.isnan(ranks.close) else f"{ranks.close:.3f}"
                figures = [str(ranks.plans), f"{ranks.all:.3f}", str(ranks.close_plans), close]
                rows.append([target, model, *figures])
    header = ("target", "model", "plans", "Spearman", "plans within 30 %", "Spearman of these")
    return table(header, rows) if rows else ""


def feasibility(records: list[Record]) -> str:
    """What was called fitting and what fits, a target, then the wrong ones by name."""
    fits = {target: Fit.of(some) for target, some in by(records, "target").items()}
    rows = [[target, *(str(number) for number in _counts(fit))] for target, fit in fits.items()]
    header = (
        *("target", "cases", "refused", "of these called fitting"),
        *("accepted but called not fitting", f"predicted over {MARGIN:.0%} too low"),
    )
    parts = [table(header, rows)]
    names = (
        ("Refused, but called fitting", "false_fits"),
        ("Accepted, but called not fitting", "false_refusals"),
    )
    for title, field in names:
        keys = [f"- {key}" for fit in fits.values() for key in getattr(fit, field)]
        parts += ["\n".join([f"{title}:", "", *keys])] if keys else []
    return "\n\n".join(parts)


def _counts(fit: Fit) -> tuple[int, ...]:
    wrong = (len(cases) for cases in (fit.false_fits, fit.false_refusals, fit.low))
    return (fit.cases, fit.refused, *wrong)


def collectives(records: list[Record]) -> str:
    """Counts and bytes by kind of collective, a target."""
    rows = []
    for target, some in by(records, "target").items():
        for row in traffic(some):
            counts = [f"{n:,.0f}" for n in (row.predicted_count, row.compiled_count)]
            sizes = [f"{n / 1e6:,.1f}" for n in (row.predicted_bytes, row.compiled_bytes)]
            rows.append([target, row.kind, *counts, *sizes])
    header = ("target", "kind", "count predicted", "compiled", "MB predicted", "MB compiled")
    return table(header, rows)


def misses(records: list[Record], count: int = MISSES) -> str:
    """The cases with the largest errors by name."""
    held = worst(records, memory_error, count)
    moved = worst(records, wire_error, count)
    header = ("case", "predicted", "compiled", "error", "compiled text")
    memory_rows = [_memory_row(row) for row in held]
    wire_rows = [_wire_row(row) for row in moved]
    return "\n\n".join(
        [
            table(("memory, MiB: " + header[0], *header[1:]), memory_rows),
            table(("wire, MB: " + header[0], *header[1:]), wire_rows),
        ]
    )


def _memory_row(record: Record) -> list[str]:
    figures = (record["predicted"]["peak_bytes"], needed_bytes(record) or 0)
    shown = [f"{figure / 2**20:,.1f}" for figure in figures]
    return [record["key"], *shown, _signed(memory_error(record)), hlo_name(record["key"])]


def _wire_row(record: Record) -> list[str]:
    shown = [f"{figure / 1e6:,.2f}" for figure in wire_bytes(record) or ()]
    return [record["key"], *shown, _signed(wire_error(record)), hlo_name(record["key"])]


def cases(records: list[Record]) -> str:
    """One line a case."""
    header = (
        *("case", "memory MiB predicted", "compiled", "error"),
        *("wire MB predicted", "compiled", "error", "step ms predicted", "compiled"),
    )
    rows = []
    for record in records:
        times = step_seconds(record) or ()
        milliseconds = [f"{seconds * 1e3:.3f}" for seconds in times] or ["", ""]
        refused = " refused" * bool(record["compiled"]["refusal"])
        held, moved = _memory_row(record), _wire_row(record)
        moving = moved[1:4] if len(moved) == 5 else ["", "", ""]
        rows.append([record["key"] + refused, *held[1:4], *moving, *milliseconds])
    return table(header, rows)


def _percent(share: float, digits: int = 1) -> str:
    return "" if math.isnan(share) else f"{share * 100:.{digits}f} %"


def _signed(error: float | None) -> str:
    return "" if error is None else f"{error * 100:+.0f} %"
