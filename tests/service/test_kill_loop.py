"""None lost, none failed, each result accepted once, whoever is killed meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.kill_loop import KillLoop


def test_a_few_kills_lose_nothing(tmp_path: Path) -> None:
    figures = KillLoop(tmp_path, jobs=20, kills=8, stalls=1, seconds=0.3, servers=0.25).run()
    assert figures["jobs"] == 20


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_hundred_kills_and_fifty_stalls_lose_nothing_on_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    check(KillLoop(tmp_path, jobs=300, kills=100, stalls=50, database=postgres_url).run())


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_hundred_kills_and_fifty_stalls_lose_nothing(tmp_path: Path) -> None:
    check(KillLoop(tmp_path, jobs=300, kills=100, stalls=50).run())


def check(figures: dict[str, Any]) -> None:
    assert figures["jobs"] == 300
    assert figures["servers_killed"] + figures["workers_killed"] == 100
    assert figures["servers_stalled"] + figures["workers_stalled"] == 50
