"""Bands beside predictions: what the table says, and when a plan is tight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.costmodel.pressed import sorted_twice
from tests.toast.samples import MIB, cost, make_plan
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.cli.app import show_and_exit
from toast.cli.terminal import Answer
from toast.costmodel.bands.spreads import read_spreads
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.bands import Predictor
from toast.plans.costs import Band, PredictedCost, fit_verdict, tight_warnings
from toast.plans.plan import Plan
from toast.plans.report import as_text

TABLE = """
least_bytes = 67108864
[chips.tpu.all.room]
cases = 50
programs = 40
low = 0.5
high = 1.5
[chips.tpu.all.pressed]
cases = 20
programs = 20
low = 0.5
high = 2.0
[chips.tpu.all.step]
cases = 30
programs = 25
low = 0.9
high = 1.25
"""
MEMORY = 16 * MIB


def banded(low: int, high: int) -> dict[str, Any]:
    """A prediction of 15 MiB with a band."""
    bands = {
        "peak_bytes": {"low": low * MIB, "high": high * MIB},
        "step_seconds": {"low": 0.0018, "high": 0.0024},
    }
    band = Band(low=low * MIB, high=high * MIB)
    return {
        **cost(0.002, 15 * MIB),
        "bands": bands,
        "verdict": fit_verdict(15 * MIB, band, MEMORY),
    }


def planned(low: int, high: int, **changes: Any) -> Plan:
    sources = [
        {"figure": "room", "chips": "tpu-v5e", "kind": "train", "cases": 50, "programs": 40},
        {"figure": "step", "chips": "tpu", "kind": "all", "cases": 30, "programs": 25},
        {"figure": "pressed", "chips": "all", "kind": "all", "cases": 30, "programs": 25},
    ]
    return make_plan(predicted=banded(low, high), band_sources=sources, **changes)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(9, 16, "fits"), (14, 17, "tight"), (16, 18, "tight"), (17, 20, "does not fit")],
)
def test_a_plan_is_tight_where_its_band_holds_the_memory(low: int, high: int, verdict: str) -> None:
    assert planned(low, high).verdict == verdict


def test_without_a_band_the_figure_alone_decides() -> None:
    assert make_plan(predicted=cost(0.002, MIB)).verdict == "fits"
    assert make_plan(predicted=cost(0.002, 20 * MIB, fits=False)).verdict == "does not fit"


def test_the_table_has_the_bands_and_whose_they_are() -> None:
    text = " ".join(as_text(planned(12, 15)).split())
    assert "2 ms (1.8 to 2.4)" in text
    assert "15.00 MiB (12 to 15)" in text
    assert "the peak by 40 steps of training" in text
    assert "the step by 25 programs of all kinds for tpu" in text
    assert "pressed" not in text


def test_tight_is_its_own_word() -> None:
    text = " ".join(as_text(planned(12, 18)).split())
    assert "TIGHT, 15.00 MiB (12 to 18) of 16.00 MiB per device" in text
    assert " tight " in text


def _exit_code(plan: Plan, folder: Path) -> int:
    try:
        show_and_exit(plan, folder, Answer(quiet=True))
    except typer.Exit as done:
        return done.exit_code
    return 0


def test_what_is_tight_exits_with_0_and_what_does_not_fit_with_3(tmp_path: Path) -> None:
    assert _exit_code(planned(12, 18), tmp_path) == 0
    assert _exit_code(planned(17, 18), tmp_path) == 3


def test_a_warning_says_what_is_tight() -> None:
    tight = PredictedCost.model_validate(banded(12, 18))
    (text,) = tight_warnings(tight, MEMORY)
    assert "12.00 MiB to 18.00 MiB" in text
    assert tight_warnings(PredictedCost.model_validate(banded(12, 15)), MEMORY) == []


def test_the_compiler_s_word_ends_what_is_tight() -> None:
    confirmed = {
        "target": "tpu-v5e:2x4",
        "compiler": "libtpu",
        "memory_bytes": MEMORY,
        "time": "sum",
        "fits": True,
        "plans": [],
        "seconds": 1.0,
    }
    assert planned(12, 18, confirmed=confirmed).verdict == "fits"
    assert planned(12, 18, confirmed={**confirmed, "fits": False}).verdict == "does not fit"


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    """Of a program that keeps what can be computed again, on one chip."""
    program = analyse(load(sorted_twice()).program)
    return Evaluator(program, Mesh.parse("x=2"), find("tpu-v5p"))


def predicted(evaluator: Evaluator, memory: int) -> PredictedCost:
    return Predictor(evaluator, memory, read_spreads(TABLE)).predicted(())


def test_each_figure_has_its_band(evaluator: Evaluator) -> None:
    found = predicted(evaluator, 2**36)
    assert found.bands is not None
    assert found.room_bytes is not None
    assert found.pressed_bytes is not None
    assert found.pressed_bytes < found.peak_bytes <= found.room_bytes  # with holes
    assert found.bands.room_bytes == Band(low=found.room_bytes * 0.5, high=found.room_bytes * 1.5)
    assert found.bands.pressed_bytes is not None
    assert found.bands.pressed_bytes.high == found.pressed_bytes * 2.0
    assert found.bands.step_seconds is not None
    assert found.bands.step_seconds.low == pytest.approx(found.step_seconds * 0.9)
    assert found.bands.compute_seconds is None


def test_what_may_be_pressed_into_the_chip_is_not_predicted_above_it(evaluator: Evaluator) -> None:
    """The upper end is what the compiler lays out if both figures are at their upper ends."""
    predictor = Predictor(evaluator, 2**36, read_spreads(TABLE))
    chip = evaluator.laid_out(float("inf"), 0.0)
    assert evaluator.laid_out(chip * 1.4, chip * 0.8) == chip
    assert evaluator.laid_out(chip * 1.4, chip * 1.1) == chip * 1.1
    assert evaluator.laid_out(chip * 0.7, chip * 0.6) == chip * 0.7
    assert predictor.predicted(()).verdict == "fits"


def test_the_verdict_is_by_the_band_of_the_peak(evaluator: Evaluator) -> None:
    peak = predicted(evaluator, 2**36).peak_bytes
    assert predicted(evaluator, int(peak * 1.6)).verdict == "fits"
    assert predicted(evaluator, int(peak * 1.1)).verdict == "tight"
    assert predicted(evaluator, int(peak * 0.9)).verdict == "tight"
    assert predicted(evaluator, int(peak * 0.4)).verdict == "does not fit"


def test_plan_json_has_bands_and_older_plans_have_none() -> None:
    data = json.loads(planned(12, 18).to_json())
    assert data["predicted"]["bands"]["peak_bytes"] == {"low": 12 * MIB, "high": 18 * MIB}
    assert data["predicted"]["verdict"] == "tight"
    for key in ("bands", "verdict", "pressed_bytes"):
        del data["predicted"][key]
    older = Plan.from_json(json.dumps(data))
    assert older.verdict == "fits"
