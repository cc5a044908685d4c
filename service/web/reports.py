"""The page of a plan. A child process draws it, which would hold this interpreter for seconds."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from threading import BoundedSemaphore

from toast.process.runner import package_environment
from toast.service import problems
from toast.service.context import Context
from toast.service.ledger.records import Job

SECONDS = 60.0
"""A page takes a few, most of them to import the plotting library."""
_AT_ONCE = BoundedSemaphore(2)


def render_report(context: Context, job: Job, plan_sha256: str) -> bytes:
    """The page that `toast report` writes for the plan of a job."""
    with tempfile.TemporaryDirectory(prefix="toast-report-") as name:
        folder = Path(name) / job.id
        folder.mkdir()
        context.artifacts.place(plan_sha256, folder / "plan.json")
        command = [sys.executable, "-m", "toast", "report", str(folder), "--quiet"]
        with _AT_ONCE:
            try:
                subprocess.run(
                    command,
                    check=True,
                    capture_output=True,
                    stdin=subprocess.DEVNULL,
                    env=package_environment(),
                    timeout=SECONDS,
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                raise problems.Internal(
                    "The report could not be drawn.", "Fetch the plan and run `toast report` on it."
                ) from error
        return (folder / "report.html").read_bytes()
