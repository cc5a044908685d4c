"""Plans on disk: bounded, whole, and never in the way."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import forms, mlp
from toast.pipeline.plan_module import make_plan
from toast.plans.result import PlanResult
from toast.request.settings import make_request
from toast.sharding import plan_cache
from toast.sharding.calls import take_apart
from toast.sharding.functions import describe_function
from toast.sharding.plan_cache import plan_key, plans_folder, read_plan, write_plan
from toast.sharding.tracing import trace

REQUEST = make_request(mesh="data=2", device="cpu", rollouts=10, threads=1)


@cache
def result() -> PlanResult:
    return make_plan(forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), "bytecode"), REQUEST)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return plans_folder()


def test_the_folder_is_the_user_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plans_folder() == tmp_path / "toast" / "plans"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert plans_folder() == Path("/home/somebody/.cache/toast/plans")


def test_a_plan_comes_back_as_it_was() -> None:
    assert read_plan("key") is None
    write_plan("key", result())
    assert read_plan("key") == result()


def test_many_may_write_and_read_at_once(folder: Path) -> None:
    def both(_: int) -> PlanResult | None:
        write_plan("key", result())
        return read_plan("key")

    with ThreadPoolExecutor(8) as pool:
        assert all(one == result() for one in pool.map(both, range(40)))
    assert [path.name for path in folder.iterdir()] == ["key.zip"]


def test_the_plans_not_used_for_longest_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MAX_ENTRIES", 3)
    for number in range(3):
        write_plan(f"key{number}", result())
        os.utime(folder / f"key{number}.zip", (number, number))
    assert read_plan("key0") is not None
    write_plan("key3", result())
    assert {path.stem for path in folder.iterdir()} == {"key0", "key2", "key3"}
    monkeypatch.setattr(plan_cache, "MAX_BYTES", 1)
    write_plan("key4", result())
    assert {path.stem for path in folder.iterdir()} == {"key4"}


def test_where_nothing_can_be_written_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    write_plan("key", result())
    assert read_plan("key") is None


def test_values_that_a_function_closes_over_make_another_key() -> None:
    def key(values: Any) -> bytes:
        function = describe_function(lambda x: x + values)
        return trace(take_apart(function, (values,), {}), None, "cpu").identity()

    one = np.arange(100_000, dtype=np.float32).reshape(1000, 100)
    other = one.copy()
    other[500, 50] = -1.0
    assert key(one) == key(one.copy())
    assert key(one) != key(other), "in the midst of a large array too"


def test_a_device_file_that_changes_makes_another_key(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    source = Path(plan_cache.__file__).parents[1] / "costmodel" / "hardware" / "chips" / "cpu.toml"
    path.write_text(source.read_text())
    request = make_request(mesh="data=2", device=str(path))
    before = plan_key(b"program", request)
    assert plan_key(b"program", request) == before
    assert plan_key(b"other program", request) != before
    path.write_text(path.read_text().replace("bandwidth = 2e10", "bandwidth = 3e10"))
    assert plan_key(b"program", request) != before
