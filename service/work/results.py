"""What a worker left behind, before anybody reads it."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

from toast.process.outcome import EngineFailed, Outcome


def only_files(outcome: Outcome) -> Outcome:
    """The outcome; a failure where a result is a link, through which we would read our own files.

    A worker that a module took over can write what it likes into its directory, while we may read
    more than it may.
    """
    if not outcome.has_plan:
        return outcome
    results = [outcome.plan_path, outcome.module_path, outcome.directory / "summary.json"]
    if all(_is_file(path) for path in results if _is_there(path)):
        return outcome
    error = EngineFailed("The engine left something else than files.", "Look at the module.")
    return replace(outcome, status="failed", suffix=None, error=error, exit_code=0)


def _is_file(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()
