"""Compiling goes on where it was stopped, and outlives processes that die."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.records import append_record
from benchmarks.zoo.cases import V5E, Case
from benchmarks.zoo.child import reserved_bytes
from benchmarks.zoo.compiling import compile_all, is_done, records_of
from benchmarks.zoo.sizing import size_for
from toast.analysis.errors import InvalidRequest
from toast.aot import Memory

GIB = 2**30


def case(plan: str, level: float = 0.0) -> Case:
    return Case(program="albert/infer", mesh="data=8", plan=plan, target=V5E, level=level)


@dataclass(frozen=True)
class Ended:
    returncode: int


def stand_in(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[str, bool], dict[str, Any] | None]
) -> list[list[str]]:
    """In place of the child: `make(key, memory_only)` is the record, and None a death."""
    started: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Ended:
        job = json.loads(command[-1])
        started.append(job["keys"])
        for key in job["keys"]:
            record = make(key, job["memory_only"])
            if record is None:
                return Ended(-6)
            append_record(Path(job["folder"]) / Case.parse(key).file, {"key": key, **record})
        return Ended(0)

    monkeypatch.setattr(subprocess, "run", run)
    return started


def compiled(_: str, memory_only: bool) -> dict[str, Any]:
    return {"compiled": {"memory_only": memory_only}}


def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = stand_in(monkeypatch, compiled)
    groups = [[case("mcts"), case("mcts", 0.1)], [case("data_parallel")]]
    folder = tmp_path / "not" / "there"
    assert compile_all(groups, folder, memory_only=True, limit=2) == 2
    assert compile_all(groups, folder, memory_only=True) == 1
    assert compile_all(groups, folder, memory_only=True) == 0
    assert [key for keys in started for key in keys] == [one.key for g in groups for one in g]


def test_what_was_compiled_for_memory_alone_is_compiled_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, compiled)
    groups = [[case("mcts")]]
    assert compile_all(groups, tmp_path, memory_only=True) == 1
    assert compile_all(groups, tmp_path, memory_only=False) == 1
    assert compile_all(groups, tmp_path, memory_only=False) == 0
    assert compile_all(groups, tmp_path, memory_only=True) == 0


def test_a_process_that_dies_is_the_error_of_the_case_that_it_was_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, lambda key, only: None if "random" in key else compiled(key, only))
    group = [case("mcts"), case("random-0"), case("near-0")]
    assert compile_all([group], tmp_path, memory_only=True) == 1
    assert "signal 6" in records_of(tmp_path)[group[1].key]["error"]
    assert group[2].key not in records_of(tmp_path)
    assert compile_all([group], tmp_path, memory_only=True) == 1


def test_without_a_compiler_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: Ended(3))
    with pytest.raises(InvalidRequest, match="no compiler for tpu-v5e"):
        compile_all([[case("mcts")]], tmp_path, memory_only=True)
    assert list(tmp_path.iterdir()) == []


def test_what_was_late_is_tried_again_with_more_time() -> None:
    late = {"key": "x", "error": "late", "seconds_each": 60.0}
    assert is_done(late, memory_only=True, seconds_each=60.0)
    assert not is_done(late, memory_only=True, seconds_each=120.0)


def test_nothing_is_started_when_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = stand_in(monkeypatch, compiled)
    assert compile_all([[case("mcts")]], tmp_path, memory_only=True, seconds=-1.0) == 0
    assert started == []


def test_the_rest_of_the_chip_is_taken() -> None:
    memory = Memory(argument=3 * GIB, output=GIB, temp=0, alias=GIB, main=5 * GIB)
    taken = reserved_bytes(memory, V5E, 0.5)
    assert taken is not None
    usable = int(15.75 * GIB)
    assert usable - taken == 3 * GIB + GIB


def test_few_temporaries_are_not_pressed() -> None:
    memory = Memory(argument=3 * GIB, output=0, temp=0, alias=0, main=3 * GIB + 1000)
    assert reserved_bytes(memory, V5E, 0.1) is None


@pytest.mark.parametrize(
    ("wanted", "size"), [(20 * GIB, 144), (11 * GIB, 72), (4 * GIB, 16), (2 * GIB, None)]
)
def test_a_batch_is_found_by_what_grows_with_it(wanted: float, size: int | None) -> None:
    """Of 10 GiB at a batch of 64, 2 GiB are there at any batch."""
    assert size_for(wanted, {0: 2 * GIB, 64: 10 * GIB}, 8) == size


def test_the_sizes_closest_to_what_is_wanted_say_how_it_grows() -> None:
    known = {0: GIB, 64: 2 * GIB, 128: 10 * GIB}
    assert size_for(14 * GIB, known, 8) == 160
    assert size_for(GIB * 1.5, known, 8) == 32
