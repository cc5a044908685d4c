"""What was found as the lines by which a step of GitHub Actions marks the lines of a file."""

from __future__ import annotations

from pathlib import Path

from toast.ci.gate import CiReport
from toast.ci.sarif import relative

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def workflow_commands(report: CiReport, root: Path) -> list[str]:
    """A workflow command for each finding; paths are relative to `root`."""
    path = relative(report.budget.path, root)
    return [
        f"::{_COMMANDS[one.level]} file={_property(path)},line={one.line},"
        f"title={_property(f'toast ci: {one.rule}')}::{_data(f'{one.message} {one.hint}'.strip())}"
        for one in report.findings
    ]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
