"""The ways that DistIR's evaluation compares, the layouts that they mean, and what is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import benchmarks.distir.__main__ as command
from benchmarks.distir.document import rank_correlation
from benchmarks.distir.executing import check_results
from benchmarks.distir.grid import Way, parse_way, ways
from benchmarks.distir.planning import Simulated
from benchmarks.distir.programs import mlp
from benchmarks.distir.running import Measured, Record, read_records, write_records


def test_ways_are_those_of_the_paper() -> None:
    """Table 1 says 75 for 16 devices, from 2 to 128 microbatches."""
    counts = (2, 4, 8, 16, 32, 64, 128)
    found = list(ways(1 << 20, 16, devices=16, microbatches=counts))
    assert len(found) == len(set(found)) == 75
    assert all(way.devices == 16 for way in found)
    assert all((way.microbatches == 1) == (way.stages == 1) for way in found)


def test_ways_divide_the_batch_and_the_layers() -> None:
    found = list(ways(16, 4, devices=8, microbatches=(2, 4, 8)))
    assert all(16 % (way.microbatches * way.data) == 0 and way.stages <= 4 for way in found)
    assert Way(4, 1, 2, 4) in found
    assert Way(4, 1, 2, 8) not in found
    assert [parse_way(str(way)) for way in found] == found


def test_weights_are_cut_in_pairs() -> None:
    given = mlp(layers=4, width=8, batch=16).layouts(2, 2)
    columns, rows = ((), ("model",)), (("model",), ())
    assert given == [columns, rows] * 2 + [(("data",), ())] * 2
    alone = mlp(layers=4, width=8, batch=16).layouts(2, 1)
    assert alone[:4] == [((), ())] * 4


def test_results_that_differ_are_refused() -> None:
    given = [np.full((4, 4), 2.0, np.float32), np.zeros(3, np.float32)]
    check_results("2/1/1/1", given, [one * (1 + 1e-5) for one in given])
    with pytest.raises(ValueError, match="2/1/1/1 computes other results"):
        check_results("2/1/1/1", [given[0] * 1.05, given[1]], given)


def record(way: str, simulated: float, executed: float, batch: int = 256) -> Record:
    return Record(
        program=f"MLP, batch {batch}",
        way=parse_way(way),
        simulated=Simulated(seconds=simulated, idle=0.0, peak_bytes=1.0),
        runs=(executed, executed, 9.0),
    )


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = tuple(record(f"1/1/2/{count}", 0.1 * count, 0.2 * count) for count in (2, 4, 8))
    measured = Measured(day="2026-01-01", load=(0.5, 0.25, 1.0), records=rows)
    write_records(tmp_path / "some.json", measured)
    assert list(read_records(tmp_path)) == [measured]


def test_ranks_are_of_throughput() -> None:
    """Larger batches take longer and do more: only the rows per second tell which is better."""
    rows = [record("8/1/1/1", 1.0, 2.0), record("1/8/1/1", 2.0, 3.0)]
    rows += [record("8/1/1/1", 3.0, 2.5, batch=4096), record("1/8/1/1", 4.0, 5.0, batch=4096)]
    assert rank_correlation(rows) == pytest.approx(1.0)
    assert rank_correlation([*rows[1:], record("4/2/1/1", 0.1, 9.0)]) < 0.5


def test_every_kept_way_was_run_as_often_as_the_page_says() -> None:
    kept = list(read_records(command.DATA))
    assert len(kept) >= 2
    for measured in kept:
        assert {len(one.runs) for one in measured.records} == {5}
        assert len({one.way for one in measured.records}) == len(measured.records)
