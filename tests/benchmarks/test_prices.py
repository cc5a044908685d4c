"""Prices are what was kept of them, to the last bit; and a price that is not is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.prices.__main__ import DATA, main
from benchmarks.prices.pricing import Price

QUICK = "mlp,mlp_small,gat,itx_2"


def test_prices_of_small_programs_are_the_kept_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--models", QUICK]) == 0
    assert capsys.readouterr().out == ""


def test_a_price_that_differs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = [json.loads(line) for line in DATA.read_text().splitlines()]
    row = next(row for row in kept if row["model"] == "mlp")
    higher = row | {"peak": (float.fromhex(row["peak"]) * 2).hex()}
    (tmp_path / "prices.jsonl").write_text(json.dumps(higher) + "\n")
    assert main(["check", "--data", str(tmp_path / "prices.jsonl")]) == 1
    printed = capsys.readouterr()
    assert f"{Price(**row).name}: peak" in printed.out
    assert "1 of 1 prices differ" in printed.err


def test_a_state_of_another_analysis_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = json.loads(DATA.read_text().splitlines()[0]) | {"model": "mlp_small"}
    (tmp_path / "prices.jsonl").write_text(json.dumps(row | {"state": [[10**6, 0, 0]]}) + "\n")
    assert main(["check", "--data", str(tmp_path / "prices.jsonl")]) == 1
    assert "the state speaks of another analysis" in capsys.readouterr().out
