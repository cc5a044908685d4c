"""The comparison on virtual devices, with modules that are right and modules that are wrong."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.toast.samples import ORIGINAL, SHARDED, cost, make_plan, tensor, write_plan_directory
from toast.analysis.errors import InvalidModule, InvalidRequest
from toast.analysis.forms import Form, decode, encode
from toast.verify import verification as verify_module
from toast.verify.verification import MAX_DEVICES, host_bytes_needed, verify


def test_equal_modules_are_equal(tmp_path: Path) -> None:
    stages: list[str] = []
    result = verify(write_plan_directory(tmp_path), on_stage=stages.append)
    assert result.verdict == "equal"
    assert result.devices == 4
    assert [d.name for d in result.differences] == ["y", "sum"]
    assert all(d.scale > 0 and d.finite for d in result.differences)
    assert result.collectives.get("all_reduce", 0) >= 1
    assert stages == list(result.seconds)


def test_the_same_seed_is_the_same_run(tmp_path: Path) -> None:
    directory = write_plan_directory(tmp_path)
    scales = [[d.scale for d in verify(directory, seed=s).differences] for s in (1, 1, 2)]
    assert scales[0] == scales[1] != scales[2]


@pytest.mark.parametrize("form", [Form.BYTECODE, Form.PORTABLE])
def test_binary_forms(tmp_path: Path, form: Form) -> None:
    write_plan_directory(tmp_path)
    for name in ("original", "sharded"):
        text = tmp_path / f"{name}.mlir"
        binary = encode(form, decode(text.read_bytes()).module)
        (tmp_path / f"{name}{form.suffix}").write_bytes(binary)
        text.unlink()
    assert verify(tmp_path).verdict == "equal"


def test_a_wrong_module_is_found(tmp_path: Path) -> None:
    wrong = SHARDED.replace("dense<0.0>", "dense<0.001>")
    result = verify(write_plan_directory(tmp_path, sharded=wrong))
    assert result.verdict == "differs"
    assert result.worst is not None
    assert result.worst.name == "sum"
    assert [d.verdict for d in result.differences] == ["equal", "differs"]


def test_values_that_are_finite_in_one_alone_are_found(tmp_path: Path) -> None:
    wrong = SHARDED.replace("dense<0.0>", "dense<0x7F800000>")
    result = verify(write_plan_directory(tmp_path, sharded=wrong))
    assert result.verdict == "differs"
    assert [d.mismatched for d in result.differences] == [0, 1]


def test_a_plan_that_does_not_describe_the_module_is_found(tmp_path: Path) -> None:
    results = [tensor(0, "y", [8, 32], [[], ["model"]]), tensor(1, "sum", [], [])]
    with pytest.raises(InvalidModule, match="where the plan says"):
        verify(write_plan_directory(tmp_path, results=results))


def test_a_module_with_other_arguments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModule, match="does not have the arguments"):
        verify(write_plan_directory(tmp_path, sharded=SHARDED.replace("16x32", "16x64")
                                    .replace("8x32", "8x64")))  # fmt: skip


def test_text_that_does_not_parse_says_where(tmp_path: Path) -> None:
    with pytest.raises(InvalidModule, match=r"line \d+, column \d+"):
        verify(write_plan_directory(tmp_path, sharded=ORIGINAL.replace("dot_general", "dott")))


@pytest.mark.parametrize("wanted", [False, True])
def test_what_the_host_cannot_hold_is_scaled_down(tmp_path: Path, wanted: bool) -> None:
    peak = 4096 if wanted else verify_module.available_bytes() * 3 // 10
    result = verify(write_plan_directory(tmp_path, predicted=cost(1.0, peak)), scale=wanted)
    assert result.verdict == "equal"
    assert [(size.of, size.old, size.new) for size in result.scaled] == [("w dim 1", 32, 16)]
    assert [d.shape for d in result.differences] == [[8, 16], []]


def test_what_is_too_large_at_any_size_is_refused(tmp_path: Path) -> None:
    directory = write_plan_directory(tmp_path, predicted=cost(1.0, 10**13))
    with pytest.raises(InvalidRequest, match="of host memory even scaled down") as caught:
        verify(directory)
    assert "smaller" in caught.value.hint


def test_too_many_devices_are_refused(tmp_path: Path) -> None:
    axes = [{"name": "data", "size": 2 * MAX_DEVICES}]
    with pytest.raises(InvalidRequest, match=f"at most {MAX_DEVICES}"):
        verify(write_plan_directory(tmp_path, mesh={"axes": axes}))


def test_memory_counts_every_device() -> None:
    plan = make_plan(predicted=cost(1.0, 1000), unsharded=cost(1.0, 3000))
    arguments, results = (8 * 16 + 16 * 32) * 4, (8 * 32 + 1) * 4
    assert host_bytes_needed(plan, 4) == 2 * arguments + 3 * results + 4000


def test_a_control_group_limits_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "max").write_text("1000000\n")
    (tmp_path / "current").write_text("400000\n")
    monkeypatch.setattr(verify_module, "CGROUP_LIMIT", tmp_path / "max")
    monkeypatch.setattr(verify_module, "CGROUP_USED", tmp_path / "current")
    assert verify_module.available_bytes() == 600_000
    (tmp_path / "max").write_text("max\n")
    assert verify_module.available_bytes() > 600_000


@pytest.mark.parametrize("missing", ["plan.json", "original.mlir", "sharded.mlir"])
def test_a_directory_that_is_not_complete(tmp_path: Path, missing: str) -> None:
    (write_plan_directory(tmp_path) / missing).unlink()
    with pytest.raises(InvalidRequest, match=missing) as caught:
        verify(tmp_path)
    assert "toast plan -o DIR" in caught.value.hint


def test_a_damaged_plan_names_the_place(tmp_path: Path) -> None:
    plan = write_plan_directory(tmp_path) / "plan.json"
    plan.write_text(plan.read_text().replace('"size": 2', '"size": "two"', 1))
    with pytest.raises(InvalidRequest, match=r"mesh\.axes\.0\.size"):
        verify(tmp_path)


def test_an_export(tmp_path: Path) -> None:
    import jax
    import jax.numpy as jnp

    write_plan_directory(tmp_path)
    structs = jax.ShapeDtypeStruct((8, 16), "float32"), jax.ShapeDtypeStruct((16, 32), "float32")
    step = jax.jit(lambda x, w: (x @ w, jnp.sum(x @ w)))
    exported = jax.export.export(step)(*structs)
    buffer = io.BytesIO(exported.serialize())
    for name in ("original", "sharded"):
        (tmp_path / f"{name}.mlir").unlink()
        (tmp_path / f"{name}.jax_export").write_bytes(buffer.getvalue())
    whole = [tensor(0, "y", [8, 32], [[], []]), tensor(1, "sum", [], [])]
    arguments = [tensor(0, "x", [8, 16], [[], []]), tensor(1, "w", [16, 32], [[], []])]
    plan = make_plan(results=whole, arguments=arguments)
    (tmp_path / "plan.json").write_text(plan.to_json())
    assert verify(tmp_path).verdict == "equal"
