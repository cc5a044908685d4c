"""The command line through real processes: bad input, exit codes, help, documents."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from examples import forms, mlp
from tests.toast.samples import SHARDED, write_plan_directory
from tests.toast.terminal import assert_refused, toast
from toast.cli import app
from toast.process.runner import package_environment
from toast.search import kernel_cache

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


TEXT = forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), "text")
BYTECODE = forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), "bytecode")
PORTABLE = forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), "portable")
EXPORT = forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), "export")
DYNAMIC = b"""
func.func public @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  return %x : tensor<?x4xf32>
}
"""
NO_MAIN = b"""
func.func public @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
"""
BAD_MODULES = {
    "nonsense": (b"I am a poem, not a module.\n", r"line 1, column 1"),
    "binary": (bytes(range(256)) * 4, r"neither"),
    "syntax": (TEXT.replace(b"stablehlo.dot_general", b"stablehlo.dot_general ]", 1), r"line \d+"),
    "bytecode-cut": (BYTECODE[: len(BYTECODE) // 2], r"truncated|complete|remain"),
    "portable-cut": (PORTABLE[: len(PORTABLE) // 2], r"truncated|complete"),
    "export-cut": (EXPORT[: len(EXPORT) // 2], r"complete|truncated"),
    "no-main": (NO_MAIN, r"main"),
    "dynamic": (DYNAMIC, r"dynamic|dimension"),
    "empty": (b"", r"empty"),
    "blank": (b"  \n\n", r"empty"),
}


@pytest.mark.parametrize("name", BAD_MODULES)
def test_bad_modules(tmp_path: Path, name: str) -> None:
    data, part = BAD_MODULES[name]
    (tmp_path / "module").write_bytes(data)
    out = tmp_path / "out"
    assert_refused(toast("plan", tmp_path / "module", "--mesh", "data=2", "-o", out), part)
    assert not out.exists()


@pytest.mark.parametrize("name", ["syntax", "export-cut", "no-main"])
def test_bad_modules_cannot_be_inspected(tmp_path: Path, name: str) -> None:
    data, part = BAD_MODULES[name]
    (tmp_path / "module").write_bytes(data)
    assert_refused(toast("inspect", tmp_path / "module"), part)


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--mesh", "data=2,data=4"], "named twice"),
        (["--mesh", "data=1"], "one device"),
        (["--mesh", "data=x"], "not a mesh axis"),
        (["--mesh", ""], "empty"),
        (["--mesh", "auto"], "for how many devices"),
        (["--mesh", "auto:0"], "for how many devices"),
        (["--mesh", "auto:1"], "one device"),
        (["--mesh", "data=2", "--device", "abacus"], "abacus.*\n.*tpu-v5e"),
        (["--mesh", "data=2", "--memory", "plenty"], "plenty"),
        (["--mesh", "data=2", "--budget", "soon"], "soon"),
        (["--mesh", "data=2", "--rollouts", "0"], "rollouts"),
        (["--mesh", "data=2", "--seed", "-4"], "seed"),
        (["--mesh", "data=2", "-o", "/dev/null/x"], "cannot be written"),
        (["--mesh", "data=2", "--planner", "oracle"], "oracle"),
        (["--mesh", "data=7919"], "7919|divides"),
    ],
)
def test_bad_settings(tmp_path: Path, flags: list[str], part: str) -> None:
    (tmp_path / "module").write_bytes(TEXT)
    assert_refused(toast("plan", "module", *flags, cwd=tmp_path), part)


def test_missing_files(tmp_path: Path) -> None:
    assert_refused(toast("plan", tmp_path / "none", "--mesh", "data=2"), "cannot be read")
    assert_refused(toast("plan", tmp_path, "--mesh", "data=2"), "cannot be read")
    assert_refused(toast("inspect", tmp_path / "none"), "cannot be read")
    assert_refused(toast("verify", tmp_path), "no plan at")


def test_memory_only_goes_with_compile_for_a_tpu(tmp_path: Path) -> None:
    write_plan_directory(tmp_path)
    assert_refused(toast("verify", tmp_path, "--memory-only"), "--compile tpu-v5e:2x4")
    done = toast("verify", tmp_path, "--compile", "a100:8", "--memory-only")
    assert_refused(done, "a100:8", "without --memory-only")


def test_usage_errors_exit_with_2(tmp_path: Path) -> None:
    assert toast("plan", tmp_path / "module").returncode == 2
    assert toast("plann").returncode == 2


def test_modules_of_the_current_directory_are_not_imported(tmp_path: Path) -> None:
    for name in ("analysis", "search", "json", "service"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    (tmp_path / "module").write_bytes(b"poem")
    command = [sys.executable, "-P", "-m", "toast", "plan", "module", "--mesh", "data=2"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=package_environment(),
    )
    assert_refused(done, "does not parse")


def test_verify_says_equal_or_not(tmp_path: Path) -> None:
    good = toast("verify", write_plan_directory(tmp_path / "good"))
    assert good.returncode == 0
    assert "Equal on 4 virtual devices" in good.stdout
    assert good.stderr == ""
    wrong = SHARDED.replace("dense<0.0>", "dense<1.0>")
    bad = toast("verify", write_plan_directory(tmp_path / "bad", sharded=wrong))
    assert bad.returncode == 1
    assert "NOT EQUAL" in bad.stdout


def test_devices() -> None:
    assert "tpu-v5e" in toast("devices").stdout
    devices = json.loads(toast("devices", "--json").stdout)
    assert {"name", "memory_bytes", "bandwidth", "sources"} <= set(devices[0])


def test_submit_where_nobody_listens(tmp_path: Path) -> None:
    (tmp_path / "module").write_bytes(TEXT)
    done = toast("submit", tmp_path / "module", "--url", "http://127.0.0.1:9", "--mesh", "data=2")
    assert_refused(done, "no TOAST service at http://127.0.0.1:9", "toast serve")


def sections() -> dict[str, str]:
    """The text of `docs/cli.md` by command."""
    parts = re.split(r"^## toast (\w+).*$", DOCS.read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_and_flag_is_documented() -> None:
    documented = sections()
    group = typer.main.get_command(app)
    commands = getattr(group, "commands", {})
    assert set(commands) == set(documented)
    for name, command in commands.items():
        for parameter in command.params:
            for flag in parameter.opts if parameter.param_type_name == "option" else ():
                if flag != "--help":
                    assert f"`{flag}`" in documented[name], f"toast {name} {flag}"


def test_no_flag_is_documented_that_does_not_exist() -> None:
    commands = getattr(typer.main.get_command(app), "commands", {})
    for name, text in sections().items():
        known = {
            flag
            for parameter in commands[name].params
            for flag in (*parameter.opts, *parameter.secondary_opts)
        }
        table = [line for line in text.splitlines() if line.startswith("| `-")]
        for line in table:
            assert set(re.findall(r"`(-[\w-]+)`", line.split("|")[1])) <= known, line


def test_the_fixed_names_of_the_commands() -> None:
    done = toast("--help")
    for name in ("plan", "inspect", "verify", "serve", "worker", "submit", "devices"):
        assert re.search(rf"^\s+{name}\s", done.stdout, flags=re.M)
    assert "schema" not in done.stdout


def warm(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Result:
    """`toast warm` with its kernels in a folder; nothing is compiled."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    monkeypatch.setattr(kernel_cache, "compile_all", lambda on_share: on_share(0.5))
    return CliRunner().invoke(app, ["warm"])


def test_warm_says_what_it_does_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (warm(monkeypatch, tmp_path) for _ in range(2))
    assert first.exit_code == second.exit_code == 0
    assert re.search(r"^Compiled the kernels in [\d.]+ s; they are in ", first.stdout, re.M)
    assert first.stderr.count("Compiling kernels, once") == 1, "stderr is no terminal"
    assert second.stdout == f"The kernels were compiled already; they are in {tmp_path}/toast.\n"
    assert second.stderr == ""


def test_warm_is_refused_where_nothing_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    refused = warm(monkeypatch, tmp_path / "file")
    assert refused.exit_code == 2
    assert "NUMBA_CACHE_DIR" in refused.stderr
