"""The report of an explanation, at the widths of real terminals, and the command that prints it."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.toast.explained import step
from tests.toast.samples import make_plan, write_plan_directory
from toast.cli.app import app
from toast.explain.report import render_explanation
from toast.explain.timeline import Timeline
from toast.pipeline.plan_module import make_plan as plan_module
from toast.plans.explanation import Explanation, PeakMoment, Shortfall, TimelinePoint
from toast.plans.plan import Plan
from toast.plans.words import path
from toast.request.request import PlanRequest

HEIGHT = 5


@cache
def plan(memory: int = 2**40, overlap: float = 0.0) -> Plan:
    request = PlanRequest(
        mesh="data=2,model=4", device="cpu", rollouts=200, threads=1, memory=memory,
        overlap=overlap, forbid=("p/second=model",),
    )  # fmt: skip
    return plan_module(step(), request).plan


def text_of(plan: Plan, *, width: int = 120, rows: int = 10) -> str:
    console = Console(file=io.StringIO(), width=width)
    assert plan.explanation is not None
    console.print(render_explanation(plan, plan.explanation, rows))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_every_table_fits_the_terminal(width: int) -> None:
    text = text_of(plan(1000), width=width)
    assert max(map(len, text.splitlines())) <= width
    for title in (
        "Computation",
        "Communication",
        "By layer group",
        "Alive at the peak, per device",
        "Memory over the schedule",
        "What stands in the way:",
    ):
        assert title in " ".join(text.split())
    assert "\u2026" not in text, "nothing is cut off"


def test_rows_that_are_left_out_are_counted_and_summed() -> None:
    found = plan()
    assert found.explanation is not None
    text = text_of(found, rows=1)
    left = len(found.explanation.fusions) - 1 + found.explanation.other_fusions.rows
    assert f"{left} others" in text
    everything = text_of(found, rows=10_000)
    assert "others" not in everything


def test_a_plan_that_fits_has_nothing_in_the_way() -> None:
    found = plan()
    assert found.predicted.fits
    assert found.shortfall is None
    assert "stands in the way" not in text_of(found)


def test_what_stands_in_the_way_is_in_the_plan_and_in_the_report() -> None:
    found = plan(1000)
    assert found.shortfall is not None
    assert found.shortfall.over_bytes == found.predicted.peak_bytes - 1000
    text = " ".join(text_of(found).split())
    assert "forbidden" in text
    assert "the request forbids 'model'" in text


def test_a_tensor_that_is_split_over_everything_is_said_to_be() -> None:
    found = plan(1000)
    assert found.shortfall is not None
    blocked = found.shortfall.tensors[0].model_copy(update={"shards": 8})
    shortfall = found.shortfall.model_copy(update={"tensors": [blocked]})
    text = text_of(found.model_copy(update={"shortfall": shortfall}))
    assert "split 8 ways over every axis already" in text


def test_overlap_is_said_where_there_is_some() -> None:
    assert "hidden" not in text_of(plan())
    found = plan(overlap=0.5)
    cost = found.predicted
    parts = cost.compute_seconds + cost.communication_seconds
    assert cost.step_seconds == pytest.approx(parts - cost.overlapped_seconds)
    assert found.search.overlap == 0.5
    if cost.overlapped_seconds:
        assert "hidden" in text_of(found)


def test_the_penalty_is_recorded_and_steers() -> None:
    request = PlanRequest(
        mesh="data=2", device="cpu", rollouts=100, threads=1, memory=2**21, penalty=1e-3
    )
    assert plan_module(step(), request).plan.search.penalty == 1e-3
    assert plan().search.penalty == 10.0


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("state['params']['layers'][*]['gate']", "state/params/layers/*/gate"),
        ("p['w']", "p/w"),
        ("mlp/dot_general", "mlp/dot_general"),
        ("['x'][0]", "x/0"),
    ],
)
def test_paths_read_as_in_pins(name: str, short: str) -> None:
    assert path(name) == short


def timeline(
    *sizes: int, peak: int, memory: int = 8, width: int = 60, encoding: str = "utf-8"
) -> str:
    points = [TimelinePoint(position=10 * i, bytes=size) for i, size in enumerate(sizes)]
    moment = PeakMoment(
        op="add", location="", position=10 * peak, positions=10 * len(sizes), bytes=max(sizes)
    )
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=stream, width=width, legacy_windows=False)
    console.print(Timeline(points, moment, memory))
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode(encoding)


def test_the_mark_is_below_the_highest_bar() -> None:
    lines = timeline(1, 2, 40, 3, peak=2).splitlines()
    assert len(lines) == HEIGHT + 2
    assert lines[1].index("█") == lines[-1].index("^")
    assert "position 20" in lines[-1]


def test_a_mark_far_to_the_right_has_its_words_on_the_left() -> None:
    sizes = [1] * 49 + [9]
    last = timeline(*sizes, peak=49).splitlines()[-1]
    assert last.endswith("position 490 ^")


def test_many_points_share_bars() -> None:
    lines = timeline(*range(1, 201), peak=199, width=40).splitlines()
    assert max(map(len, lines)) <= 40


def test_a_terminal_without_unicode_gets_plain_characters() -> None:
    text = timeline(1, 9, peak=1, encoding="ascii")
    assert "#" in text
    assert text.isascii()


def explain(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["explain", *arguments])
    return done.exit_code, done.stdout, done.stderr


def written(tmp_path: Path, plan: Plan) -> Path:
    file = tmp_path / "plan.json"
    file.write_text(plan.to_json())
    return file


def test_explain_takes_a_directory_or_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, plan(1000))
    code, text, _ = explain(str(tmp_path))
    assert code == 0
    assert "What stands in the way" in " ".join(text.split())
    assert explain(str(file)) == (0, text, "")


def test_explain_as_json_is_what_the_plan_holds(tmp_path: Path) -> None:
    found = plan(1000)
    code, text, _ = explain(str(written(tmp_path, found)), "--json")
    assert code == 0
    parts = json.loads(text)
    assert Explanation.model_validate(parts["explanation"]) == found.explanation
    assert Shortfall.model_validate(parts["shortfall"]) == found.shortfall


def test_a_plan_without_an_explanation_is_refused(tmp_path: Path) -> None:
    write_plan_directory(tmp_path)
    assert make_plan().explanation is None
    code, _, error = explain(str(tmp_path))
    assert code == 2
    assert "holds no explanation" in " ".join(error.split())
    assert explain(str(tmp_path / "nowhere"))[0] == 2
