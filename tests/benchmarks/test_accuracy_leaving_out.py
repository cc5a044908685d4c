"""Cases are priced as if compilers left a pass out, beside the records that are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.accuracy.__main__ import DATA, main
from benchmarks.accuracy.records import Record, compiled, read_records, write_records

MODEL, TARGET, FILE = "mlp_large", "tpu-v5e:2x4", "tpu-v5e-2x4.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A few cases of one model."""
    found = [row for row in compiled(read_records(DATA / FILE)) if row["model"] == MODEL]
    assert len(found) > 2
    data = tmp_path / "data"
    data.mkdir()
    write_records(data / FILE, found)
    return data


def reprice(folder: Path, *more: str) -> int:
    return main(["reprice", "--data", str(folder), "--targets", TARGET, *more])


def predicted(path: Path) -> list[Record]:
    return [row["predicted"] for row in read_records(path)]


def test_the_records_stay_and_those_without_the_pass_are_kept_elsewhere(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, into = (folder / FILE).read_bytes(), tmp_path / "into"
    assert reprice(folder, "--without", "all_reduce_combiner", "--into", str(into)) == 0
    assert (folder / FILE).read_bytes() == before
    changed = [
        a != b for a, b in zip(predicted(folder / FILE), predicted(into / FILE), strict=True)
    ]
    assert any(changed)
    header, _, row = capsys.readouterr().out.strip().splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:2] == [TARGET, str(len(changed))]
    assert int(cells[2]) == sum(changed)
    assert header.count("without") == 4
    # the other way round: only with the pass are the prices those that are kept
    shutil.copy(folder / FILE, tmp_path / FILE)
    assert reprice(tmp_path, "--prices-only") == 0
    assert predicted(tmp_path / FILE) == predicted(folder / FILE)


def test_what_is_no_pass_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reprice(folder, "--without", "twins") == 2
    assert "There is no pass 'twins' to leave out." in capsys.readouterr().err
