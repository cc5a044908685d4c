"""docs/tutorial.md has the cells of its script, and what they print."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from tests.ground.repository import ROOT
from tools import tutorial

PAGE = (ROOT / "docs/tutorial.md").read_text()
CODE = tutorial.cells((ROOT / "examples/tutorial.py").read_text())


def test_the_page_shows_every_cell_as_it_is_and_in_order() -> None:
    shown = {name: text for kind, name, text in tutorial.blocks(PAGE) if kind == "cell"}
    assert list(shown) == list(CODE)
    assert shown == CODE


def test_every_cell_that_prints_is_followed_by_its_output() -> None:
    kinds = [(kind, name) for kind, name, _ in tutorial.blocks(PAGE)]
    prints = [name for name, text in CODE.items() if re.search(r"^ *print\(", text, re.MULTILINE)]
    assert [kinds[kinds.index(("cell", name)) + 1] for name in prints] == [
        ("output", name) for name in prints
    ]


def test_no_block_of_the_page_is_left_out() -> None:
    fences = re.findall(r"^```(?:python|text|bash)$", PAGE, re.MULTILINE)
    assert len(fences) == len(list(tutorial.blocks(PAGE)))


def test_times_are_masked_and_nothing_else() -> None:
    text = (
        "a, 12 evaluations in 1.5 s\n(converged)\nstage  time\nload   3 ms\ntotal  4 us\n\n5 ms\n"
    )
    assert tutorial.masked(text) == (
        "a, 12 evaluations in ... (converged)\nstage  time\nload ...\ntotal ...\n\n5 ms\n"
    )


@pytest.mark.nightly
def test_the_page_says_what_happens() -> None:
    missing = [name for name in tutorial.NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; see `.[libraries]`")
    done = subprocess.run(
        [sys.executable, "-m", "tools.tutorial"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, f"`make tutorial` writes it anew\n{done.stdout}{done.stderr}"
