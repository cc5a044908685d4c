"""The command line as a user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from toast.process.runner import package_environment


def toast(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toast", *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=cwd,
        env=package_environment(),
    )


def assert_refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Exit code 2, one sentence that says what, one that says what to do, no traceback."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines[0].startswith("error: "), done.stderr
    assert len(lines) == 2, done.stderr
    for part in parts:
        assert re.search(part, done.stderr), done.stderr
