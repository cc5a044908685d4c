"""The tables: errors of memory and traffic, and how well times are ranked, per model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from benchmarks.accuracy.statistics import (
    memory_error,
    quantile,
    spearman,
    step_seconds,
    wire_bytes,
    wire_error,
    within,
)
from toast.judge import Verdict

Record = dict[str, Any]


def report(records: list[Record], *, verbose: bool = False) -> str:
    """Markdown tables over all cases that compiled, per model and together."""
    good = [row for row in records if "compiled" in row and not row.get("stale")]
    if not good:
        return "No case has been compiled yet."
    parts = [_table(good), _feasibility(good), _collectives(good)]
    failed = [record for record in records if "error" in record]
    if failed:
        parts.append("\n".join(f"- {row['key']}: {row['error']}" for row in failed))
    if verbose:
        parts.append(_cases(good))
    return "\n\n".join(parts)


def _by_model(records: list[Record]) -> dict[str, list[Record]]:
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record["model"]].append(record)
    return found | {"all": records}


def _table(records: list[Record]) -> str:
    rows = [
        (
            "| model | cases | memory median | memory p90 | within 15 % | wire median | wire p90 "
            "| within 10 % | Spearman of time |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for model, some in _by_model(records).items():
        memory = _known(some, memory_error)
        wire = _known(some, wire_error)
        times = [pair for record in some if (pair := step_seconds(record)) is not None]
        rank = spearman([pair[0] for pair in times], [pair[1] for pair in times])
        figures = [
            f"{quantile(memory, 0.5):.1%}",
            f"{quantile(memory, 0.9):.1%}",
            f"{within(memory, 0.15):.0%}",
            f"{quantile(wire, 0.5):.1%}",
            f"{quantile(wire, 0.9):.1%}",
            f"{within(wire, 0.10):.0%}",
            "" if model == "all" else f"{rank:.3f}",
        ]
        rows.append(f"| {model} | {len(some)} | " + " | ".join(figures) + " |")
    return "\n".join(rows)


def _known(records: list[Record], of: Callable[[Record], float | None]) -> list[float]:
    return [value for record in records if (value := of(record)) is not None]


def _feasibility(records: list[Record]) -> str:
    wrong = [
        record["key"]
        for record in records
        if record["compiled"]["refusal"] and record["predicted"]["fits"]
    ]
    refused = sum(record["compiled"]["refusal"] is not None for record in records)
    text = f"{refused} of {len(records)} cases refused by the compiler, {len(wrong)} of them "
    return text + "predicted to fit" + "".join(f"\n- {key}" for key in wrong)


def _collectives(records: list[Record]) -> str:
    predicted: defaultdict[str, float] = defaultdict(float)
    compiled: defaultdict[str, float] = defaultdict(float)
    for record in records:
        for row in record["predicted"]["collectives"]:
            predicted[row["kind"]] += row["bytes"]
        for row in record["compiled"]["collectives"]:
            compiled[row["kind"]] += row["wire_bytes"]
    rows = ["| wire bytes, all cases | predicted MB | compiled MB |", "| --- | --- | --- |"]
    for kind in sorted(predicted | compiled):
        rows.append(f"| {kind} | {predicted[kind] / 1e6:,.1f} | {compiled[kind] / 1e6:,.1f} |")
    return "\n".join(rows)


def _cases(records: list[Record]) -> str:
    rows = [
        (
            "| case | memory MiB predicted | compiled | error | wire MB predicted | compiled "
            "| compute ms predicted | compiled | step ms predicted | compiled |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join(rows + [_case(record) for record in records])


def _case(record: Record) -> str:
    verdict = Verdict.from_dict(record["compiled"])
    error, wire, times = memory_error(record), wire_bytes(record), step_seconds(record)
    compute = verdict.compute_seconds
    needed = verdict.needed_bytes
    name = record["key"].rpartition(" ")[0]
    figures = [
        f"{record['predicted']['peak_bytes'] / 2**20:.1f}",
        "?" if needed is None else f"{needed / 2**20:.1f}" + (" refused" * bool(verdict.refusal)),
        "?" if error is None else f"{error:+.0%}",
        f"{wire[0] / 1e6:.2f}",
        f"{wire[1] / 1e6:.2f}",
        f"{record['predicted']['compute_seconds'] * 1e3:.3f}",
        "?" if compute is None else f"{compute * 1e3:.3f}",
        "?" if times is None else f"{times[0] * 1e3:.3f}",
        "?" if times is None else f"{times[1] * 1e3:.3f}",
    ]
    return f"| {name} | " + " | ".join(figures) + " |"
