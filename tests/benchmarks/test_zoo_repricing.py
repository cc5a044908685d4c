"""States are priced again at the batch that they were compiled at."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from benchmarks.accuracy.cases import Bench
from benchmarks.accuracy.records import Record, append_record, read_records
from benchmarks.zoo.cases import AMPLE, V5E
from benchmarks.zoo.lowering import path_of
from benchmarks.zoo.prices import predict
from benchmarks.zoo.repricing import reprice
from benchmarks.zoo.sizing import module_at, resized
from examples import mlp
from examples.forms import serialize
from tests.benchmarks.accuracy_samples import GIB, record
from toast.analysis.errors import InvalidRequest

PROGRAM = "mlp/train-adam"
MESH = "data=8"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    path = path_of(PROGRAM, folder)
    path.parent.mkdir()
    step = mlp.make_step(mlp.Config(batch=64, inputs=256, hidden=512, outputs=128))
    path.write_bytes(lzma.compress(serialize(step, "bytecode")))
    return folder


def bench_of(modules: Path) -> Bench:
    module = lzma.decompress(path_of(PROGRAM, modules).read_bytes())
    return Bench.of(module, MESH, V5E, room=AMPLE)


def made(bench: Bench) -> Record:
    """A record of data parallelism, of which 12 GiB were laid out and all but none held."""
    state = [[one.group, one.axis, one.bits] for one in bench.state("data_parallel")]
    row = record(f"{PROGRAM} {MESH} data_parallel {V5E}", main=12 * GIB, state=state)
    row["compiled"]["memory"] |= {"argument": 0, "output": 0, "alias": 0}
    return json.loads(json.dumps(row)) | {"predicted": {}}


def test_prices_are_those_of_the_model_at_hand(modules: Path, tmp_path: Path) -> None:
    bench, path = bench_of(modules), tmp_path / "tuning-tpu-v5e-2x4.jsonl"
    append_record(path, made(bench))
    append_record(path, {"key": "x", "model": PROGRAM, "error": "late"})
    assert reprice(path, modules=modules, check=False) == (1, 0)
    fresh, failed = read_records(path)
    assert fresh["predicted"] == predict(bench, bench.state("data_parallel"))
    assert failed["error"] == "late"


def test_a_program_that_is_not_here_is_left_as_it_is(modules: Path, tmp_path: Path) -> None:
    path = tmp_path / "tuning-tpu-v5e-2x4.jsonl"
    append_record(path, made(bench_of(modules)) | {"model": "other/infer"})
    assert reprice(path, modules=modules) == (0, 1)
    assert read_records(path)[0]["predicted"] == {}


def test_a_case_of_another_module_is_stale(modules: Path, tmp_path: Path) -> None:
    path = tmp_path / "tuning-tpu-v5e-2x4.jsonl"
    append_record(path, made(bench_of(modules)))
    reprice(path, modules=modules, check=True)
    assert read_records(path)[0]["stale"]


def test_a_batch_of_twice_the_memory_is_twice_as_large(modules: Path, tmp_path: Path) -> None:
    bench = bench_of(modules)
    row = made(bench)
    module, about = resized(bench, row, 24 / 15.75)
    assert (about["own_batch"], about["batch"]) == (64, 128)
    larger = Bench.of(module, MESH, V5E, room=AMPLE)
    path = tmp_path / "tuning-tpu-v5e-2x4.jsonl"
    append_record(path, row | about)
    reprice(path, modules=modules)
    (fresh,) = read_records(path)
    assert fresh["predicted"] == predict(larger, larger.state("data_parallel"))
    assert module == module_at(bench.module, tuple(about["dimension"]), 128)


def test_there_is_no_batch_that_needs_less_than_what_is_held(modules: Path) -> None:
    bench = bench_of(modules)
    row = made(bench)
    row["compiled"]["memory"]["argument"] = 11 * GIB
    with pytest.raises(InvalidRequest, match="No other batch"):
        resized(bench, row, 0.5)


def test_what_is_laid_out_is_between_pressed_and_with_room(modules: Path) -> None:
    bench = bench_of(modules)
    found = predict(bench, bench.state("data_parallel"))
    assert 0 < found["pressed_bytes"] <= found["peak_bytes"] <= found["room_bytes"]
    assert found["fits"]


def test_fitting_is_about_the_chip_and_not_about_what_the_plan_was_made_for(modules: Path) -> None:
    large = Bench.of(module_at(bench_of(modules).module, (4, 0), 2**28), MESH, V5E, room=AMPLE)
    assert not predict(large, large.state("data_parallel"))["fits"]
