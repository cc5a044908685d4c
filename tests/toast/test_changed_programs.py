"""Whatever a program looks like, it gets a plan or the caller's own error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

PLANNED, TOO_FEW = "planned", 0.1
"""Of the changed programs this part at least is to be planned, or the changes say little."""


@pytest.mark.parametrize(
    "count", [25, pytest.param(3000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])]
)
def test_changed_programs_get_a_plan_or_the_callers_error(count: int) -> None:
    first, found = 0, list[tuple[int, str, str]]()
    while first < count:
        command = [sys.executable, "-m", "tests.toast.changed_programs", str(first), str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode <= 0, done.stderr  # below: XLA or MLIR aborted
        found += [json.loads(line) for line in done.stdout.splitlines()]
        first = (found[-1][0] if found else -1) + 1 + (done.returncode < 0)
    assert not [each for each in found if each[2].startswith("Traceback")]
    assert Counter(code for *_, code in found)[PLANNED] > TOO_FEW * count
