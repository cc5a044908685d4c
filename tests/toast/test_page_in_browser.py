"""Pages in a real browser, where there is one: nothing hangs over the side of a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.toast.planned import gemma_text, request
from toast.inspect.inspect_module import inspect_module
from toast.inspect.page import render_page
from toast.pipeline.plan_module import make_plan
from toast.plans.page import report_html
from tools.browser import Browser, browser, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no browser, {missing()}")

PHONE = 390
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
PAPER = "getComputedStyle(document.body).backgroundColor"
SEEN = """[...document.querySelectorAll("svg.plot")]
    .filter(plot => plot.getClientRects().length).map(plot => plot.classList[1])"""
WIDE = """[...document.querySelectorAll("svg.plot, p, h1, h2, h3, nav, .card")]
    .filter(each => each.getBoundingClientRect().right > innerWidth).length"""
TALLEST = 'Math.max(...[...document.querySelectorAll("tr")].map(row => row.offsetHeight))'
BLACK = """[...document.querySelectorAll("svg.plot text")]
    .filter(each => getComputedStyle(each).fill == "rgb(0, 0, 0)").length"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("pages")
    found = inspect_module(gemma_text()).model_dump(mode="json")
    written: dict[Path, str] = {
        folder / "plan.html": report_html(make_plan(gemma_text(), request(memory=1000)).plan),
        folder / "inspection.html": render_page(found, "gemma"),
    }
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    return [path.as_uri() for path in written]


def test_nothing_hangs_over_the_side(tab: Browser, pages: list[str]) -> None:
    for page in pages:
        for width in (PHONE, 1280):
            tab.look(page, width=width)
            assert tab.ask(OVERFLOW) == 0
            assert tab.ask(WIDE) == 0
            assert 20 < tab.ask(TALLEST) < 200, "no column is squeezed"


def test_a_phone_has_plots_of_its_own(tab: Browser, pages: list[str]) -> None:
    tab.look(pages[0], width=PHONE)
    assert set(tab.ask(SEEN)) == {"narrow"}
    tab.look(pages[0], width=1280)
    assert set(tab.ask(SEEN)) == {"wide"}


def test_dark_screens_get_dark_pages_with_bright_words(tab: Browser, pages: list[str]) -> None:
    for page in pages:
        tab.look(page, width=1280)
        light = tab.ask(PAPER)
        tab.look(page, width=1280, dark=True)
        assert tab.ask(PAPER) != light
        assert tab.ask(BLACK) == 0
