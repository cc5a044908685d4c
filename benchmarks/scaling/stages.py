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
    found = {name: spent.get(name, 0.0) for name in GROUPS}
    found["load"] = sum(value for name, value in spent.items() if name.startswith("load."))
    before = sum(found[name] for name in GROUPS[:-1])
    found["write"] = max(0.0, spent["total"] - before - spent.get("kernels", 0.0))
    return found
