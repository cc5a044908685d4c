"""`toast report`: a plan that was written earlier, as one page."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from toast.analysis.errors import InvalidRequest
from toast.plans.report import make_console
from toast.verify.verification import read_plan


def write_report(path: Path, output: Path | None) -> Path:
    """The page of the plan at `path`, beside it unless `output` says where; the file's path."""
    plan = read_plan(path)
    folder = path if path.is_dir() else path.parent
    output = output or folder / "report.html"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        return plan.report(output, title=f"Sharding plan: {folder.resolve().name}")
    except OSError as error:
        raise InvalidRequest(
            f"{output} cannot be written: {error.strerror}.", "Give another file with -o."
        ) from error


def open_page(page: Path) -> None:
    """Open a page in the user's browser; say so where there is none."""
    if not webbrowser.open(page.resolve().as_uri()):
        make_console(stderr=True).print("No browser was found: open the page yourself.")
