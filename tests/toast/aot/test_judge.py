"""The judge from end to end, and what it says where there is no compiler."""

from __future__ import annotations

import importlib.util
import io
import os
from dataclasses import replace
from pathlib import Path

import jax
import pytest
from rich.console import Console

from examples import forms, gemma
from tests.toast.samples import SHARDED, make_plan
from toast import plan
from toast.analysis.errors import InvalidRequest, ToastError
from toast.aot import CompiledCollective, Memory, Refusal, Target, Verdict, child, judge
from toast.aot.child import flags_to_try, refusal_of
from toast.aot.comparison import render_comparison
from toast.costmodel.network.mesh import Mesh

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
        CompiledCollective(
            kind="all_reduce",
            axes=("model",),
            group_size=2,
            count=3,
            result_bytes=300,
            wire_bytes=300,
        ),
        CompiledCollective(
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


def test_both_sides_are_shown() -> None:
    text = shown(VERDICT)
    assert "4.00 GiB" in text
    assert "all_gather over groups of 4" in text
    assert "all_reduce over model" in text
    assert "1 s by the compiler's own estimate" in text


def test_what_an_estimate_leaves_out_is_said() -> None:
    assert "lacks" not in shown(VERDICT)
    some = replace(VERDICT, unestimated={"kernel": 4.0, "gather": 1.0})
    assert "gives no time for 1 gather, 4 kernels, so its estimate lacks them." in " ".join(
        shown(some).split()
    )


def test_what_there_is_stands_beside_what_is_needed() -> None:
    row = next(line for line in shown(VERDICT).splitlines() if line.startswith("available"))
    assert row.split() == ["available", "16.00", "MiB", "15.75", "GiB"]


def test_a_report_of_memory_alone_says_that_there_is_no_time() -> None:
    early = replace(VERDICT, cycles={}, compute_seconds=None, memory_only=True, compile_seconds=3.0)
    text = shown(early)
    assert "all_reduce over model" in text
    assert "ended after 3 s" in text
    assert "gives no estimate" not in text
    assert "ended after" not in shown(replace(early, memory_only=False))


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

    monkeypatch.setattr(child, "executable_of", failing)
    flags = flags_to_try(Target.parse("a100:8"), tmp_path)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message.partition(" ")[0]):
        child.first_executable(b"", [], flags)
    assert tuple(seen) == flags[:tries]


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
@pytest.mark.parametrize("target", ["tpu-v5e:2x4", "tpu-v3:2x2"])
@pytest.mark.skipif(not HAS_LIBTPU, reason="libtpu, from the `aot` extra, is not installed")
def test_memory_alone_is_that_of_the_full_compilation(target: str) -> None:
    """And so are the collectives; of the temporaries the compiler's statistics say otherwise."""
    step = forms.serialize(gemma.make_step(gemma.PRESETS["demo"]), "bytecode")
    result = plan(step, mesh="data=2,model=4", device=target.partition(":")[0], rollouts=50)
    asked, mesh = Target.parse(target), Mesh.parse("data=2,model=4")
    whole = judge(result.module, asked, mesh)
    early = judge(result.module, asked, mesh, memory_only=True)
    assert early.memory_only
    assert not whole.memory_only
    assert early.memory is not None
    assert whole.memory is not None
    assert replace(early.memory, temp=0) == replace(whole.memory, temp=0, peak=None, code=0)
    assert (early.collectives, early.refusal) == (whole.collectives, None)
    assert early.collectives
    assert early.compile_seconds < whole.compile_seconds


@pytest.mark.nightly
@pytest.mark.parametrize("memory_only", [False, True])
@pytest.mark.skipif(not HAS_LIBTPU, reason="libtpu, from the `aot` extra, is not installed")
def test_a_module_that_does_not_fit_is_a_refusal_with_its_bytes(memory_only: bool) -> None:
    big = SHARDED.replace("8x16", "65536x65536").replace("16x32", "65536x65536")
    big = big.replace("8x32", "65536x65536")
    target = Target.parse("tpu-v5e:2x4")
    mesh = Mesh.parse("data=2,model=2")
    verdict = judge(big.encode(), target, mesh, memory_only=memory_only)
    assert verdict.memory is None
    assert verdict.refusal is not None
    assert (verdict.needed_bytes or 0) > 16 * GIB
