"""docs/python.md names all that is public, and its blocks run as they stand."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import toast
from tests.ground.repository import ROOT
from toast.plans.plan import Plan
from toast.request.request import PlanRequest
from toast.sharding import Sharded

PAGE = (ROOT / "docs/python.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOR_DEVELOPERS = {"without"}


def rows() -> set[str]:
    """What the first cells of the page's tables name, without arguments of methods."""
    cells = re.findall(r"^\| (`[^|]*`) \|", PAGE, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`\*?(?:\w+\.)?(\w+)", cell)}


@pytest.mark.parametrize("name", toast.__all__)
def test_every_public_name_is_on_the_page(name: str) -> None:
    assert f"toast.{name}" in PAGE


def test_every_setting_is_in_the_tables() -> None:
    settings = {*inspect.signature(toast.plan).parameters, *PlanRequest.model_fields}
    settings |= set(inspect.signature(toast.autoshard).parameters) - {"settings"}
    assert settings - FOR_DEVELOPERS - {"module"} <= rows()


@pytest.mark.parametrize("record", [Sharded, toast.Client])
def test_every_method_is_in_the_tables(record: type) -> None:
    public = {name for name in vars(record) if not name.startswith("_")}
    assert public - {"close"} <= rows()


def test_every_field_of_a_plan_is_in_the_tables() -> None:
    assert set(Plan.model_fields) - {"schema_"} <= rows()


def test_the_blocks_run_in_order(tmp_path: Path) -> None:
    code = "\n".join(BLOCK.findall(PAGE))
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    for name in ("TOAST_URL", "XLA_FLAGS"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "No plan fits" in done.stdout
    assert (tmp_path / "report.html").stat().st_size > 0
