"""The comparison of two modules as a table that a person can read."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_seconds
from toast.verify.verification import Difference, ScaledSize, Verdict, Verification

STYLES: dict[Verdict, str] = {"equal": "bold green", "differs": "bold red", "untold": "bold yellow"}
SIZES = 8
"""Sizes of a scaled-down program that are named, the largest first."""


def render_verification(verification: Verification, *, rows: int = 10) -> Group:
    """The worst `rows` results, what was scaled down, then the verdict."""
    differences = verification.ranked()
    table = Table(
        title=f"Numeric differences, the {min(rows, len(differences))} largest of "
        f"{len(differences)} results",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
    )
    for column in ("result", "shape", "dtype"):
        table.add_column(column)
    for column in ("largest", "scale", "relative", "allowed"):
        table.add_column(column, justify="right")
    table.add_column("")
    for row in differences[:rows]:
        table.add_row(
            Text(row.name or str(row.index)),
            " x ".join(map(str, row.shape)) or "scalar",
            row.dtype,
            f"{row.largest:.2e}",
            f"{row.scale:.2e}",
            f"{row.relative:.1e}",
            f"{row.tolerance:.1e}",
            _note(row),
        )
    scaled: list[Text] = []
    if verification.scaled:
        scaled = [Text(scaled_down(verification.scaled)), Text("")]
    return Group(table, "", *scaled, verdict(verification))


def scaled_down(sizes: list[ScaledSize]) -> str:
    """What became of the sizes, as a sentence."""
    changed = [size for size in sizes if size.old != size.new]
    named = ", ".join(f"{size.of} {size.old} -> {size.new}" for size in changed[:SIZES])
    more = f" and {len(changed) - SIZES} more" if len(changed) > SIZES else ""
    if not changed:
        return "Scaled down: no dimension can be made smaller."
    return f"Scaled down: {named}{more}."


def verdict(verification: Verification) -> Text:
    """One sentence: what is found, where it is worst, and how it was run."""
    worst = verification.worst
    if worst is None:
        return Text("The module has no results to compare.")
    took = format_seconds(sum(verification.seconds.values()))
    where = f"on {verification.devices} virtual devices, seed {verification.seed}, in {took}"
    if verification.wide:
        where += ", in 64-bit floats"
    found = verification.verdict
    count = sum(difference.verdict == found for difference in verification.differences)
    results, name = len(verification.differences), worst.name or worst.index
    by = f"{worst.largest:.2e} ({worst.relative:.1e} of its scale)"
    untold = sum(difference.verdict == "untold" for difference in verification.differences)
    apart = f" {untold} of {results} results say nothing of it." if untold else ""
    text = {
        "equal": f"Equal {where}: the largest difference is {by}, in {name}.{apart}",
        "differs": f"NOT EQUAL {where}: {count} of {results} results differ, most in {name} by "
        f"{by}, where rounding explains {worst.tolerance:.1e}.",
        "untold": f"Cannot be told {where}: {count} of {results} results say nothing, such as "
        f"{name}: {worst.why}.",
    }
    return Text(text[found], style=STYLES[found])


def _note(row: Difference) -> Text:
    words = {"equal": row.why, "differs": f"differs {row.why}", "untold": f"untold: {row.why}"}
    note = words[row.verdict]
    if not note and not row.finite:
        note = "not finite in both"
    return Text(note, style=STYLES[row.verdict].removeprefix("bold ") if note else "")
