"""The page of an inspection, written by the command line and read back."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import forms, gemma
from tests.toast.html_reader import read
from tests.toast.terminal import assert_refused, toast
from toast.inspect.inspect_module import inspect_module
from toast.inspect.page import render_page
from toast.page.drawing import draw
from toast.page.layout import lay_out

BLOCK_WIDTH = 228.0
ROW_HEIGHT = 100.0

MODULE = forms.serialize(gemma.make_step(gemma.PRESETS["tiny"]), "bytecode")
MYSTERY = (
    b"func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {"
    b' %y = stablehlo.custom_call @"a<b>&c"(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>'
    b" return %y : tensor<8x8xf32> }"
)


@cache
def inspection() -> dict[str, Any]:
    return inspect_module(MODULE).model_dump(mode="json")


def test_the_command_writes_one_page_that_needs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "step.mlirbc").write_bytes(MODULE)
    done = toast("inspect", "step.mlirbc", "--html", "out/page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Written to out/page.html.\n"
    page = (tmp_path / "out" / "page.html").read_text()
    reader = read(page)
    assert "shard the key or the query side of attention, 2 places" in reader.text
    assert "step.mlirbc" in reader.text
    assert not re.search(r"""(src|href)=|url\((?!#)|@import|https?://""", page)
    assert "prefers-color-scheme: dark" in page


def test_json_and_page_at_once(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(MODULE)
    done = toast("inspect", tmp_path / "m", "--json", "--html", tmp_path / "page.html")
    assert json.loads(done.stdout)["graph"]["set"] == 0
    assert (tmp_path / "page.html").exists()


def test_a_set_that_is_not_there_and_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(MODULE)
    page = tmp_path / "page.html"
    wrong = toast("inspect", tmp_path / "m", "--html", page, "--set", "5")
    assert_refused(wrong, "no compatibility set 5", "0 to 0")
    assert not page.exists()
    assert_refused(toast("inspect", tmp_path / "m", "--html", "/dev/null/x"), "cannot be written")
    assert_refused(toast("inspect", tmp_path / "m", "--html", tmp_path), "cannot be written")


def test_every_part_is_on_the_page() -> None:
    reader = read(render_page(inspection(), "m"))
    for title in (
        "What has to be decided",
        "Dimension graph of set 0",
        "Colours by size",
        "Conflicts",
        "Groups of repeated layers",
        "Ops without a rule",
        "Time by stage",
    ):
        assert title in reader.text
    assert "state['params']['layers'][*]['gate']" in reader.text
    assert "nothing is left out" in reader.text


def test_names_of_the_module_are_text_and_never_markup() -> None:
    found = inspect_module(MYSTERY).model_dump(mode="json")
    page = render_page(found, "<script>alert(1)</script>")
    assert "<script" not in page
    reader = read(page)
    assert "a<b>&c" in reader.text
    assert "<script>alert(1)</script>" in reader.text
    assert "there is nothing to decide" in reader.text


def test_what_is_left_out_is_said() -> None:
    graph = {**inspection()["graph"], "left_out": 1234, "neighbours_left_out": 7}
    text = read(render_page({**inspection(), "graph": graph}, "m")).text
    assert "1,234 more of the set" in text
    assert "7 names next to it are left out" in text


def test_long_tables_are_cut_and_say_so() -> None:
    rows = inspection()["conflicts"] * 10
    text = read(render_page({**inspection(), "conflicts": rows}, "m")).text
    assert f"And {len(rows) - 200:,} more" in text


def test_the_drawing_has_every_name_conflict_and_arrow() -> None:
    graph = inspection()["graph"]
    classes = read(draw(graph)).classes
    inside = [node for node in graph["nodes"] if node["side"] >= 0]
    assert classes.count("first") + classes.count("second") == len(inside)
    assert classes.count("conflict") == len(graph["conflicts"])
    assert classes.count("edge") == len([edge for edge in graph["edges"] if not edge["linked"]])


def boxes_apart(ops: dict[int, tuple[float, float]]) -> bool:
    rows: dict[float, list[float]] = {}
    for x, y in ops.values():
        rows.setdefault(y, []).append(x)
    return all(
        right - left >= BLOCK_WIDTH - 1e-6
        for row in rows.values()
        for left, right in pairwise(sorted(row))
    )


@given(st.data())
def test_layouts_run_downwards_and_overlap_nowhere(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges = [(a, b) for a, b in data.draw(st.lists(pairs, max_size=25)) if a < b]
    layout = lay_out(range(count), edges)
    assert set(layout.ops) == set(range(count))
    assert boxes_apart(dict(layout.ops))
    for a, b in edges:
        heights = [layout.ops[a][1], *(y for _, y in layout.bends[a, b]), layout.ops[b][1]]
        assert all(second - first >= ROW_HEIGHT - 1e-6 for first, second in pairwise(heights)), (
            heights
        )
    for x, y in layout.ops.values():
        assert x - BLOCK_WIDTH / 2 >= -1e-6
        assert x + BLOCK_WIDTH / 2 <= layout.width + 1e-6
        assert 0 < y < layout.height


@pytest.mark.parametrize("count", [0, 1])
def test_the_smallest_layouts(count: int) -> None:
    assert len(lay_out(range(count), []).ops) == count
