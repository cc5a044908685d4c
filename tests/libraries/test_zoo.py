"""The zoo's models lower, here small, and their programs are planned and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.accuracy.cases import Bench
from benchmarks.accuracy.records import read_records
from benchmarks.zoo.architecture import Architecture
from benchmarks.zoo.cases import AMPLE, V5E
from benchmarks.zoo.environment import rerun
from benchmarks.zoo.families.rows import Row
from benchmarks.zoo.lowering import lower_all, module_of
from examples.libraries.common import of, tokens
from toast.analysis.load import load

# The libraries warn of their own deprecations.
pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]

TEXT = Row(
    adapter="linen",
    model="linen_text.ScannedDecoder",
    inputs={"ids": tokens(8, 16)},
    settings={"vocabulary": 64, "width": 32, "heads": 4, "hidden": 64, "layers": 3},
    depth={"layers": 5},
    checkpoints=True,
)
IMAGES = Row(
    adapter="equinox",
    model="equinox_models.Convolved",
    inputs={"image": of(8, 3, 16, 16)},
    settings={"widths": (32, 64), "classes": 8},
)
VARIANTS = ("train-adamw-dots_saveable", "train-lion-bf16", "infer", "decode", "train-sgd-deep")


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    for name in ("flax", "equinox", "optax"):
        pytest.importorskip(name)


def test_programs_are_lowered_once_and_planned(tmp_path: Path) -> None:
    modules, facts = tmp_path / "modules", tmp_path / "programs.jsonl"
    rows = [
        Architecture(name="text", library="flax", make=TEXT.make, variants=VARIANTS),
        Architecture(
            name="images", library="equinox", make=IMAGES.make, variants=("train-adafactor",)
        ),
    ]
    assert lower_all(rows, modules, facts) == (len(VARIANTS) + 1, 0)
    first = facts.read_text()
    assert lower_all(rows, modules, facts) == (0, 0)
    assert facts.read_text() == first
    found = {record["key"]: record for record in read_records(facts)}
    assert len({record["digest"] for record in found.values()}) == len(found)
    assert found["text/train-sgd-deep"]["argument_bytes"] > found["text/infer"]["argument_bytes"]
    for name in found:
        bench = Bench.of(module_of(name, modules), "data=2,model=4", V5E, room=AMPLE)
        written = load(bench.write(bench.state("data_parallel"))).program
        assert len(written.arguments) == len(bench.evaluator.analysis.program.arguments)


def test_what_a_model_has_not_is_a_reason(tmp_path: Path) -> None:
    row = Architecture(name="images", library="equinox", make=IMAGES.make, variants=("decode",))
    assert lower_all([row], tmp_path / "modules", tmp_path / "programs.jsonl") == (0, 1)
    (record,) = read_records(tmp_path / "programs.jsonl")
    assert "has no decode" in record["error"]


def test_a_module_is_the_same_when_it_is_lowered_again(tmp_path: Path) -> None:
    row = Architecture(name="text", library="flax", make=TEXT.make, variants=("train-adam",))
    digests = []
    for folder in ("one", "other"):
        lower_all([row], tmp_path / folder, tmp_path / f"{folder}.jsonl")
        digests += [record["digest"] for record in read_records(tmp_path / f"{folder}.jsonl")]
    assert digests[0] == digests[1]


def test_nothing_runs_elsewhere_that_can_run_here() -> None:
    assert rerun("report", ["report"]) is None
