"""The page `docs/distir.md`, and the figures of DistIR's evaluation that it repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.accuracy.statistics import spearman
from benchmarks.distir.plots import draw
from benchmarks.distir.running import Measured, Record
from toast.costmodel.hardware.quantities import format_seconds

TRIED = 10
"""How many of the ways that are simulated to be fastest DistIR executes."""
TEMPLATE = Path(__file__).with_name("page.md")


def write_page(data: Path, docs: Path) -> list[Path]:
    """Write the page and its plot into `docs`; returns the files."""
    from benchmarks.distir.running import read_records

    measured = list(read_records(data))
    docs.mkdir(parents=True, exist_ok=True)
    plot = draw([record for one in measured for record in one.records], docs / "distir.svg")
    page = TEMPLATE.read_text(encoding="utf-8")
    tables = {
        "CORRELATIONS": correlations(measured),
        "BEST": best_ways(measured),
        "MICROBATCHES": by_microbatches(measured),
        "LOADS": loads(measured),
    }
    for name, lines in tables.items():
        page = page.replace(f"[{name}]", "\n".join(lines))
    path = docs / "distir.md"
    path.write_text(page, encoding="utf-8")
    return [path, plot]


def correlations(measured: Sequence[Measured]) -> list[str]:
    """Rank correlations by program, and of each model over all its batches by throughput."""
    lines = [
        "| model | ways | rank correlation | executed / simulated, the middle | lowest | highest |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    rows: dict[str, list[Record]] = {}
    for one in measured:
        name = one.records[0].program
        rows[name] = list(one.records)
        rows.setdefault(f"{_model(name)}, all batches, by throughput", []).extend(one.records)
    for name, records in sorted(rows.items()):
        ratios = sorted(record.executed / record.simulated.seconds for record in records)
        figures = (ratios[len(ratios) // 2], ratios[0], ratios[-1])
        shown = " | ".join(f"{figure:.2f}" for figure in figures)
        lines.append(f"| {name} | {len(records)} | {rank_correlation(records):.3f} | {shown} |")
    return lines


def rank_correlation(records: Sequence[Record]) -> float:
    """Spearman's, between simulated and executed rows of the batch per second."""
    return spearman(
        [
            (_batch(record) / record.simulated.seconds, _batch(record) / record.executed)
            for record in records
        ]
    )


def best_ways(measured: Sequence[Measured]) -> list[str]:
    """DistIR's table 2: the best of the ways that are simulated to be fast, against pure ones."""
    lines = [
        "| model | simulated best | executed best | best of ten | vs D | vs T | vs P |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in measured:
        records = one.records
        simulated = sorted(records, key=lambda record: record.simulated.seconds)
        best = min(records, key=lambda record: record.executed)
        found = min(simulated[:TRIED], key=lambda record: record.executed)
        over = found.executed / best.executed - 1.0
        against = " | ".join(
            f"{min(map(_executed, pure)) / found.executed:.1f}x" if pure else "-"
            for pure in _pure(records)
        )
        lines.append(
            f"| {records[0].program} | {_told(simulated[0])} | {_told(best)} "
            f"| {found.way}, +{over:.0%} | {against} |"
        )
    return lines


def _pure(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The ways that are data, tensor, or pipeline parallel alone."""
    tests: tuple[Callable[[Record], int], ...] = (
        lambda record: record.way.data,
        lambda record: record.way.tensor,
        lambda record: record.way.stages,
    )
    for degree in tests:
        yield [record for record in records if degree(record) == record.way.devices]


def by_microbatches(measured: Sequence[Measured]) -> list[str]:
    """Seconds against the number of microbatches, for each program's pure pipeline."""
    counts = sorted({r.way.microbatches for one in measured for r in one.records} - {1})
    lines = [
        "| model, way | | " + " | ".join(f"K = {count}" for count in counts) + " |",
        "| --- | --- | " + " | ".join("---" for _ in counts) + " |",
    ]
    for one in measured:
        for stages, data in ((8, 1), (2, 4)):
            some = {
                record.way.microbatches: record
                for record in one.records
                if (record.way.stages, record.way.data) == (stages, data)
            }
            name = f"{one.records[0].program}, {data}/{8 // stages // data}/{stages}"
            for kind, seconds in (("simulated", _simulated), ("executed", _executed)):
                cells = (
                    format_seconds(seconds(some[count])) if count in some else "-"
                    for count in counts
                )
                lines.append(f"| {name} | {kind} | " + " | ".join(cells) + " |")
    return lines


def loads(measured: Sequence[Measured]) -> list[str]:
    """When each program was measured, and how busy the machine was in the end."""
    return [
        f"- {one.records[0].program}: {one.day}, load {' '.join(f'{v:.1f}' for v in one.load)}, "
        f"{len(one.records[0].runs)} rounds"
        for one in measured
    ]


def _model(program: str) -> str:
    return program.split(",", maxsplit=1)[0]


def _batch(record: Record) -> int:
    return int(record.program.rsplit(" ", maxsplit=1)[1])


def _told(record: Record) -> str:
    return f"{record.way}, {format_seconds(record.executed)}"


def _executed(record: Record) -> float:
    return record.executed


def _simulated(record: Record) -> float:
    return record.simulated.seconds
