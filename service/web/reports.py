"""Pages and comparisons of plans. A child process makes them, which would hold this interpreter.

Each takes seconds: requests take turns (`Context.drawing`).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from toast.analysis.errors import InvalidRequest
from toast.process.runner import package_environment
from toast.service import problems
from toast.service.context import Context
from toast.service.ledger.records import Job

SECONDS = 60.0
"""A page takes a few, most of them to import the plotting library."""
_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
_DIFFERENT, _REFUSED = 1, 2
"""Exit codes of `toast diff`."""


def render_report(context: Context, job: Job, plan_sha256: str) -> bytes:
    """The page that `toast report` writes for the plan of a job."""
    with tempfile.TemporaryDirectory(prefix="toast-report-") as name:
        folder = Path(name) / (_UNSAFE.sub("_", job.name)[:80].strip("._") or job.id)
        folder.mkdir()
        context.artifacts.place(plan_sha256, folder / "plan.json")
        done = _toast("report", str(folder), "--quiet")
        if done is None or done.returncode != 0:
            raise problems.Internal(
                "The report could not be drawn.", "Fetch the plan and run `toast report` on it."
            )
        return (folder / "report.html").read_bytes()


def compare_plans(context: Context, a_sha256: str, b_sha256: str) -> bytes:
    """The JSON that `toast diff` prints for two plans; raises InvalidRequest as it does."""
    with tempfile.TemporaryDirectory(prefix="toast-diff-") as name:
        files = [Path(name) / letter for letter in ("a.json", "b.json")]
        for sha256, file in zip((a_sha256, b_sha256), files, strict=True):
            context.artifacts.place(sha256, file)
        done = _toast("diff", *map(str, files), "--json")
    if done is not None and done.returncode in (0, _DIFFERENT):
        return done.stdout
    if done is not None and done.returncode == _REFUSED:
        said, _, hint = done.stderr.decode(errors="replace").strip().partition("\n")
        raise InvalidRequest(said.removeprefix("error: "), hint.strip() or "Choose other plans.")
    raise problems.Internal(
        "The plans could not be compared.", "Fetch both and run `toast diff` on them."
    )


def _toast(*arguments: str) -> subprocess.CompletedProcess[bytes] | None:
    """A command that ran to its end in a child, None where that took too long."""
    command = [sys.executable, "-P", "-m", "toast", *arguments]
    try:
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=package_environment(),
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
