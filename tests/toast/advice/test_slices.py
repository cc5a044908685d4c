"""Slices of chips: the fewest that fit, a table of them, and `toast size`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import toast as package
from examples import forms, mlp
from tests.toast.advice.misfits import SMALL, planned, step
from tests.toast.planned import request
from tests.toast.terminal import assert_refused, toast
from toast.analysis.errors import InvalidRequest, ToastError
from toast.costmodel.hardware.devices import find
from toast.pipeline.advice.size_module import size_module
from toast.pipeline.advice.slices import SliceSearch
from toast.pipeline.plan_module import make_plan
from toast.plans.advice import SliceTable
from toast.request.size_request import full_name, make_size_request
from toast.search.progress import Control, Progress

STEP = forms.serialize(mlp.make_step(mlp.PRESETS["small"]), "bytecode")


def search(memory: int) -> SliceSearch:
    job = planned().search
    asked = job.request.model_copy(update={"memory": memory})
    return SliceSearch(job.source, job.analysis, find("cpu"), asked)


def fits(devices: int, memory: int) -> bool:
    """Whether a longer search, over all meshes, finds a plan that fits."""
    asked = request(mesh=f"auto:{devices}", memory=memory, advice=False, rollouts=300)
    return make_plan(step(SMALL), asked).plan.predicted.fits


@pytest.mark.parametrize("start", [2, 8])
def test_the_fewest_chips_fit_and_half_as_many_do_not(start: int) -> None:
    memory = int(planned().peak * 0.7)
    rows = search(memory).fewest(start, Control())
    found = {row.devices: row.fits for row in rows}
    fewest = min(devices for devices, fit in found.items() if fit)
    assert found[fewest // 2] is False
    assert fits(fewest, memory)
    assert not fits(fewest // 2, memory)


def test_a_slice_is_priced_as_its_plan_is() -> None:
    (row,) = [one for one in search(10**9).fewest(4, Control()) if one.devices == 4]
    asked = request(mesh=row.mesh, memory=10**9, rollouts=200)
    assert row.step_seconds == make_plan(step(SMALL), asked).plan.predicted.step_seconds
    assert row.chip_seconds == pytest.approx(4 * row.step_seconds)


def test_one_chip_is_the_unsharded_step() -> None:
    found = search(10**9)
    row = found.best(1, Control())
    unsharded = planned().best.problem.evaluator.cost(())
    assert (row.step_seconds, row.peak_bytes) == (unsharded.seconds, unsharded.peak)
    assert row.fits


def test_what_can_never_fit_is_not_searched() -> None:
    row = search(1 << 20).best(2, Control())
    assert row.fits is False
    assert row.step_seconds is None
    assert "at least" in row.reason
    assert not fits(2, 1 << 20)


def test_more_chips_end_where_they_gain_nothing() -> None:
    rows = search(1 << 10).fewest(2, Control())
    assert not any(row.fits for row in rows)
    peaks = [row.peak_bytes for row in rows if row.peak_bytes is not None]
    assert peaks[-1] >= min(peaks[-3:-1])


def test_without_time_nobody_knows() -> None:
    row = search(10**9).best(2, Control(budget=0.0))
    assert (row.fits, row.step_seconds) == (None, None)
    assert "no time" in row.reason


def test_slices_are_sorted_and_progress_grows() -> None:
    seen: list[Progress] = []
    memory = int(planned().peak * 0.7)
    asked = make_size_request(devices=["cpu", "h100"], most=4, memory=memory, threads=1)
    rows = size_module(step(SMALL), asked, on_progress=seen.append).slices
    assert len(rows) == 6
    assert {row.device for row in rows} == {"cpu", "h100-80gb"}
    fitting = [row for row in rows if row.fits]
    assert rows[: len(fitting)] == fitting
    spent = [row.chip_seconds for row in fitting]
    assert spent == sorted(spent, key=lambda seconds: seconds or 0.0)
    assert 0 < len(fitting) < 6
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)


def test_a_cancel_keeps_what_is_known() -> None:
    asked = make_size_request(devices=["cpu"], most=4)
    rows = size_module(STEP, asked, cancelled=lambda: True).slices
    assert {row.devices: row.fits is None for row in rows} == {1: False, 2: True, 4: True}


def test_chips_may_be_named_in_short() -> None:
    assert full_name("h100") == "h100-80gb"
    assert full_name("tpu-v5e") == "tpu-v5e"
    for name, part in (("a100", "a100-40gb or a100-80gb"), ("z", "no chip"), ("", "no chip")):
        with pytest.raises(ToastError, match=part):
            full_name(name)


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"least": 5, "most": 7}, "no power of two"),
        ({"most": 0}, "most"),
        ({"budget": "soon"}, "duration"),
        ({"memory": 16}, "16 bytes"),
        ({"overlap": 2.0}, "overlap"),
        ({"devices": []}, "devices"),
    ],
)
def test_what_would_not_do(settings: dict[str, object], part: str) -> None:
    fields: dict[str, object] = {"devices": ["cpu"], **settings}
    with pytest.raises(InvalidRequest, match=part):
        make_size_request(**fields)  # type: ignore[arg-type]


def test_from_the_command_line_and_from_python(tmp_path: Path) -> None:
    path = tmp_path / "step.mlirbc"
    path.write_bytes(STEP)
    flags = ("--devices", "cpu", "--max", "2", "--threads", "1")
    shown = toast("size", path, *flags)
    assert shown.returncode == 0, shown.stderr
    assert "chip-seconds" in shown.stdout
    assert "d0=2" in shown.stdout
    document = toast("size", path, *flags, "--json")
    table = SliceTable.model_validate(json.loads(document.stdout))
    called = package.size(path, devices=["cpu"], most=2, threads=1)
    assert called.slices == table.slices
    quiet = toast("size", path, *flags, "--quiet", "--memory", "1MiB")
    assert quiet.returncode in (0, 3)
    assert "chip-seconds" not in quiet.stdout


def test_a_step_that_fits_nowhere_ends_with_3(tmp_path: Path) -> None:
    path = tmp_path / "step.mlirbc"
    path.write_bytes(STEP)
    done = toast("size", path, "--devices", "cpu", "--max", "1", "--memory", "1KiB")
    assert done.returncode == 3
    assert "no" in done.stdout


def test_bad_input_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "poem.mlir"
    path.write_text("no module")
    assert_refused(toast("size", path, "--devices", "cpu"), "module")
    assert_refused(toast("size", path, "--devices", "abacus"), "abacus")
    with pytest.raises(TypeError, match="colour"):
        package.size(path, colour=1)
