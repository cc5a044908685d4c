"""The analysis asks for a rule where Shardy has none, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.shardcombine.tools import files_in
from toast.analysis.load import load
from toast.analysis.names import map_edges, name_colours

TOP_K = b"""
func.func @main(%x: tensor<64x500xf32>) -> (tensor<64x8xf32>, tensor<64x8xi32>) {
  %n = stablehlo.negate %x : tensor<64x500xf32>
  %v, %i = chlo.top_k(%n, k = 8) : tensor<64x500xf32> -> (tensor<64x8xf32>, tensor<64x8xi32>)
  return %v, %i : tensor<64x8xf32>, tensor<64x8xi32>
}"""
PLAIN = b"""
func.func @main(%x: tensor<64x500xf32>) -> tensor<64x500xf32> {
  %n = stablehlo.negate %x : tensor<64x500xf32>
  %s = chlo.square %n : tensor<64x500xf32> -> tensor<64x500xf32>
  %c = stablehlo.custom_call @who_knows(%s) : (tensor<64x500xf32>) -> tensor<64x500xf32>
  return %c : tensor<64x500xf32>
}"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where findings are kept for the length of a test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_discovered_rule_carries_the_batch_through_top_k(folder: Path) -> None:
    program = load(TOP_K).program
    assert program.no_rule == {}
    colours = name_colours(program, map_edges(program))
    batch = {int(colours.colour[program.def_names(value)[0]]) for value in range(program.values)}
    ranked = {int(colours.colour[program.def_names(value)[1]]) for value in (2, 3)}
    assert len(batch) == 1
    assert min(batch) >= 0
    assert ranked == {-1}
    assert len(files_in(folder)) == 1


def test_a_module_without_runnable_unknown_ops_starts_and_writes_nothing(folder: Path) -> None:
    program = load(PLAIN).program
    assert list(program.no_rule) == ["custom_call who_knows"]
    assert files_in(folder) == []
