"""The verdicts as a page and on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.accuracy.records import Record
from benchmarks.proof.cases import MESHES, Case, every_case

WORDS = {"equal": "equal", "differs": "**differs**", "untold": "cannot be told"}
SHOWN = 4
"""Sizes of a scaled-down program that are named, the largest first."""
PAGE = """\
# Proof

Made by `python -m benchmarks.proof all`: every planner's plan of every model at its published
sizes, for every mesh of eight devices. Each is compiled for eight virtual CPU devices and run, and
its results are compared with those of the unsharded program, as `toast verify DIR` does (see
[cli.md](cli.md)). Both programs are scaled down first: the same ops with dimensions only as large
as it takes for all that is sharded to divide as before. Depth is not cut.

- *equal*: no result differs by more than rounding does, which the unsharded program says itself by
  what it makes of inputs moved by one unit in the last place, and of its sums in another order.
- *differs*: some result differs by more than eight times that. It is a wrong program.
- *cannot be told*: the comparison came to no end, or most results are nothing but rounding.

A planner is given 200 rollouts, one thread and seed 0. Planners that find the same plan share a
verdict. The data are `benchmarks/proof/data/cases.jsonl`; a record holds a digest of the code that
planned and of the code that compared, and `run` does again what other code made. Where only the
planning code is other, and what it writes is the same program, the verdict stands.
"""


def write_page(records: Sequence[Record], docs: Path) -> Path:
    """Write docs/proof.md."""
    page = docs / "proof.md"
    sections = [PAGE, "## Verdicts\n", report(records), ""]
    sections += ["## By model\n", _models(records), ""]
    sections += ["## By mesh and planner\n", *_grid(records), ""]
    page.write_text("\n".join([*sections, *_others(records)]).rstrip() + "\n")
    return page


def report(records: Sequence[Record]) -> str:
    """What was found, in a few lines."""
    known = {record["key"]: record for record in records}
    missing = [case.key for case in every_case() if case.key not in known]
    counts = Counter(record["verdict"] for record in records)
    said = ", ".join(f"{counts[verdict]} {word}" for verdict, word in WORDS.items())
    lines = [f"{len(records)} cases: {said}; {len(missing)} not run."]
    programs = len({record["programs"] for record in records if record["programs"]})
    results = sum(record.get("results", 0) for record in records)
    told = sum(record.get("told", 0) for record in records)
    lines.append(
        f"They are {programs} different programs. {told:,} of {results:,} results were told equal "
        f"or different; the rest are nothing but rounding."
    )
    return "\n".join(lines)


def _models(records: Sequence[Record]) -> str:
    head = [
        "model",
        "cases",
        "programs",
        "equal",
        "largest deviation",
        "collectives",
        "scaled down",
    ]
    rows = [head, ["---"] * len(head)]
    for model, some in _by_model(records):
        compared = [record for record in some if record.get("worst")]
        rows.append(
            [
                model,
                str(len(some)),
                str(len({record["programs"] for record in some if record["programs"]})),
                str(sum(record["verdict"] == "equal" for record in some)),
                _deviation(compared),
                _collectives(compared),
                _sizes(compared[0]) if compared else "",
            ]
        )
    words = (
        "*Largest deviation* is the largest difference of any result relative to its largest "
        "element, beside what rounding explains, in the case that is nearest to differing."
    )
    return f"{words}\n\n{_table(rows)}"


def _by_model(records: Sequence[Record]) -> Iterator[tuple[str, list[Record]]]:
    models = dict.fromkeys(case.model for case in every_case())
    for model in models:
        some = [record for record in records if Case.of(record["key"]).model == model]
        if some:
            yield model, some


def _deviation(compared: Sequence[Record]) -> str:
    if not compared:
        return ""
    worst = max(compared, key=lambda record: float(record["worst"]["excess"]))["worst"]
    return f"{worst['relative']:.1e} of {worst['tolerance']:.1e}"


def _collectives(compared: Sequence[Record]) -> str:
    counts = [sum(record["collectives"].values()) for record in compared]
    return f"{min(counts)} to {max(counts)}" if counts else ""


def _sizes(record: Record) -> str:
    changed = [(old, new) for old, new, _ in record["sizes"] if old != new]
    return ", ".join(f"{old:,} to {new:,}" for old, new in changed[:SHOWN])


def _grid(records: Sequence[Record]) -> Iterator[str]:
    known = {record["key"]: record for record in records}
    planners = sorted({case.planner for case in every_case()})
    rows = [["model", "mesh", *planners], ["---"] * (2 + len(planners))]
    for model, _ in _by_model(records):
        for mesh in MESHES:
            keys = [Case(model=model, mesh=mesh, planner=planner).key for planner in planners]
            rows.append([model, mesh, *[_cell(known.get(key)) for key in keys]])
    yield "Collectives are those of the compiled program; each runs as often as its loop does.\n"
    yield _table(rows)


def _cell(record: Record | None) -> str:
    if record is None:
        return ""
    same = record.get("same_as")
    if same is not None:
        return f"{WORDS[record['verdict']]}, as {same.split()[-1]}"
    count = sum(record.get("collectives", {}).values())
    return f"{WORDS[record['verdict']]}, {count} collectives"


def _others(records: Sequence[Record]) -> Iterator[str]:
    found = [record for record in records if record["verdict"] != "equal"]
    if found:
        yield "## Not equal\n"
    for record in found:
        yield f"- {record['key']}: {WORDS[record['verdict']]}, {record['why']}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
