"""The page `docs/scaling.md` with its plots, and what it says in short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.accuracy.records import Record, read_records
from benchmarks.scaling.plots import draw
from benchmarks.scaling.stages import GROUPS, parts, total
from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.costmodel.network.mesh import Mesh

FORMS = ("unrolled", "scanned")
ALLOWED = 1 / 3
"""How much more time the work after loading may take at the deepest than at the shallowest."""
PAGE = """\
# How planning grows

Made by `python -m benchmarks.scaling all`: the seconds from StableHLO bytes to plan of a training
step of T2B (Gemma-1 2B of `examples/models`, with Adam), with unrolled and with scanned layers, by
one search thread and seed 0. Seconds are processor time, which does not count
waiting. On a quiet machine that is the time of the clock, and more threads take less. On a busy
one, where others use the caches too, it is up to twice as much. Each figure is the lowest of a
case's runs; the data are `benchmarks/scaling/data/stages.jsonl`.

*load* is parsing, normalising, sharding rules and the walk; *analyse* names, colours, conflicts and
groups; *tables* the evaluator's arrays; *search* all planners' work; *write* the sharded module,
the explanation and the record of the plan.
"""
PODS = """\
## Compiled for whole pods

`python -m benchmarks.scaling compile`: two layers of Gemma-2B, planned for a whole topology and
compiled for it by the TPU's own compiler (`toast verify DIR --compile TARGET` shows the same for
any plan).
Collectives as count and bytes that one chip sends in a step.
"""
SWEEPS = {
    "layers": ("Layers", "On 2 x 4 TPU v5e, 32 sequences of 2,048 tokens."),
    "devices": ("Devices", "18 layers, 1,024 sequences of 2,048 tokens, on TPU v5p."),
    "sequence": ("Sequence length", "18 layers, 32 sequences, on 2 x 4 x 2 TPU v5p."),
    "both": (
        "Sequence length and devices together",
        "As in the paper's figure 10, a mesh batch x seq x model of TPU v5p, unrolled layers.",
    ),
}


def write_page(data: Path, docs: Path) -> list[Path]:
    """Write the page and its plots into `docs`; returns the files."""
    records = read_records(data / "stages.jsonl")
    docs.mkdir(parents=True, exist_ok=True)
    sections = [PAGE, "## In short\n", *_claims(records)]
    written = []
    for sweep, (title, words) in SWEEPS.items():
        some = [record for record in records if record["sweep"] == sweep]
        if not some:
            continue
        plot = draw(some, sweep, docs / f"scaling-{sweep}.svg")
        written.append(plot)
        sections += [f"## {title}\n", f"{words}\n", f"![{title}]({plot.name})\n", _table(some)]
    sections += [PODS, *map(_pod, read_records(data / "pods.jsonl"))]
    page = docs / "scaling.md"
    page.write_text("\n".join(sections))
    return [page, *written]


def _pod(record: Record) -> str:
    predicted, compiled = record["predicted"], record["compiled"]
    rows = [
        f"### {record['devices']:,} chips: {record['key']}, mesh {record['mesh']}\n",
        f"{record['batch']:,} sequences; planned in {format_seconds(record['plan_seconds'])}"
        + _compiled(record)
        + ".\n",
        "| | predicted | compiled | difference |",
        "| --- | --- | --- | --- |",
    ]
    for name, key, shown in (
        ("memory of a chip", "peak_bytes", format_bytes),
        ("computation", "compute_seconds", format_seconds),
    ):
        one, other = predicted[key], compiled[key]
        found = "unknown | " if not other else f"{shown(other)} | {one / other - 1:+.0%}"
        rows.append(f"| {name} | {shown(one)} | {found} |")
    sides = (predicted["collectives"], compiled["collectives"])
    kinds = sorted({*sides[0], *sides[1]}, key=lambda kind: -_sent(sides, kind))
    for kind in kinds:
        cells = [
            "" if kind not in side else f"{side[kind][0]:g}: {format_bytes(side[kind][1])}"
            for side in sides
        ]
        rows.append(f"| {kind} | {' | '.join(cells)} | |")
    wires = [sum(size for _, size in side.values()) for side in sides]
    cells = [format_bytes(wire) for wire in wires]
    rows.append(f"| on the wire | {' | '.join(cells)} | {wires[0] / wires[1] - 1:+.0%} |")
    return "\n".join(rows) + "\n"


def _compiled(record: Record) -> str:
    if record["compiled"]["refused"]:
        return f", refused: {record['compiled']['refused']}"
    spent = record["compile_seconds"]
    return "" if spent is None else f", compiled in {format_seconds(spent)}"


def _sent(sides: Sequence[dict[str, list[float]]], kind: str) -> float:
    return max(side[kind][1] for side in sides if kind in side)


def growth(records: Sequence[Record], form: str) -> tuple[Record, Record] | None:
    """The shallowest and the deepest case of a form, where there are two."""
    found = [r for r in records if r["sweep"] == "layers" and r["form"] == form]
    found.sort(key=lambda record: int(record["layers"]))
    return (found[0], found[-1]) if len(found) > 1 else None


def _claims(records: Sequence[Record]) -> list[str]:
    lines = [*_deeper(records), *_wider(records), *_longer(records)]
    return [line + "\n" * (line is lines[-1]) for line in lines]


def _deeper(records: Sequence[Record]) -> Iterator[str]:
    for form in FORMS:
        pair = growth(records, form)
        if pair is None:
            continue
        few, many = pair
        after = [total(record) - parts(record)["load"] for record in pair]
        search = [parts(record)["search"] for record in pair]
        yield (
            f"- From {few['layers']} to {many['layers']} {form} layers the work after loading "
            f"grows by {after[1] / after[0] - 1:+.0%} ({format_seconds(after[0])} to "
            f"{format_seconds(after[1])}; {ALLOWED:+.0%} is the aim), the search itself by "
            f"{search[1] / search[0] - 1:+.0%} ({format_seconds(search[0])} to "
            f"{format_seconds(search[1])})."
        )


def _wider(records: Sequence[Record]) -> Iterator[str]:
    for form in FORMS:
        rows = [r for r in records if r["sweep"] == "devices" and r["form"] == form]
        for axes in sorted({r["mesh"].count(",") + 1 for r in rows}):
            some = [r for r in rows if r["mesh"].count(",") + 1 == axes]
            devices = [r["devices"] for r in some]
            yield (
                f"- {min(devices):,} to {max(devices):,} devices on {axes} axes, {form} layers: "
                f"{_between(some)}."
            )


def _longer(records: Sequence[Record]) -> Iterator[str]:
    for sweep, words in (("sequence", "on one mesh"), ("both", "on meshes that grow as they do")):
        for form in FORMS:
            some = [r for r in records if r["sweep"] == sweep and r["form"] == form]
            if some:
                tokens = [r["seq"] for r in some]
                yield (
                    f"- Sequences of {min(tokens):,} to {max(tokens):,} tokens {words}, {form} "
                    f"layers: {_between(some)}."
                )


def _between(records: Sequence[Record]) -> str:
    totals = [total(record) for record in records]
    return f"between {format_seconds(min(totals))} and {format_seconds(max(totals))}"


def _table(records: Sequence[Record]) -> str:
    head = ["layers", "form", "ops", "sequence", "mesh", *GROUPS, "total", "priced", "step"]
    head += ["peak", "fits", "data parallel"]
    rows = [head, ["---"] * len(head)]
    for record in sorted(records, key=_place):
        spent, baseline = parts(record), record["data_parallel"]
        rows.append(
            [
                str(record["layers"]),
                record["form"],
                f"{record['ops']:,}",
                f"{record['seq']:,}",
                " x ".join(str(axis.size) for axis in Mesh.parse(record["mesh"]).axes),
                *(f"{spent[name]:.2f}" for name in GROUPS),
                f"**{total(record):.2f}**",
                f"{record['evaluations']:,}",
                format_seconds(record["step_seconds"]),
                format_bytes(record["peak_bytes"]),
                "yes" if record["fits"] else "no",
                "" if baseline is None else _baseline(baseline),
            ]
        )
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        f"Seconds by stage; *priced* counts states, *step* and *peak* are predicted.\n\n{lines}\n"
    )


def _place(record: Record) -> tuple[str, int, int, int, int]:
    axes = record["mesh"].count(",")
    return record["form"], axes, record["layers"], record["devices"], record["seq"]


def _baseline(baseline: Record) -> str:
    words = format_seconds(baseline["step_seconds"])
    return words if baseline["fits"] else f"{words}, does not fit"
