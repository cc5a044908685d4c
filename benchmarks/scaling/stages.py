"""The stages of a run, gathered into a few groups."""

from __future__ import annotations

from benchmarks.accuracy.records import Record

GROUPS = ("load", "analyse", "tables", "search", "write")


def least(record: Record) -> dict[str, float]:
    """The lowest seconds of each stage over all runs of a case."""
    return {name: min(runs) for name, runs in record["seconds"].items()}


def parts(record: Record) -> dict[str, float]:
    """Seconds by group; what is in no stage of its own counts as writing."""
    spent = least(record)
    spent.pop("kernels", None)
    found = {name: spent.pop(name, 0.0) for name in GROUPS}
    found["write"] += sum(spent.values())
    return found


def total(record: Record) -> float:
    """Seconds from bytes to plan, the lowest of each stage."""
    return sum(parts(record).values())
