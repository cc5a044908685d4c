"""Tables: what is too long for its column goes on between the steps of its path."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from toast.plans.tables import Name, plain_table

STEP = re.compile(r"\['[^']*'\]|\.?[\w*]+/?|\[\*\]")
NAME = "state.params['h'][*]['self_attention']['c_attn']['kernel']"


def lines(name: str, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(Name(name))
    return capture.get().splitlines()


def test_a_step_that_stands_for_several_breaks_only_where_it_has_to() -> None:
    name = "params/h/*/{query,key,value}/kernel"
    assert lines(name, 20) == ["params/h/*/", "  {query,key,value}/", "  kernel"]
    assert lines(name, 13) == ["params/h/*/", "  {query,key,", "  value}/", "  kernel"]


def test_a_name_that_fits_is_one_line() -> None:
    assert lines(NAME, len(NAME)) == [NAME]


@pytest.mark.parametrize("name", [NAME, "params/h/*/self_attention/c_attn/kernel for mlp/add"])
@pytest.mark.parametrize("width", range(20, 60))
def test_steps_stay_whole(name: str, width: int) -> None:
    found = lines(name, width)
    assert max(map(len, found)) <= width
    for step in STEP.findall(name):
        assert any(step.rstrip("/") in line for line in found), (step, found)


@given(
    steps=st.lists(st.text("abc_", min_size=1, max_size=30), min_size=1, max_size=6),
    width=st.integers(4, 50),
)
def test_nothing_is_lost_at_any_width(steps: list[str], width: int) -> None:
    name = "/".join(steps)
    assert "".join(line.strip() for line in lines(name, width)) == name


@pytest.mark.parametrize("width", [60, 80, 120])
def test_in_a_table_figures_stay_whole_and_names_fold(width: int) -> None:
    table = plain_table("Layout", "group", ">bytes", "shape")
    table.add_row(Name(NAME.replace("']['", "/")), "12.34 GiB", "1,024 x 256")
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    assert "12.34 GiB" in capture.get()
    assert max(map(len, capture.get().splitlines())) <= width
