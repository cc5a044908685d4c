"""What is read of a compilation before it is done; the golden dump is libtpu's of two layers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.toast.aot.dumps import GOLDEN, NAME, dumped
from tests.toast.samples import SHARDED
from toast.analysis.errors import InvalidRequest, ToastError
from toast.aot import Memory, Target, Verdict, judge
from toast.aot import compile as compiling
from toast.aot.dump import Report, assigned, is_assigned, memory_report
from toast.costmodel.network.mesh import Mesh

V5E, MESH = Target.parse("tpu-v5e:2x4"), Mesh.parse("data=2,model=2")
# What the full compilation said of the same module.
MEMORY = Memory(argument=10240, output=3072, alias=0, temp=19968, main=33280, on_chip=8192)

REPORT = """Memory Space: default (color=0)
Total bytes: {} (185.54MiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list

Memory Space: vmem (color=1)
Total bytes: 20 (20B)
"""
# Donated: two arguments, one of which a result takes; constants, code and other memories besides.
BUFFERS = """BufferAssignment:
allocation 0: size 512, thread-local:
 value: <5 p @0> (size=4096,offset=0): f32[32,32]{1,0:T(8,128)}
allocation 1: size 4096, parameter 1, shape |f32[32,32]| at ShapeIndex {}, maybe-live-out:
 value: <7 p.2 @0> (size=4096,offset=0): f32[32,32]{1,0:T(8,128)}
allocation 2: size 1024, parameter 0, shape |f32[8,32]| at ShapeIndex {}:
allocation 3: size 128, constant:
allocation 4: size 256, maybe-live-out:
allocation 5: size 64, output shape is |(f32[32,32], f32[])|, maybe-live-out:
allocation 6: size 2048, preallocated-temp:
allocation 7: size 99, color 1, preallocated-temp:
allocation 8: size 77, color 5, parameter 2, shape |f32[]| at ShapeIndex {}, maybe-live-out:
"""


def test_the_report_of_the_largest_program_counts(tmp_path: Path) -> None:
    assert memory_report(tmp_path) == Report()
    for name, size in (("module_0001.helper", 7), ("module_0000.main", 500), ("module_0002.z", 9)):
        (tmp_path / f"{name}.after_optimizations-memory-usage-report.txt").write_text(
            REPORT.format(size)
        )
    (tmp_path / "module_0000.main.before_optimizations.txt").write_text(REPORT.format(9999))
    assert memory_report(tmp_path) == Report(main=500, on_chip=20)


def test_the_golden_dump_says_what_the_compiler_says_in_the_end(tmp_path: Path) -> None:
    dumped(tmp_path)
    memory, text = assigned(tmp_path)
    assert memory == MEMORY
    assert memory.total == 33280
    assert text == (GOLDEN / f"{NAME}.after_optimizations.txt").read_text()


def test_results_in_arguments_count_once(tmp_path: Path) -> None:
    dumped(tmp_path)
    (tmp_path / f"{NAME}.after_optimizations-buffer-assignment.txt").write_text(BUFFERS)
    report = tmp_path / f"{NAME}.after_optimizations-memory-usage-report.txt"
    report.write_text(REPORT.format(8000).partition("Memory Space: vmem")[0])
    memory, _ = assigned(tmp_path)
    assert (memory.argument, memory.output, memory.alias) == (5120, 4416, 4096)
    assert (memory.total, memory.on_chip) == (8000, None)
    parts = memory.argument + memory.output - memory.alias + memory.temp
    assert parts == memory.total


def test_all_that_was_taken_up_has_to_be_laid_out(tmp_path: Path) -> None:
    assert not is_assigned(tmp_path / "none")
    dumped(tmp_path, assigned=False)
    assert not is_assigned(tmp_path)
    dumped(tmp_path)
    assert is_assigned(tmp_path)
    dumped(tmp_path, "module_0001.helper", assigned=False)
    assert not is_assigned(tmp_path)
    dumped(tmp_path, "module_0001.helper")
    assert is_assigned(tmp_path)


def test_a_copy_of_a_module_is_laid_out_in_its_place(tmp_path: Path) -> None:
    dumped(tmp_path, assigned=False)
    dumped(tmp_path, "module_0001.helper", assigned=False)
    for name in ("module_0003.two_layers", "module_0004.helper"):
        assert not is_assigned(tmp_path)
        dumped(tmp_path, name)
        (tmp_path / f"{name}.before_optimizations.txt").unlink()
    assert is_assigned(tmp_path)


def compiler(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """Let the judge start this instead; `DIR` is its directory."""
    script = folder / "compiler.py"
    script.write_text(
        "import json, sys, time\nfrom pathlib import Path\nDIR = Path(sys.argv[1])\n" + body
    )
    monkeypatch.setattr(compiling, "python_module", lambda _: [sys.executable, str(script)])


DUMPS = """
from tests.toast.aot.dumps import dumped
dumped(DIR / "dump")
"""


def test_the_compiler_is_ended_when_memory_is_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "outlived"
    body = f"{DUMPS}time.sleep(60)\nPath({str(left)!r}).touch()"
    compiler(monkeypatch, tmp_path, body)
    hlo = tmp_path / "kept.hlo"
    verdict = judge(b"", V5E, MESH, memory_only=True, keep_hlo=hlo)
    assert (verdict.memory, verdict.refusal) == (MEMORY, None)
    assert verdict.memory_only
    assert (verdict.cycles, verdict.compute_seconds) == ({}, None)
    assert [(row.kind, row.axes, row.count) for row in verdict.collectives] == [
        ("all_reduce", ("data", "model"), 1)
    ]
    assert "ENTRY" in hlo.read_text()
    assert not left.exists()
    assert Verdict.from_dict(verdict.to_dict()) == verdict


REFUSED = """
refusal = {"message": "no", "needed": 5, "available": 4}
print(json.dumps({"event": "refused", "refusal": refusal, "seconds": 1.0}))
print(json.dumps({"event": "done"}))
"""


@pytest.mark.parametrize("memory_only", [False, True])
def test_a_refusal_is_the_compiler_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, memory_only: bool
) -> None:
    """And who did not ask for memory alone has the compiler go on."""
    taken = DUMPS.replace('"dump")', f'"dump", assigned={not memory_only})')
    compiler(monkeypatch, tmp_path, f"{taken}time.sleep(0.5)\n{REFUSED}")
    verdict = judge(b"", V5E, MESH, memory_only=memory_only)
    assert verdict.memory is None
    assert verdict.refusal is not None
    assert (verdict.refusal.message, verdict.needed_bytes) == ("no", 5)
    assert not verdict.memory_only


def test_without_a_layout_of_memory_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(monkeypatch, tmp_path, "sys.exit(3)")
    with pytest.raises(ToastError, match="exit code 3"):
        judge(b"", V5E, MESH, memory_only=True)


def test_a_cancel_is_heard_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(monkeypatch, tmp_path, "time.sleep(60)")
    with pytest.raises(ToastError, match="cancelled"):
        judge(b"", V5E, MESH, memory_only=True, cancelled=lambda: True)


def test_gpus_have_no_such_dump() -> None:
    with pytest.raises(InvalidRequest, match="a100:4") as caught:
        judge(SHARDED.encode(), Target.parse("a100:4"), MESH, memory_only=True)
    assert "--memory-only" in caught.value.hint
