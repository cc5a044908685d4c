"""Cases are compiled once, resumed, kept with their texts, and priced again without compiling."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy import running
from benchmarks.accuracy.cases import Bench
from benchmarks.accuracy.records import Record, read_records, write_records
from benchmarks.accuracy.repricing import reprice
from benchmarks.accuracy.running import hlo_name, run_cases
from benchmarks.accuracy.schedule import Case
from toast.analysis.errors import EngineCrashed, InvalidRequest, ToastError
from toast.aot import Memory, Target, Verdict
from toast.costmodel.network.mesh import Mesh

PLANS = ("data_parallel", "random-0", "unsharded")


def cases(*plans: str, model: str = "gat_tiny") -> list[Case]:
    return [Case(model=model, mesh="data=8", plan=plan, target="a100:8") for plan in plans]


@dataclass
class Compiler:
    """Stands in for the compiler: says the same of every module and counts them."""

    compiled: list[bytes] = field(default_factory=list)
    error: ToastError | None = None

    def judge(self, module: bytes, target: Target, mesh: Mesh, **options: Any) -> Verdict:
        self.compiled.append(module)
        if self.error is not None:
            raise self.error
        keep: Path = options["keep_hlo"]
        keep.write_text("ENTRY main")
        memory = Memory(argument=1, output=2, temp=3, alias=0, peak=4)
        return Verdict(target=str(target), devices=mesh.devices, memory=memory)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    stand_in = Compiler()
    monkeypatch.setattr(running, "judge", stand_in.judge)
    return stand_in


def rows(folder: Path) -> list[Record]:
    return read_records(folder / "a100-8.jsonl")


def test_each_case_is_compiled_once_and_kept_with_its_text(
    compiler: Compiler, tmp_path: Path
) -> None:
    data, texts = tmp_path / "data", tmp_path / "hlo"
    assert run_cases(cases(*PLANS), data, hlo=texts) == 3
    assert [row["plan"] for row in rows(data)] == list(PLANS)
    assert all(row["compiled"]["memory"]["temp"] == 3 for row in rows(data))
    kept = texts / hlo_name(rows(data)[0]["key"])
    assert kept == texts / "a100:8" / "gat_tiny_data=8_data_parallel.hlo.gz"
    assert gzip.decompress(kept.read_bytes()) == b"ENTRY main"
    assert run_cases(cases(*PLANS), data) == 0
    assert len(compiler.compiled) == 3


def test_a_run_that_was_cut_off_goes_on_where_it_was(compiler: Compiler, tmp_path: Path) -> None:
    assert run_cases(cases(*PLANS), tmp_path, limit=2) == 2
    path = tmp_path / "a100-8.jsonl"
    path.write_text(path.read_text()[:-40])  # the second line is torn
    assert run_cases(cases(*PLANS), tmp_path) == 2
    assert [row["plan"] for row in rows(tmp_path)] == list(PLANS)
    assert len(compiler.compiled) == 4


def test_limits_of_cases_and_of_time_start_nothing(compiler: Compiler, tmp_path: Path) -> None:
    assert run_cases(cases(*PLANS), tmp_path, limit=0) == 0
    assert run_cases(cases(*PLANS), tmp_path, seconds=-1.0) == 0
    assert compiler.compiled == []
    assert list(tmp_path.iterdir()) == []


def test_the_same_module_is_compiled_once_and_named(compiler: Compiler, tmp_path: Path) -> None:
    same = [*cases("data_parallel"), *cases("data_parallel")]
    other = Case(model="gat_tiny", mesh="data=8", plan="near-0", target="a100:8")
    bench = Bench.make("gat_tiny", "data=8", "a100:8")
    first = running.run_case(same[0], bench, {}, None)
    bench.known["near-0"] = bench.state("data_parallel")
    modules = {("a100:8", first["module"]): first["key"]}
    again = running.run_case(other, bench, modules, None)
    assert again["same_as"] == first["key"]
    assert "compiled" not in again
    elsewhere = {("tpu-v3:2x2", first["module"]): "another target"}
    assert "compiled" in running.run_case(other, bench, elsewhere, None)
    assert len(compiler.compiled) == 2


def test_a_compiler_that_fails_is_a_record_that_is_not_tried_again(
    compiler: Compiler, tmp_path: Path
) -> None:
    compiler.error = EngineCrashed("a failed check")
    assert run_cases(cases("unsharded"), tmp_path) == 1
    assert rows(tmp_path)[0]["error"] == "engine_crashed: a failed check"
    assert run_cases(cases("unsharded"), tmp_path) == 0


def test_a_compiler_that_is_not_there_ends_the_run_and_is_no_record(
    compiler: Compiler, tmp_path: Path
) -> None:
    compiler.error = InvalidRequest("no compiler", "install it")
    with pytest.raises(InvalidRequest, match="no compiler"):
        run_cases(cases("unsharded"), tmp_path)
    assert not (tmp_path / "a100-8.jsonl").exists()


def test_stale_cases_are_compiled_again(compiler: Compiler, tmp_path: Path) -> None:
    run_cases(cases(*PLANS), tmp_path)
    changed = [row | {"stale": row["plan"] == "random-0"} for row in rows(tmp_path)]
    write_records(tmp_path / "a100-8.jsonl", changed)
    assert run_cases(cases(*PLANS), tmp_path) == 1
    assert not any(row.get("stale") for row in rows(tmp_path))


def test_the_text_of_the_last_few_models_is_analysed_once(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = Bench.make

    def counted(model: str, mesh: str, target: str) -> Bench:
        made.append(model)
        return make(model, mesh, target)

    monkeypatch.setattr(Bench, "make", counted)
    monkeypatch.setattr(running, "BENCHES", 1)
    wanted = ("gat_tiny unsharded", "gat_tiny random-0", "gpt_tiny unsharded", "gat_tiny random-1")
    pairs = (text.split() for text in wanted)
    run_cases([case for model, plan in pairs for case in cases(plan, model=model)], tmp_path)
    assert made == ["gat_tiny", "gpt_tiny", "gat_tiny"]


def test_repricing_finds_the_same_price_and_compiles_nothing(
    compiler: Compiler, tmp_path: Path
) -> None:
    run_cases(cases(*PLANS), tmp_path)
    before = rows(tmp_path)
    path = tmp_path / "a100-8.jsonl"
    spoiled = [row | {"predicted": {"peak_bytes": 1.0}} for row in before]
    write_records(path, spoiled)
    assert reprice(path) == (3, 0)
    assert [row["predicted"] for row in rows(tmp_path)] == [row["predicted"] for row in before]
    assert len(compiler.compiled) == 3


def test_what_would_be_written_differently_today_is_stale(
    compiler: Compiler, tmp_path: Path
) -> None:
    run_cases(cases(*PLANS), tmp_path)
    path = tmp_path / "a100-8.jsonl"
    changed = rows(tmp_path)
    changed[0] |= {"module": "another"}
    changed[1] |= {"state": [[10**6, 0, 0]]}
    write_records(path, changed)
    assert reprice(path) == (1, 2)
    assert [row["stale"] for row in rows(tmp_path)] == [True, True, False]


def test_prices_alone_ask_for_no_module(compiler: Compiler, tmp_path: Path) -> None:
    run_cases(cases("unsharded"), tmp_path)
    path = tmp_path / "a100-8.jsonl"
    write_records(path, [row | {"module": "another", "predicted": {}} for row in rows(tmp_path)])
    assert reprice(path, check=False) == (1, 0)
    (row,) = rows(tmp_path)
    assert row["predicted"]["peak_bytes"] > 0
    assert json.loads(path.read_text())["module"] == "another"
