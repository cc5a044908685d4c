"""The benchmark of threads, on a module of a few ops."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import bench_threads
from tests.modules import DATA, text
from toast.search.problem import Found


def test_modules_are_those_of_the_files() -> None:
    found = bench_threads.modules([DATA / "mlp.mlir", Path(DATA / "attention.mlir")])
    assert found == {"mlp": text("mlp"), "attention": text("attention")}


def test_cells_are_mean_worst_and_medians() -> None:
    runs = [
        (Found.after((), cost, evaluations, "converged"), seconds)
        for cost, evaluations, seconds in ((0.5, 100, 3.0), (0.75, 2000, 1.0), (0.4, 1500, 2.0))
    ]
    assert bench_threads.cells(runs) == ["0.550000", "0.750000", "1,500", "2.00"]


def test_the_command_prints_a_row_for_each_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bench_threads", "--seeds", "1", "--threads", "3", str(DATA / "mlp.mlir")]
    monkeypatch.setattr("sys.argv", arguments)
    bench_threads.main()
    rows = [line.split("│")[1:3] for line in capsys.readouterr().out.splitlines() if "mlp" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [["mlp", "1"], ["mlp", "3"]]
