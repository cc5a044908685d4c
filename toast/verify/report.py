"""The comparison of two modules as a table that a person can read."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from toast.costmodel.hardware.quantities import format_seconds
from toast.verify.verification import Difference, Verification


def render_verification(verification: Verification, *, rows: int = 10) -> Group:
    """The worst `rows` results, then the verdict."""
    differences = sorted(verification.differences, key=_excess, reverse=True)
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
    return Group(table, "", verdict(verification))


def verdict(verification: Verification) -> Text:
    """One sentence: equal or not, where it is worst, and how it was run."""
    worst = verification.worst
    if worst is None:
        return Text("The module has no results to compare.")
    took = format_seconds(sum(verification.seconds.values()))
    where = f"on {verification.devices} virtual devices, seed {verification.seed}, in {took}"
    if verification.ok:
        text = (
            f"Equal {where}: the largest difference is {worst.largest:.2e} "
            f"({worst.relative:.1e} of its scale), in {worst.name or worst.index}."
        )
        return Text(text, style="bold green")
    wrong = sum(not difference.ok for difference in verification.differences)
    text = (
        f"NOT EQUAL {where}: {wrong} of {len(verification.differences)} results differ, most in "
        f"{worst.name or worst.index} by {worst.largest:.2e} ({worst.relative:.1e} of its scale)."
    )
    return Text(text, style="bold red")


def _excess(row: Difference) -> tuple[bool, float, float]:
    return not row.ok, row.relative / max(row.tolerance, 1e-30), row.largest


def _note(row: Difference) -> Text:
    if row.mismatched:
        return Text(f"{row.mismatched} not finite in one alone", style="red")
    if not row.ok:
        return Text("differs", style="red")
    return Text("" if row.finite else "not finite in both", style="yellow")
