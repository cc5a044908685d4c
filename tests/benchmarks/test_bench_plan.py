"""The benchmark of planning, on modules of a few ops."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from benchmarks import bench_plan
from tests.modules import DATA, text


def test_packed_modules_are_unpacked(tmp_path: Path) -> None:
    packed = tmp_path / "some.mlirbc.xz"
    packed.write_bytes(lzma.compress(b"module"))
    found = list(bench_plan.modules([packed, DATA / "mlp.mlir"]))
    assert found == [("some", b"module"), ("mlp", text("mlp"))]


def test_the_command_prints_the_stages_of_each_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench_plan", "--repeats", "1", str(DATA / "mlp.mlir")])
    bench_plan.main()
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if "mlp" in line]
    assert len(rows) == 1
    *spent, total = (float(cell) for cell in rows[0][3:-1])
    assert len(spent) == len(bench_plan.STAGES)
    assert sum(spent) <= total * 1.01 + 0.01
