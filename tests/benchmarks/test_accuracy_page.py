"""The page and its plots: files are made, show every case, and keep the held-out models apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.accuracy import __main__ as program
from benchmarks.accuracy.document import write_page
from benchmarks.accuracy.plots import draw
from benchmarks.accuracy.records import write_records
from tests.benchmarks.accuracy_samples import GIB, MIB, record, refusal

ROWS = [
    record("gat data=8 mcts tpu-v5e:2x4", peak=300 * MIB, main=280 * MIB),
    record("gat data=8 greedy tpu-v5e:2x4", peak=500 * MIB, main=700 * MIB),
    record("gpt data=8 mcts a100:8", peak=50 * MIB, main=60 * MIB, seconds=(0.1, 0.2)),
]


def points(svg: Path) -> int:
    """How many marks are drawn: those of the axes' ticks stand in groups of their own."""
    text = svg.read_text()
    lines = re.findall(r'<g id="line2d_\d+">(.*?)</g>\s*</g>', text, re.DOTALL)
    return sum(line.count("<use ") for line in lines if "clip-path" in line.split("<use")[0])


def test_plots_show_the_cases_that_have_their_figure(tmp_path: Path) -> None:
    refused = record("gat data=8 x tpu-v5e:2x4", refused=refusal(20 * GIB), peak=GIB)
    silent = record("gat data=8 y tpu-v5e:2x4", wire=(0.0, 0.0))
    made = draw([*ROWS, refused, silent], tmp_path, "x")
    assert [path.name for path in made] == ["x-memory.svg", "x-wire.svg", "x-time.svg"]
    assert [points(path) for path in made] == [5, 3, 4]
    text = made[0].read_text()
    assert "tpu-v5e:2x4" in text
    assert "predicted memory of a device, MiB" in text


def test_a_figure_that_no_case_has_is_no_file_and_the_same_cases_make_the_same_one(
    tmp_path: Path,
) -> None:
    refused = [record(refused=refusal(GIB))]
    (first,) = draw(refused, tmp_path / "one", "x")
    (second,) = draw(refused, tmp_path / "two", "x")
    assert first.name == "x-memory.svg"
    assert first.read_bytes() == second.read_bytes()
    assert draw([], tmp_path, "z") == []


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    write_records(folder / "tpu-v5e-2x4.jsonl", ROWS)
    apart = record("bert_cut data=8 mcts tpu-v5e:2x4", peak=2 * GIB, main=GIB)
    failed = {"key": "t5_cut data=8 mcts tpu-v5e:2x4", "error": "engine_crashed: boom"}
    write_records(folder / "heldout-tpu-v5e-2x4.jsonl", [apart, failed])
    return folder


def test_the_page_keeps_the_held_out_models_apart(data: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    assert program.main(["write", "--data", str(data), "--docs", str(docs)]) == 0
    page, plots = docs / "accuracy.md", list(docs.glob("*.svg"))
    ours, title, theirs = page.read_text().partition("## Held-out models")
    assert title
    assert "| tpu-v5e:2x4 | gat | 2 |" in ours
    assert "bert_cut" not in ours
    assert "| tpu-v5e:2x4 | bert_cut | 1 | 100.0 % |" in theirs
    assert "| gat |" not in theirs
    assert "- t5_cut data=8 mcts tpu-v5e:2x4: engine_crashed: boom" in theirs
    assert len(plots) == 6
    for path in plots:
        assert f"({path.name})" in (theirs if "heldout" in path.name else ours)


def test_a_page_of_nothing_says_so(tmp_path: Path) -> None:
    (page,) = write_page(tmp_path, tmp_path / "docs")
    assert page.read_text().count("No case has been compiled yet.") == 2
