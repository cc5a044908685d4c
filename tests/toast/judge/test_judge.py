"""The judge from end to end, and what it says where there is no compiler."""

from __future__ import annotations

import importlib.util
import io
import os
from pathlib import Path

import jax
import pytest
from rich.console import Console

from analysis.errors import InvalidRequest, ToastError
from costmodel.mesh import Mesh
from tests.toast.samples import SHARDED, make_plan
from toast.judge import Collective, Memory, Refusal, Target, Verdict, child, judge
from toast.judge.child import flags_to_try, memory_report, refusal_of
from toast.judge.comparing import render_comparison

HAS_LIBTPU = bool(os.environ.get("TPU_LIBRARY_PATH") or importlib.util.find_spec("libtpu"))
HAS_CUDA = bool(
    importlib.util.find_spec("jax_plugins") and importlib.util.find_spec("jax_plugins.xla_cuda12")
)
GIB = 2**30

VERDICT = Verdict(
    target="tpu-v5e:2x4",
    devices=8,
    memory=Memory(argument=3 * GIB, output=2 * GIB, temp=GIB, alias=2 * GIB, peak=4 * GIB),
    collectives=(
        Collective(
            kind="all_reduce",
            axes=("model",),
            group_size=2,
            count=3,
            result_bytes=300,
            wire_bytes=300,
        ),
        Collective(
            kind="all_gather", axes=None, group_size=4, count=1, result_bytes=8, wire_bytes=6
        ),
    ),
    cycles={"contraction": 1.5e9},
    compute_seconds=1.0,
)


def shown(verdict: Verdict) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(render_comparison(make_plan(), verdict))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_verdict_is_json_and_back() -> None:
    assert Verdict.from_dict(VERDICT.to_dict()) == VERDICT
    refused = Verdict(
        target="tpu-v5e:2x4", devices=8, refusal=Refusal(message="no", needed=5, available=4)
    )
    assert Verdict.from_dict(refused.to_dict()) == refused
    assert (refused.needed_bytes, VERDICT.needed_bytes) == (5, 4 * GIB)


def test_the_main_memory_is_what_is_needed_where_the_compiler_reports_it() -> None:
    known = {"argument": 3, "output": 2, "temp": 90, "alias": 2, "peak": 70}
    assert Memory(**known).total == 93
    assert Memory(**known, main=50, on_chip=20).total == 50
    verdict = Verdict(target="tpu-v5e:2x4", devices=8, memory=Memory(**known, main=50))
    assert verdict.needed_bytes == 50
    assert Verdict.from_dict(verdict.to_dict()) == verdict


def test_the_report_of_the_largest_program_counts(tmp_path: Path) -> None:
    assert memory_report(tmp_path) == {}
    text = """Memory Space: default (color=0)
Total bytes: {} (185.54MiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list

Memory Space: vmem (color=1)
Total bytes: 20 (20B)
"""
    for name, size in (("module_0001.helper", 7), ("module_0000.main", 500), ("module_0002.z", 9)):
        (tmp_path / f"{name}.after_optimizations-memory-usage-report.txt").write_text(
            text.format(size)
        )
    (tmp_path / "module_0000.main.before_optimizations.txt").write_text(text.format(9999))
    assert memory_report(tmp_path) == {"default": 500, "vmem": 20}


def test_both_sides_are_shown() -> None:
    text = shown(VERDICT)
    assert "4.00 GiB" in text
    assert "all_gather over groups of 4" in text
    assert "all_reduce over model" in text
    assert "1 s by the compiler's own estimate" in text


def test_a_refusal_is_shown_in_the_compiler_s_words() -> None:
    message = "RESOURCE_EXHAUSTED: Used 20.33G of 15.75G hbm. Exceeded hbm capacity by 4.58G."
    text = shown(Verdict(target="tpu-v5e:2x4", devices=8, refusal=refusal_of(message)))
    assert "20.33 GiB" in text
    assert "The program does not fit: RESOURCE_EXHAUSTED" in text


@pytest.mark.parametrize(
    ("message", "needed", "available"),
    [
        ("Ran out of memory in memory space hbm. Used 2.5G of 1G hbm.", 5 * GIB // 2, GIB),
        ("required for HLO temporaries (20.00G) exceeds available HBM (16G).", 20 * GIB, 16 * GIB),
        ("Total hbm usage >= 24.00G:", 24 * GIB, None),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 512.0MiB.", GIB // 2, None),
        ("RESOURCE_EXHAUSTED: no figures", None, None),
    ],
)
def test_what_refusals_say(message: str, needed: int | None, available: int | None) -> None:
    refusal = refusal_of(message)
    assert (refusal.needed, refusal.available) == (needed, available)
    assert refusal.message == message


def test_a_mesh_larger_than_the_topology_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="16 devices"):
        judge(b"", Target.parse("tpu-v5e:2x4"), Mesh.parse("x=16"))


def test_a_gpu_s_compiler_has_a_second_try_and_a_tpu_s_writes_its_reports(tmp_path: Path) -> None:
    first, second = flags_to_try(Target.parse("a100:8"), tmp_path)
    assert second == {**first, "xla_gpu_enable_triton_gemm": "False"}
    assert flags_to_try(Target.parse("tpu-v5e:2x4"), tmp_path) == ({"xla_dump_to": str(tmp_path)},)


@pytest.mark.parametrize(
    ("message", "tries"),
    [
        ("INTERNAL: Couldn't find output tile sizes that satisfy hlo: %dot", 2),
        ("RESOURCE_EXHAUSTED: Out of memory", 1),
    ],
)
def test_only_a_product_without_tiles_is_tried_again(
    message: str, tries: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[dict[str, str]] = []

    def failing(module: bytes, devices: list[object], flags: dict[str, str]) -> None:
        seen.append(flags)
        raise jax.errors.JaxRuntimeError(message)

    monkeypatch.setattr(child, "_compile", failing)
    target = Target.parse("a100:8")
    with pytest.raises(jax.errors.JaxRuntimeError, match=message.partition(" ")[0]):
        child._compiled(b"", target, [], tmp_path)
    assert tuple(seen) == flags_to_try(target, tmp_path)[:tries]


@pytest.mark.skipif(HAS_LIBTPU, reason="libtpu is installed here")
def test_a_missing_compiler_is_said() -> None:
    with pytest.raises(ToastError, match="libtpu") as caught:
        judge(SHARDED.encode(), Target.parse("tpu-v5e:2x4"), Mesh.parse("data=2,model=2"))
    assert "aot" in caught.value.hint


@pytest.mark.skipif(HAS_CUDA, reason="jax's CUDA plugin is installed here")
def test_a_missing_gpu_compiler_is_said() -> None:
    with pytest.raises(ToastError, match="CUDA plugin") as caught:
        judge(SHARDED.encode(), Target.parse("a100:4"), Mesh.parse("data=2,model=2"))
    assert "toast-planner[aot-cuda]" in caught.value.hint


@pytest.mark.nightly
@pytest.mark.skipif(not HAS_CUDA, reason="jax's CUDA plugin is not installed")
def test_a_module_compiles_for_a_gpu() -> None:
    mesh = Mesh.parse("data=2,model=2")
    verdict = judge(SHARDED.encode(), Target.parse("a100:4"), mesh)
    assert verdict.memory is not None
    assert verdict.compute_seconds is None
    assert {row.kind for row in verdict.collectives} == {"all_reduce"}


@pytest.mark.nightly
@pytest.mark.skipif(not HAS_CUDA, reason="jax's CUDA plugin is not installed")
def test_a_module_that_fits_no_gpu_is_refused_although_it_compiles() -> None:
    big = SHARDED.replace("8x16", "131072x131072").replace("16x32", "131072x131072")
    big = big.replace("8x32", "131072x131072")
    verdict = judge(big.encode(), Target.parse("a100:4"), Mesh.parse("data=2,model=2"))
    assert verdict.memory is not None
    assert verdict.refusal is not None
    assert (verdict.refusal.needed or 0) > (verdict.refusal.available or 0) > 30 * GIB


@pytest.mark.nightly
@pytest.mark.parametrize("target", ["tpu-v5e:2x4", "tpu-v7x:2x2x1"])
@pytest.mark.skipif(not HAS_LIBTPU, reason="libtpu, from the `aot` extra, is not installed")
def test_a_module_compiles_for_a_tpu(tmp_path: Path, target: str) -> None:
    hlo = tmp_path / "kept.hlo"
    mesh = Mesh.parse("data=2,model=2")
    verdict = judge(SHARDED.encode(), Target.parse(target), mesh, keep_hlo=hlo)
    assert verdict.refusal is None
    assert verdict.memory is not None
    assert verdict.memory.argument > 0
    assert (verdict.memory.main or 0) >= verdict.memory.argument
    assert verdict.compute_seconds
    assert {row.kind for row in verdict.collectives} == {"all_reduce"}
    assert "ENTRY" in hlo.read_text()


@pytest.mark.nightly
@pytest.mark.skipif(not HAS_LIBTPU, reason="libtpu, from the `aot` extra, is not installed")
def test_a_module_that_does_not_fit_is_a_refusal_with_its_bytes() -> None:
    big = SHARDED.replace("8x16", "65536x65536").replace("16x32", "65536x65536")
    big = big.replace("8x32", "65536x65536")
    target = Target.parse("tpu-v5e:2x4")
    verdict = judge(big.encode(), target, Mesh.parse("data=2,model=2"))
    assert verdict.memory is None
    assert verdict.refusal is not None
    assert (verdict.needed_bytes or 0) > 16 * GIB
