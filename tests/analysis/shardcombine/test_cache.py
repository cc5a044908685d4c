"""Findings are kept: an op is run once, whoever asks again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.analysis.shardcombine.tools import Counting, files_in, one_op, ops_of, runner
from toast.analysis.program import FactorKind
from toast.analysis.shardcombine import Discoverer
from toast.analysis.shardcombine.cache import MISSING, Cache, default_folder
from toast.analysis.shardcombine.discover import forget
from toast.analysis.shardcombine.findings import Combine, Discovery, Finding, How
from toast.analysis.shardcombine.runner import Request

TOP_K = one_op(
    "%v, %i = chlo.top_k(%0, k = 8) : tensor<64x500xf32> -> (tensor<64x8xf32>, tensor<64x8xi32>)",
    ["64x500xf32"],
)
FOUND = Discovery(
    findings=(
        Finding(
            dims=(0, -1),
            combines=(
                Combine(how=How.HALO, dim=1, before=2, after=1),
                Combine(how=How.BLOCKS, dim=0, blocks=3),
                Combine(how=How.REDUCE, reduce="mean"),
            ),
            halo=(1, 2),
            divided="feature_group_count",
        ),
    ),
    attempts=7,
)


def test_a_hit_in_memory_runs_nothing(tmp_path: Path) -> None:
    counting = Counting()
    with ops_of(TOP_K) as ops:
        first = Discoverer(folder=tmp_path, runner=counting).rule(ops[0])
        compiled = runner().lab.compilations
        again = Discoverer(folder=tmp_path, runner=counting).rule(ops[0])
    assert first == again
    assert first is not None
    assert FactorKind.PARALLEL in first.kinds
    assert len(counting.requests) == 1
    assert runner().lab.compilations == compiled


def test_a_hit_on_disk_runs_nothing(tmp_path: Path) -> None:
    with ops_of(TOP_K) as ops:
        first = Discoverer(folder=tmp_path, runner=Counting()).rule(ops[0])
        assert len(files_in(tmp_path)) == 1
        forget()
        counting = Counting()
        assert Discoverer(folder=tmp_path, runner=counting).rule(ops[0]) == first
    assert counting.requests == []


def test_equal_small_ops_are_searched_once(tmp_path: Path) -> None:
    def negate(size: int) -> str:
        return one_op(f"%r = stablehlo.negate %0 : tensor<{size}xf16>", [f"{size}xf16"])

    counting = Counting()
    compiled = []
    for size in (1000, 2000, 3000):
        with ops_of(negate(size)) as ops:
            rule = Discoverer(folder=tmp_path, runner=counting).rule(ops[0])
        assert rule is not None
        assert rule.sizes == (size,)
        compiled.append(runner().lab.compilations)
    assert len(counting.requests) == 3
    assert compiled[0] == compiled[2]


class Refusing:
    """A runner that finds nothing."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def run(self, request: Request) -> None:
        self.asked.append(request.name)

    def close(self) -> None:
        pass


def test_no_rule_is_remembered_too(tmp_path: Path) -> None:
    refusing = Refusing()
    with ops_of(TOP_K) as ops:
        for _ in range(2):
            assert Discoverer(folder=tmp_path, runner=refusing).rule(ops[0]) is None
            forget()
    assert refusing.asked == ["chlo.top_k"]


def test_findings_for_the_same_kind_are_handed_on(tmp_path: Path) -> None:
    def add(kind: str) -> str:
        return one_op(f"%r = stablehlo.add %0, %1 : tensor<{kind}>", [kind, kind])

    with ops_of(add("64x32xf32")) as ops:
        Discoverer(folder=tmp_path, runner=Counting()).rule(ops[0])
    forget()
    counting = Counting()
    with ops_of(add("8x16x24xbf16")) as ops:
        Discoverer(folder=tmp_path, runner=counting).rule(ops[0])
    assert {hint.dims for hint in counting.requests[0].hints} == {(0, 0), (1, 1)}


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    Cache(tmp_path).put("chlo.any", "key", FOUND)
    assert Cache(tmp_path).get("chlo.any", "key") == FOUND
    assert Cache(tmp_path).hints("chlo.any") == FOUND.findings
    assert Cache(tmp_path).get("chlo.any", "other") is MISSING
    assert Cache(None).get("chlo.any", "key") is MISSING


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"found": 3}', '{"found": {"findings": [{}], "attempts": 1}}', "\xff"],
)
def test_a_broken_file_counts_as_missing(tmp_path: Path, text: str) -> None:
    Cache(tmp_path).put("chlo.any", "key", FOUND)
    files_in(tmp_path)[0].write_bytes(text.encode("latin-1"))
    assert Cache(tmp_path).get("chlo.any", "key") is MISSING
    assert Cache(tmp_path).hints("chlo.any") == ()


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = Cache(blocked)
    cache.put("chlo.any", "key", FOUND)
    assert cache.get("chlo.any", "key") == FOUND
    assert blocked.read_text() == "not a folder"


WRITER = """
import sys
from pathlib import Path
from toast.analysis.shardcombine.cache import Cache
from toast.analysis.shardcombine.findings import Discovery
folder, start = Path(sys.argv[1]), int(sys.argv[2])
for number in range(start, start + 200):
    Cache(folder).put("chlo.any", f"key{number % 8}", Discovery(findings=(), attempts=7))
"""


def test_processes_that_share_a_folder_see_whole_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, str(start)]) for start in range(2)]
    while any(writer.poll() is None for writer in writers):
        for path in tmp_path.rglob("*.json"):
            assert json.loads(path.read_text()) == {"found": {"findings": [], "attempts": 7}}
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [path.suffix for path in files_in(tmp_path)] == [".json"] * 8


def test_the_folder_follows_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "toast" / "shardcombine"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "toast" / "shardcombine"
