"""The benchmark of scaling: its cases, its stages, and the page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.records import append_record, read_records
from benchmarks.scaling import cases as every
from benchmarks.scaling import running
from benchmarks.scaling.__main__ import DATA, main
from benchmarks.scaling.cases import Case, cases
from benchmarks.scaling.compiling import PODS
from benchmarks.scaling.document import growth, write_page
from benchmarks.scaling.running import Clock
from benchmarks.scaling.stages import GROUPS, parts, total
from tests.modules import text
from toast.aot.target import Target
from toast.costmodel.network.mesh import Mesh
from toast.search.progress import Progress


def test_cases_are_different_and_reach_what_is_claimed() -> None:
    found = cases()
    assert len({case.key for case in found}) == len(found)
    layers = {case.layers for case in found if case.sweep == "layers"}
    assert (min(layers), max(layers)) == (18, 180)
    devices = {case.devices for case in found if case.sweep == "devices"}
    assert (min(devices), max(devices)) == (8, 4096)


def test_every_mesh_divides_the_batch_and_the_sequence() -> None:
    for case in cases():
        sizes = {axis.name: axis.size for axis in Mesh.parse(case.mesh).axes}
        assert case.seq % sizes.get("seq", 1) == 0
        assert case.batch % max(sizes.get("data", 1), sizes.get("batch", 1)) == 0


def test_pods_fill_their_topologies() -> None:
    assert [Mesh.parse(pod.mesh).devices for pod in PODS] == [256, 4096]
    assert all(Target.parse(pod.target).devices == Mesh.parse(pod.mesh).devices for pod in PODS)
    assert [pod.device for pod in PODS] == ["tpu-v5e", "tpu-v5p"]


def test_a_module_is_lowered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(sweep="layers", scan=True, layers=2)
    (tmp_path / f"{case.module}.mlirbc").write_bytes(b"kept")
    assert case.bytes(tmp_path) == b"kept"
    assert case.module == every.Case(sweep="devices", scan=True, layers=2, mesh="a=2").module


def test_a_case_is_timed_by_stage_and_not_timed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(sweep="layers", mesh="a=2,b=2", device="cpu")
    monkeypatch.setattr(running, "cases", lambda: [case])
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / f"{case.module}.mlirbc").write_bytes(text("mlp"))
    data = tmp_path / "stages.jsonl"

    def again(sweeps: list[str] | None = None) -> int:
        return running.run(data, modules, sweeps=sweeps, repeats=2, seconds=None)

    assert again(["devices"]) == 0
    assert again() == 1
    assert again() == 0
    (record,) = read_records(data)
    assert all(len(runs) == 2 for runs in record["seconds"].values())
    spent = parts(record)
    assert tuple(spent) == GROUPS
    assert 0 < sum(spent.values()) == total(record)
    assert len(record["wall"]) == 2
    assert record["devices"] == 4


def record(layers: int, seconds: dict[str, list[float]], sweep: str = "layers") -> dict[str, Any]:
    return {
        "key": f"{sweep} {layers}",
        "sweep": sweep,
        "form": "unrolled",
        "layers": layers,
        "seq": 2048,
        "mesh": "data=2,model=4",
        "devices": 8,
        "ops": 1000,
        "evaluations": 10,
        "step_seconds": 0.1,
        "peak_bytes": 2**30,
        "fits": True,
        "data_parallel": {"step_seconds": 0.2, "fits": False},
        "seconds": seconds,
    }


SECONDS = {"load": [1.0, 1.2], "search": [2.0, 3.0], "explain": [0.5], "describe": [0.7, 0.5]}


def test_parts_are_the_lowest_of_the_runs_and_the_rest_is_writing() -> None:
    spent = parts(record(18, {**SECONDS, "kernels": [9.0]}))
    assert spent == {"load": 1.0, "analyse": 0.0, "tables": 0.0, "search": 2.0, "write": 1.0}


def test_a_clock_counts_what_each_stage_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0, 3.0, 6.0])
    monkeypatch.setattr(time, "process_time", lambda: next(times))
    clock = Clock()
    for stage in ("load", "search", "search", "write"):
        clock.watch(Progress(stage=stage))
    assert clock.seconds == {"load": 2.0, "search": 3.0}


def test_the_page_says_how_much_the_work_after_loading_grows(tmp_path: Path) -> None:
    slower = {**SECONDS, "load": [9.0], "search": [5.0], "write": [1.0]}
    for layers, seconds in ((18, SECONDS), (180, slower)):
        append_record(tmp_path / "stages.jsonl", record(layers, seconds))
    append_record(tmp_path / "stages.jsonl", record(18, SECONDS, "devices"))
    pair = growth(read_records(tmp_path / "stages.jsonl"), "unrolled")
    assert pair is not None
    assert [one["layers"] for one in pair] == [18, 180]
    page, *plots = write_page(tmp_path, tmp_path / "docs")
    words = page.read_text()
    assert [plot.name in words for plot in plots] == [True, True]
    assert "grows by +133%" in words
    assert "the search itself by +150%" in words
    assert "200 ms, does not fit" in words


def test_the_page_says_between_what_longer_sequences_take(tmp_path: Path) -> None:
    slower = {**SECONDS, "search": [6.0]}
    rows = [("sequence", 2_048, SECONDS), ("sequence", 32_768, slower), ("both", 8_192, slower)]
    for sweep, tokens, seconds in rows:
        row = {**record(18, seconds, sweep), "seq": tokens, "key": f"{sweep} {tokens}"}
        append_record(tmp_path / "stages.jsonl", row)
    page, *plots = write_page(tmp_path, tmp_path / "docs")
    words = page.read_text()
    assert [plot.name for plot in plots] == ["scaling-sequence.svg", "scaling-both.svg"]
    assert "2,048 to 32,768 tokens on one mesh, unrolled layers: between 4 s and 8 s." in words
    assert "8,192 to 8,192 tokens on meshes that grow as they do, unrolled layers" in words


def test_the_committed_timings_make_a_page(tmp_path: Path) -> None:
    assert main(["write", "--docs", str(tmp_path)]) == 0
    kept = {record["key"] for record in read_records(DATA / "stages.jsonl")}
    assert kept <= {case.key for case in cases()}
    pods = read_records(DATA / "pods.jsonl")
    assert {pod["devices"] for pod in pods} == {256, 4096}
    assert all(pod["compiled"]["refused"] is None for pod in pods)
    assert "## Compiled for whole pods" in (tmp_path / "scaling.md").read_text()
