"""Mixed traffic for a long time: memory and descriptors stay flat, and nothing is lost."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.service.harness import Server, fake_engine
from tests.service.traffic import MIB, OVER, Sample, Traffic

SECONDS = float(os.environ.get("TOAST_TRAFFIC_SECONDS", "3600"))
"""Of the long run; jobs are kept for a sixtieth of it, so that expiry has work all the time."""


def keeps_flat(tmp_path: Path, seconds: float) -> Traffic:
    """Traffic that a server bears: no failure, nothing lost, no more memory than in the middle.

    What it takes in the last quarter is held against the second one: caches are full by then. A
    leak of 100 bytes for each of some 100 requests a second is 18 MiB in half an hour.
    """
    engine = fake_engine(tmp_path / "engine")
    keep = seconds / 60
    with Server(
        tmp_path / "data", engine_command=engine, workers=2, keep_jobs=keep, keep_modules=keep
    ) as server:
        traffic = Traffic(server)
        samples = traffic.run(seconds, callers=8)
        ended(traffic)
    sys.stdout.write(f"{summary(traffic, samples)}\n")
    assert traffic.failures == []
    middle, last = quarter(samples, 1), quarter(samples, 3)
    assert of(last, "memory") - of(middle, "memory") < 16 * MIB
    assert of(last, "descriptors") - of(middle, "descriptors") <= 10
    assert of(last, "threads") - of(middle, "threads") <= 4
    return traffic


def ended(traffic: Traffic) -> None:
    """All jobs that were accepted end; one that expired or was deleted had ended."""
    end = time.monotonic() + 120
    waiting = list(traffic.accepted)
    while waiting and time.monotonic() < end:
        answers = {job: traffic.server.client.get(f"/v1/jobs/{job}") for job in waiting}
        waiting = [
            job
            for job, answer in answers.items()
            if answer.status_code == 200 and answer.json()["state"] not in OVER
        ]
        time.sleep(0.5)
    assert waiting == []


def quarter(samples: Sequence[Sample], number: int) -> Sequence[Sample]:
    size = len(samples) // 4
    return samples[number * size : (number + 1) * size]


def of(samples: Sequence[Sample], what: str) -> float:
    return statistics.median(getattr(sample, what) for sample in samples)


def summary(traffic: Traffic, samples: Sequence[Sample]) -> str:
    """Medians of the quarters, and what was answered."""
    lines = [
        f"{what}: " + ", ".join(f"{of(quarter(samples, n), what):,.0f}" for n in range(4))
        for what in ("memory", "descriptors", "threads")
    ]
    lines += [f"{count:8,} {what}" for what, count in sorted(traffic.statuses.items())]
    return "\n".join([*lines, f"{len(traffic.accepted):,} jobs accepted", *traffic.failures[:20]])


def test_a_little_traffic_does_no_harm(tmp_path: Path) -> None:
    traffic = keeps_flat(tmp_path, 8.0)
    assert traffic.accepted
    assert len(traffic.statuses) >= 8, "too few kinds of answers to tell anything"


@pytest.mark.nightly
@pytest.mark.timeout(2 * SECONDS + 600)
def test_memory_and_descriptors_are_flat_under_long_traffic(tmp_path: Path) -> None:
    keeps_flat(tmp_path, SECONDS)
