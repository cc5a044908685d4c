"""The page `docs/accuracy.md` with its plots; held-out models stand apart from the others."""

from __future__ import annotations

from pathlib import Path

from benchmarks.accuracy.plots import FIGURES, draw
from benchmarks.accuracy.records import Record, compiled, held_out, tuning
from benchmarks.accuracy.statistics import CLOSE, QUIET
from benchmarks.accuracy.summary import FEW
from benchmarks.accuracy.tables import (
    by_model,
    by_target,
    collectives,
    feasibility,
    misses,
    rank_table,
)
from toast.costmodel.hardware.devices import MARGIN

PAGE = f"""\
# How near the cost model is to the compiler

Made by `python -m benchmarks.accuracy all`, which installs the compilers into an environment of its
own, compiles what has not been compiled yet, prices every case with the cost model as it is, and
writes this page. No accelerator is needed: TPU programs are compiled by libtpu and GPU programs by
XLA's CUDA compiler, ahead of time, for eight devices.

A case is one model on one mesh under one plan for one target. Plans are good, bad and random: what
the tree search and the greedy planner find (`mcts`, `greedy`), data parallelism over all axes,
nothing sharded, random actions (`random-N`), and states that the cost model puts within {CLOSE:.0%}
of the best (`near-N`). The cases are in `benchmarks/accuracy/data`, one file for each target.

What the figures mean:

- **Memory** is what the compiled program needs on one device. On a TPU that is what the compiler
  lays out in main memory, arguments included; on a GPU it is arguments, temporaries and results
  with buffers of their own. Errors are (predicted - compiled) / compiled; medians and quantiles are
  of absolute values.
- **Wire** is what one device puts on its links in a step, by the ring formula. It is computed from
  the collectives of the compiled program, and loops count by their trips. Cases that move less than
  {QUIET // 1024} KiB on both sides are left out, as are those that the compiler refused.
- **Step time** is the compiler's estimate of cycles at the chip's clock, and its collectives by the
  formula that predictions use. The GPU compiler gives no cycles. Spearman's correlation is over the
  plans of one model on one target, at least {FEW}; beside it that over the most plans whose
  compiled times lie within {CLOSE:.0%} of one another.
- A plan is **called fitting** where the prediction leaves {MARGIN:.0%} of the usable memory free. A
  program that was *predicted over {MARGIN:.0%} too low* could be called fitting and be refused if
  the limit happened to lie between; few of the cases here are close to the limit of their chip.
"""
HELD_OUT = """\
## Held-out models

Models of Hugging Face and diffusers, at published widths and cut to a layer or two. Nobody looked
at them while tuning the cost model.
"""


def write_page(data: Path, docs: Path) -> list[Path]:
    """Write the page and its plots into `docs`; returns the files."""
    sections = [PAGE]
    written: list[Path] = []
    for title, records, prefix in (
        ("", tuning(data), "accuracy"),
        (HELD_OUT, held_out(data), "accuracy-heldout"),
    ):
        good = compiled(records)
        plots = draw(good, docs, prefix)
        written += plots
        sections.append(_section(title, good, records, [path.name for path in plots]))
    page = docs / "accuracy.md"
    page.write_text("\n".join(sections))
    return [page, *written]


def _section(title: str, good: list[Record], records: list[Record], plots: list[str]) -> str:
    level = "###" if title else "##"
    parts = [title.strip()] if title else []
    if not good:
        return "\n\n".join([*parts, "No case has been compiled yet.", ""])
    rows = (
        ("By target", by_target(good)),
        ("Plots", _pictures(plots)),
        ("By model", by_model(good)),
        ("Ranks of step times", rank_table(good)),
        ("What fits", feasibility(good)),
        ("Collectives by kind", collectives(good)),
        ("The largest misses", misses(good)),
        ("Cases that no compiler finished", _failed(records)),
    )
    parts += [f"{level} {name}\n\n{text}" for name, text in rows if text]
    return "\n\n".join(parts) + "\n"


def _pictures(names: list[str]) -> str:
    labels = {figure.name: figure.label for figure in FIGURES}
    lines = [f"![{labels[name.removesuffix('.svg').rpartition('-')[2]]}]({name})" for name in names]
    note = "Grey is within 15 % of what was compiled; axes are logarithmic."
    return "\n\n".join([note, *lines]) if lines else ""


def _failed(records: list[Record]) -> str:
    return "\n".join(f"- {row['key']}: {row['error']}" for row in records if "error" in row)
