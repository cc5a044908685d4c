"""The page `docs/search-settings.md` with its plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.accuracy.records import read_records
from benchmarks.search_settings.plots import draw
from benchmarks.search_settings.problems import CASES, DEVICE
from benchmarks.search_settings.running import CHECKPOINTS
from benchmarks.search_settings.summary import NEAR, Experiment
from benchmarks.search_settings.variants import (
    ALONE_EVALUATIONS,
    ALONE_SEEDS,
    BASE,
    COMBINED,
    ONE_AT_A_TIME,
    VIRTUAL_LOSS,
    Variant,
    combined,
    one_formula,
    one_value,
)
from toast.search.problem import SearchSettings

KINDS = ("alone", "helped")
PAGE = f"""\
# The settings of the tree search

Made by `python -m benchmarks.search_settings all`; every run is a line of
`benchmarks/search_settings/data/runs.jsonl`. The settings are the fields of
`toast.search.problem.SearchSettings`.

Each value of a setting is tried in one base, on models of `examples/models` at the paper's sizes
with scanned layers, and modules of libraries, on {DEVICE} with its memory. *Regret* is the mean of
log(cost / best known cost), as a percentage; the best known cost of a problem is the lowest C(s) of
any run here. *Found* is the part of the runs that end within {NEAR:.0%} of it.

**Rounds alone** is the tree search without beams and local search (`helpers=False`), with
{ALONE_SEEDS} seeds, stopped at {ALONE_EVALUATIONS:,} priced states; a search that ends before that
keeps its cost. **Helped** is the planner as users run it, until it ends.

The base is in bold. The defaults are the best of the last table, which combines the winners.
"""


def write_page(data: Path, docs: Path) -> list[Path]:
    """Write the page and its plot into `docs`; returns the files."""
    runs = Experiment(read_records(data))
    docs.mkdir(parents=True, exist_ok=True)
    parts = [
        PAGE,
        "\n".join(_problems(runs)) + "\n",
        "## Selection formula, shaping of the reward, exploration\n",
        _formulas(runs),
        "## The other settings\n",
        *_others(runs),
        "## Winners together\n",
        _combined(runs),
        "## How fast the rounds get there\n",
        _curve(runs),
        "![Regret of the rounds alone by setting](search-settings.svg)\n",
    ]
    page = docs / "search-settings.md"
    page.write_text("\n".join(parts))
    return [page, draw(runs, docs / "search-settings.svg")]


def _problems(runs: Experiment) -> Iterable[str]:
    names = {False: "The rounds alone", True: "Helped"}
    for helpers, cases in runs.cases.items():
        ordered = [case.name for case in CASES if case.name in cases]
        yield f"- {names[helpers]}: {', '.join(ordered)}."


def _formulas(runs: Experiment) -> str:
    rows = []
    for alone, helped in zip(one_formula(_base(False)), one_formula(_base(True)), strict=True):
        settings = alone.settings
        name = f"`{settings.selection}` | `{settings.shaping}` | {settings.exploration:g}"
        rows.append(_row(name, runs, alone, helped))
    return _table("selection | shaping | exploration", rows)


def _others(runs: Experiment) -> Iterable[str]:
    for name, values in ONE_AT_A_TIME.items():
        yield _setting(runs, name, values, threads=1)
    yield _setting(runs, "virtual_loss", VIRTUAL_LOSS, threads=2)


def _combined(runs: Experiment) -> str:
    rows = []
    for changes, alone, helped in zip(
        COMBINED, combined(_base(False)), combined(_base(True)), strict=True
    ):
        name = ", ".join(f"`{name}` {value:g}" for name, value in changes.items()) or "the base"
        same = replace(helped.settings, seed=0) == SearchSettings()
        rows.append(_row(name + ": **the defaults**" * same, runs, alone, helped))
    return _table("changes of the base", rows)


def _setting(runs: Experiment, name: str, values: Sequence[float], threads: int) -> str:
    base = replace(_base(False), threads=threads)
    rows = [
        _row(f"{getattr(one.settings, name):g}", runs, one) for one in one_value(base, name, values)
    ]
    return _table(f"`{name}`" + " (two threads)" * (threads > 1), rows, KINDS[:1])


def _row(name: str, runs: Experiment, *variants: Variant) -> str:
    values = {**variants[0].values, "threads": 1, "helpers": True}
    if values == Variant(part="", settings=BASE).values:
        name = " | ".join(f"**{part}**" for part in name.split(" | "))
    cells = []
    for variant in variants:
        found = runs.regret(variant)
        if found is None:
            cells += ["", "", ""]
        else:
            cells += [f"{found.mean:.2%}", f"{found.found:.0%}", f"{found.evaluations:,.0f}"]
    return " | ".join([name, *cells])


def _table(first: str, rows: Sequence[str], kinds: Sequence[str] = KINDS) -> str:
    columns = " | ".join(f"{kind}: regret | found | states priced" for kind in kinds)
    head = f"{first} | {columns}"
    rule = " | ".join("---" for _ in head.split(" | "))
    return "\n".join(f"| {line} |" for line in (head, rule, *rows)) + "\n"


def _curve(runs: Experiment) -> str:
    default = Variant(part="", settings=replace(SearchSettings(), helpers=False))
    rows = []
    for point in CHECKPOINTS:
        found = runs.regret(default, at=point)
        if found is not None:
            rows.append(f"| {point:,} | {found.mean:.2%} | {found.found:.0%} |")
    return "\n".join(["| states priced | regret | found |", "| --- | --- | --- |", *rows]) + "\n"


def _base(helpers: bool) -> SearchSettings:
    return replace(BASE, helpers=helpers)
