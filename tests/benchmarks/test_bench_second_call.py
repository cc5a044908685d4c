"""The measurement of a first call whose plan is on disk."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench_second_call import SCRIPTS, seconds


def test_the_first_call_is_timed_and_its_plan_kept(tmp_path: Path) -> None:
    found = seconds(SCRIPTS / "jax_step.py", str(tmp_path))
    assert found is not None
    assert 0 < found[1] < found[0], "a plan is made in another process"
    assert len(list(tmp_path.glob("toast/plans/*.zip"))) == 1
