"""The table, the page and the plot of `bench_analysis`."""

from __future__ import annotations

import math
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.analysis_child import MIB, Record

HEADER = (
    "module",
    "ops",
    "lower s",
    "load s",
    "analyse s",
    "kernel s",
    "ratio",
    "cold ratio",
    "peak MiB",
    "above imports",
)
FROM_OPS = 40_000
"""Growth is read off modules of at least so many ops, where nothing fixed is left to see."""
PAGE = """\
# How fast the analysis is

Made by
`python -m benchmarks.bench_analysis --full --models --calls --constants --repeats 2 --write`.

Each module is lowered with `jax.jit(...).lower()` in one fresh process and loaded and analysed in
another, neither with anything warm. Lowering is timed with tracing and without writing bytecode.
*Kernel* is what Numba takes to load the one compiled kernel, the same {kernel:.2f} s or so in any
process that meets a conflict; the engine pays it while it starts. *Ratio* is (load + analyse) over
lower, *cold ratio* has the kernel's loading added: below 1, the analysis takes less time than it
took to make the module. *Peak* is the most resident memory of the analysing process; *above
imports* leaves out the {base:,.0f} MiB that it takes once jax is imported, and includes some 50 MiB
of Numba's compiler.

Measured on {machine}, Python {python}, {runs}. The machine was shared: the load average
during the runs was {low:.1f} to {high:.1f}, so seconds scatter by tens of percent.

{gemma}
![Seconds and memory against ops](analysis-speed.svg)

{growth}
{models}{calls}{constants}"""
MODELS = """
## The models of `examples/models`

At their published sizes, layers unrolled and, where named so, scanned.

{table}"""
CALLS = """
## A program of many calls

`examples/block_sparse.py` writes {written:,} ops in functions that call each other; unfolded, they
are {ops:,}. A function's body is read once, and each call copies its arrays, so {seconds:.1f} s go
into load and analyse, and {above:,.0f} MiB above imports.

{table}"""
CONSTANTS = """
## A module with large constants

One constant of {size:,.0f} MiB of f32 in bytecode takes {load:.2f} s to load. Above imports, memory
peaks at {peak:,.0f} MiB, {copies:.1f} times the constant: the bytes of the file, the attribute that
MLIR keeps in its context, and a copy that MLIR's bytecode reader makes and frees while it parses;
it does so for any dense attribute, before the first op exists. Loaded and analysed, the process
holds {after:,.0f} MiB, {held:.1f} times the constant: the file's bytes and the attribute. Nothing
after the parser copies it; the numbers in a constant are never read.
"""


def table(rows: Sequence[Record]) -> Table:
    """For the terminal."""
    made = Table(*HEADER, title="Seconds and memory of the analysis")
    for row in rows:
        made.add_row(*_cells(row))
    return made


def write_report(folder: Path, rows: Sequence[Record], held: Record | None, repeats: int) -> None:
    """Write `analysis-speed.md` and `analysis-speed.svg` into `folder`."""
    gemma = [row for row in rows if row["name"].startswith("gemma")]
    calls = [row for row in rows if row["name"].startswith("block_sparse")]
    models = [row for row in rows if row not in gemma and row not in calls]
    loads = [row["load_average"] for row in rows]
    page = PAGE.format(
        base=min(row["base"] for row in rows) / MIB,
        kernel=statistics.median(row["kernel"] for row in rows if row["kernel"]),
        machine=f"{os.cpu_count()} cores, {platform.machine()}",
        python=platform.python_version(),
        runs="one run each" if repeats == 1 else f"the quickest of {repeats} runs",
        low=min(loads),
        high=max(loads),
        gemma=_markdown(gemma),
        growth=_growth(gemma),
        models=MODELS.format(table=_markdown(models)) if models else "",
        calls="".join(map(_unfolded, calls)),
        constants=_held(held) if held else "",
    )
    (folder / "analysis-speed.md").write_text(page)
    plot(gemma, folder / "analysis-speed.svg")


def growth(rows: Sequence[Record]) -> float:
    """The exponent k of seconds ~ ops^k over the larger modules: 1 is linear."""
    large = [row for row in rows if row["ops"] >= FROM_OPS]
    if len(large) < 2:
        return math.nan
    xs = [math.log(row["ops"]) for row in large]
    ys = [math.log(row["load"] + row["analyse"]) for row in large]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    across = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return across / sum((x - x_mean) ** 2 for x in xs)


def plot(rows: Sequence[Record], path: Path) -> None:
    """Seconds and memory against ops, as SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "analysis"
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    ops = [row["ops"] / 1000 for row in rows]
    left.plot(ops, [row["lower"] for row in rows], "o--", color="#888888", label="jax lowering")
    both = [row["load"] + row["analyse"] for row in rows]
    left.plot(ops, both, "o-", color="#1f6f8b", label="load and analyse")
    left.plot(ops, [row["analyse"] for row in rows], "o-", color="#e07a5f", label="analyse alone")
    left.set(xlabel="thousand ops", ylabel="seconds", title="Time")
    left.legend()
    above = [(row["peak"] - row["base"]) / MIB for row in rows]
    right.plot(ops, above, "o-", color="#1f6f8b")
    right.set(xlabel="thousand ops", ylabel="MiB", title="Peak memory above imports")
    for axes in (left, right):
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _cells(row: Record) -> tuple[str, ...]:
    warm = row["load"] + row["analyse"]
    return (
        _title(row["name"]),
        f"{row['ops']:,}",
        f"{row['lower']:.2f}",
        f"{row['load']:.2f}",
        f"{row['analyse']:.2f}",
        f"{row['kernel']:.2f}",
        f"{warm / row['lower']:.2f}",
        f"{(warm + row['kernel']) / row['lower']:.2f}",
        f"{row['peak'] / MIB:,.0f}",
        f"{(row['peak'] - row['base']) / MIB:,.0f}",
    )


def _title(name: str) -> str:
    model, _, rest = name.partition(":")
    return (
        f"{model}, {rest} layers"
        if model == "gemma"
        else name.replace(":paper", "").replace(":scan", ", scanned")
    )


def _markdown(rows: Sequence[Record]) -> str:
    lines = ["| " + " | ".join(HEADER) + " |", "| --- |" + " ---: |" * (len(HEADER) - 1)]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _growth(rows: Sequence[Record]) -> str:
    exponent = growth(rows)
    if math.isnan(exponent):
        return ""
    return (
        f"From {FROM_OPS:,} ops up, load and analyse together grow as ops to the power "
        f"{exponent:.2f} (1 is linear).\n"
    )


def _unfolded(row: Record) -> str:
    return CALLS.format(
        written=row["written_ops"],
        ops=row["ops"],
        seconds=row["load"] + row["analyse"],
        above=(row["peak"] - row["base"]) / MIB,
        table=_markdown([row]),
    )


def _held(held: Record) -> str:
    above, after = held["peak"] - held["base"], held["resident"] - held["base"]
    return CONSTANTS.format(
        size=held["bytes"] / MIB,
        load=held["load"],
        peak=above / MIB,
        copies=above / held["bytes"],
        after=after / MIB,
        held=after / held["bytes"],
    )
