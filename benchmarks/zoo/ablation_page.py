"""The page `docs/ablation.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.tables import table
from benchmarks.zoo.ablation import read_summary
from benchmarks.zoo.variations import AS_IS

Row = Mapping[str, Any]

PAGE = """\
# What each rule is worth

Made by `python -m benchmarks.zoo ablation`; with `--without NAME,...` for some. What was priced is
not priced again. Each line prices all cases without one behaviour of the compilers, as
`toast plan --without NAME` does, or with one constant at the value at which it says nothing: a
factor 1, a limit that is never reached. Figures are changes in points of a hundred. Of errors
(`room`, `pressed`, `time`) a rise (+) is what the rule saves, and a fall (-) what it costs. Of
verdicts, wire and rank a fall (-) is what it saves. What does not change is left out.

The figures of the zoo are of the cost model of commit 06924b15, made with `--own-batch`: on the
cases of [zoo.md](zoo.md) but for programs at batches chosen for the memory of a chip, which most
verdicts are of. Those of the models of [accuracy.md](accuracy.md) are of an earlier one, ab6f4f1a.
In the first table a rule *pays* where more figures get worse without it than better, by a fifth of
a point or more; *even* is what changes none so much, or as many for the worse as for the better;
*unseen* is what changes no price.

Made simpler by earlier figures: `space_to_batch.convolved_forms` and `.normalised_forms` are one
number, `forms`, and `scatter_expander.in_place_below` is no number any more: a row to each tile.
Since then seven numbers of single chips are gone, and no half's mean error rose: how long a v3
takes to launch anything was measured (`smallest_fusions`), so it needs no launches of its own;
its `fusion.element_cost` paid on nothing but its probe; `memory_space_assignment.buffer_bytes`
are what one number (`scoped_bytes`, and another for a v6e) leaves of a chip's memory, and
`reduce_scatter_creator.piece_bytes` are a share of that number.

Deleted by figures before these: `deferred_filter_gradients`, `fusion.product_start`,
`dot_tiling.waiting_cost`, `bf16_narrowing.rounding_rate`, `layout_assignment.turning_cost`, and
what `fusion.narrowing_cost` and `fusion.reducing_cost` were for one chip.
`spmd_partitioner.beside_collective` is one launch now.

Deleted by earlier ones: `memory_space_assignment.piece_share`,
`rematerialization.least_gap`, and the figures of `spmd_partitioner` for each kind of collective, in
place of which there is one. After them `dot_tiling.resident_share`, which took the place of a law
of its own, and `fusion.filling_cost`.

Deleted before those, as none of them paid on a held-out half: `select_and_scatter_expander`,
`fusion.max_sources`, `reduction_fusion.longest_row` and `.lanes`,
`dot_strength_reduction.wide_cost`, `convolution_tiling.undilated_tiles`,
`layout_assignment.copy_rate`, `.places_gathers`, `.placing_copies` and `.placing_rate`,
`memory_space_assignment.brief_positions`, `rematerialization.passes`; and
`dynamic_update_slice.passes_over_buffer`, which its probe contradicts.

One rule is called not to pay on the zoo's held-out half and stays. Without `dot_tiling.launch` the
recurrent nets of its probe are priced at 2.6 to 3.9 times their cycles. `all_reduce_combiner` is
even there; it says how many sums a program sends, as they are compiled.

Some change next to nothing on that half. `scatter_fusion`, `cse` and `constant_folding` change
prices of many programs, and are what the compilers do with the programs of their probes. What is
left of `dynamic_update_slice` is for caches that fit on the chip. `dot_tiling.least_rows` changes
means by less than a tenth of a point: it is for products of few rows in loops, and for gradients
behind strides, which its probe says are up to four times as long. No held-out program repeats what
`fusion.stores_repeated` is about, keys that queries share: its probe says that such attention of a
few queries takes 22 times as long as its products. `rematerialization.least_bytes` is the
compiler's own setting. `layout_assignment.copies_parts` and `fusion.walks_broadcasts` change few
programs there, and by little: their probes say what they are for.

`memory_space_assignment.table_bytes` is for small steps: of the 55 of [accuracy.md](accuracy.md)
that take less than 128 MiB of a TPU, memory was 7.5 % off in the mean with it, and 23.1 % without.
"""
ERRORS = {
    "room_mean": "room, mean",
    "room_median": "median",
    "room_ninth": "9 in 10",
    "pressed_mean": "pressed, mean",
    "pressed_median": "median",
    "pressed_ninth": "9 in 10",
    "time_mean": "time, mean",
    "time_median": "median",
    "time_ninth": "9 in 10",
}
SHARES = {"verdicts": "verdicts", "wire": "wire within 10 %", "rank": "rank"}
NOTHING = 0.002
"""A change of less is none."""


def write_ablation(folder: Path, docs: Path) -> Path:
    """Write the page by the figures that were kept."""
    page = docs / "ablation.md"
    page.write_text(ablation_text(read_summary(folder)))
    return page


def ablation_text(rows: Sequence[Row]) -> str:
    """The page: what each rule is worth on the held-out half, then a table for each corpus."""
    by: dict[str, dict[str, Row]] = {}
    for row in rows:
        by.setdefault(row["corpus"], {})[row["without"]] = row
    parts = [PAGE]
    if by:
        parts.append(f"## What pays\n\n{worth_table(by)}\n")
    parts += [f"## {name.capitalize()}\n\n{change_table(some)}\n" for name, some in by.items()]
    return "\n".join(parts)


def worth_table(by: Mapping[str, Mapping[str, Row]]) -> str:
    """The rules by what they are worth there, beside the other corpora."""
    columns = [name for name in by if any(row != AS_IS for row in by[name])]
    named: dict[str, list[str]] = {}
    names = dict.fromkeys(name for some in by.values() for name in some if name != AS_IS)
    for name in names:
        named[name] = [_worth(by[column], name) for column in columns]
    return table(("without", *columns), [[name, *words] for name, words in named.items()])


def _worth(rows: Mapping[str, Row], name: str) -> str:
    return worth(rows[AS_IS], rows[name]) if name in rows and AS_IS in rows else ""


def worth(plain: Row, without: Row) -> str:
    """Whether a rule pays: `pays`, `even`, `does not pay`, or `unseen`."""
    if not without["changed"]:
        return "unseen"
    score = sum(
        sign * _sign(without[name] - plain[name])
        for names, sign in ((ERRORS, 1), (SHARES, -1))
        for name in names
        if _is_known(plain, without, name)
    )
    return "pays" if score > 0 else "does not pay" if score < 0 else "even"


def _sign(change: float) -> int:
    return 0 if abs(change) < NOTHING else 1 if change > 0 else -1


def _is_known(plain: Row, without: Row, name: str) -> bool:
    """Figures of no case are no numbers."""
    return all(row[name] is not None and row[name] == row[name] for row in (plain, without))


def change_table(rows: Mapping[str, Row]) -> str:
    """The figures as they are, and how each changes without each rule."""
    plain, names = rows[AS_IS], {**ERRORS, **SHARES}
    head = [AS_IS, str(plain["cases"]), *(_percent(plain, name) for name in names)]
    lines = [
        [name, str(row["changed"]), *(_change(plain, row, figure) for figure in names)]
        for name, row in rows.items()
        if name != AS_IS
    ]
    return table(("without", "cases", *names.values()), [head, *lines])


def _percent(row: Row, name: str) -> str:
    return f"{100 * row[name]:.1f}" if _is_known(row, row, name) else ""


def _change(plain: Row, row: Row, name: str) -> str:
    if not _is_known(plain, row, name):
        return ""
    change = 100 * (row[name] - plain[name])
    return "" if abs(change) < 0.05 else f"{change:+.1f}"
