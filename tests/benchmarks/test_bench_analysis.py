"""The benchmark of the analysis: what it measures, keeps and reports."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import analysis_child
from benchmarks.analysis_report import growth, table, write_report
from benchmarks.bench_analysis import ROOT, Records
from toast.analysis.load import load


def row(layers: int, ops: int, seconds: float, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": f"gemma:{layers}",
        "ops": ops,
        "lower": seconds * 2,
        "load": seconds * 0.75,
        "analyse": seconds * 0.25,
        "kernel": 0.3,
        "base": 200 << 20,
        "peak": 300 << 20,
        "load_average": 1.5,
    }
    return fields | changes


ROWS = [row(2, 1_000, 0.1), row(72, 50_000, 1.0), row(200, 100_000, 2.0)]


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_growth_is_the_power_of_the_larger_modules(power: float) -> None:
    rows = [row(i, 50_000 * i, (50_000 * i) ** power / 1e6) for i in (1, 2, 4)]
    assert growth([row(1, 10, 99.0), *rows]) == pytest.approx(power)


def test_growth_of_one_module_is_not_a_number() -> None:
    assert math.isnan(growth(ROWS[:2]))


def test_the_page_has_a_row_for_each_module_and_a_plot(tmp_path: Path) -> None:
    models = [row(1, 5_000, 1.0, name="t2b:paper:scan", kernel=0.0)]
    calls = row(1, 90_000, 3.0, name="block_sparse:large", written_ops=4_321)
    held = row(1, 2, 0.5, bytes=100 << 20, peak=500 << 20, resident=400 << 20)
    write_report(tmp_path, [*ROWS, *models, calls], held, 2)
    page = (tmp_path / "analysis-speed.md").read_text()
    assert "| gemma, 200 layers | 100,000 | 4.00 | 1.50 | 0.50 | 0.30 | 0.50 | 0.57 |" in page
    assert "| t2b, scanned | 5,000 |" in page
    assert "writes 4,321 ops" in page
    assert "they\nare 90,000." in page
    assert "so 3.0 s go" in page
    assert "the quickest of 2 runs" in page
    assert "to the power 1.00" in page
    assert "3.0 times the constant" in page
    assert "2.0 times the constant" in page
    assert (tmp_path / "analysis-speed.svg").read_text().lstrip().startswith("<?xml")


def test_the_table_has_the_columns_of_the_page() -> None:
    assert table(ROWS).row_count == len(ROWS)


def test_records_are_measured_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def measure() -> dict[str, Any]:
        calls.append(1)
        return {"ops": 7}

    for _ in range(2):
        records = Records(tmp_path / "records")
        assert records.get("a", measure) == {"name": "a", "ops": 7}
    assert calls == [1]


def test_a_module_of_constants_holds_as_many_bytes(tmp_path: Path) -> None:
    path = tmp_path / "module"
    assert analysis_child.constants(400_000, path)["bytes"] >= 400_000
    program = load(path.read_bytes()).program
    assert "stablehlo.constant" in program.names
    assert program.shape(0) == (100, 1000)


@pytest.mark.parametrize("model", ["itx:tiny", "block_sparse:tiny"])
def test_children_measure_a_model(tmp_path: Path, model: str) -> None:
    path = tmp_path / "module"
    found: dict[str, Any] = {}
    for arguments in (["lower", model, path], ["analyse", path]):
        command = [sys.executable, "-m", "benchmarks.analysis_child", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
        found |= json.loads(done.stdout)
    assert found["ops"] > 0
    assert found["written_ops"] > 0
    assert found["lower"] > 0
    assert found["peak"] >= found["base"] > 0
    assert set(found["stages"]) >= {"parse", "walk", "names", "conflicts"}
