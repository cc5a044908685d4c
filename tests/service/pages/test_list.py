"""The list of jobs as people use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.service.harness import Server, fake_engine
from tests.service.pages.chromium import PHONE, Tab, until

Tabs = Callable[..., Tab]
EMPTY = """[...document.querySelectorAll("body *")].filter(one => {
    const box = one.getBoundingClientRect();
    return box.height > 24 && box.width > 24 && !one.textContent.trim() && box.bottom <=
        document.querySelector("table").getBoundingClientRect().top
        && !one.closest("label, form, select") && !one.querySelector("input, select, button");
}).map(one => one.outerHTML)"""
CONTRAST = """badge => {
    const numbers = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = text => numbers(text).map(n => n / 255)
        .map(n => n <= .04045 ? n / 12.92 : ((n + .055) / 1.055) ** 2.4)
        .reduce((sum, n, i) => sum + n * [.2126, .7152, .0722][i], 0);
    const style = getComputedStyle(badge);
    const pair = [light(style.color), light(style.backgroundColor)];
    return (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
}"""
COLOUR = "badge => getComputedStyle(badge).color.match(/\\d+/g).map(Number)"
KEY = "a-key-of-the-browser-tests"


def listed(tab: Tab, service: Server, path: str = "/") -> Any:
    tab.page.goto(service.url + path)
    tab.page.wait_for_selector("#jobs tbody tr")
    return tab.page


def row(page: Any, job: str) -> Any:
    return page.locator(f'tr[data-job="{job}"]')


def test_focus_stays_while_the_list_is_kept_fresh(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    page = listed(tab(), service)
    row(page, jobs["tight.mlir"]).locator("button").focus()
    page.evaluate(
        "before = [...document.querySelectorAll('#jobs tr')]; focused = document.activeElement"
    )
    for _ in range(2):
        with page.expect_response(lambda answer: "/v1/jobs?" in answer.url):
            pass
    page.wait_for_timeout(200)
    assert page.evaluate("document.activeElement === focused && focused.tagName === 'BUTTON'")
    assert page.evaluate(
        "before.every((one, i) => one === document.querySelectorAll('#jobs tr')[i])"
    )


def test_a_new_job_comes_in_above_without_moving_the_focus(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    page = listed(tab(), service)
    row(page, jobs["fits.mlir"]).locator("a").focus()
    page.evaluate("focused = document.activeElement")
    job = service.submit("success", name="newcomer.mlir")["id"]
    page.wait_for_selector(f'tr[data-job="{job}"]')
    assert page.evaluate("document.activeElement === focused")
    assert page.locator("#jobs tbody tr").first.get_attribute("data-job") == job


def test_nothing_empty_stands_above_the_table(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    page = listed(tab(), service)
    assert page.evaluate(EMPTY) == []


def test_a_phone_needs_no_sideways_scrolling(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    name = "a_model_whose_name_goes_on.without_an_end." * 4
    service.finished(service.submit("success", name=name, mesh="data=2,model=4")["id"])
    phone = tab(width=PHONE)
    page = listed(phone, service)
    assert phone.overflow() == 0
    page.locator("#new > summary").click()
    page.locator("#upload summary").click()
    assert phone.overflow() == 0
    for width in page.evaluate(
        "[...document.querySelectorAll('input, select, button')]"
        ".filter(one => one.offsetWidth)"
        ".map(one => one.getBoundingClientRect().right)"
    ):
        assert width <= PHONE


def test_jobs_go_by_their_names(tab: Tabs, service: Server, jobs: dict[str, str]) -> None:
    own = service.submit("success\nmodule @jit_train_step {}")["id"]
    bare = service.submit("success and no name")
    page = listed(tab(), service)
    assert row(page, jobs["fits.mlir"]).locator("a").inner_text() == "fits.mlir"
    assert row(page, own).locator("a").inner_text() == "jit_train_step"
    assert row(page, bare["id"]).locator("a").inner_text() == f"module {bare['module'][:8]}"


@pytest.mark.parametrize("dark", [False, True])
def test_a_verdict_has_an_honest_colour_that_can_be_read(
    tab: Tabs, service: Server, jobs: dict[str, str], dark: bool
) -> None:
    page = listed(tab(dark=dark), service)
    colours = {}
    for name, words in {"fits": "fits", "tight": "tight", "large": "does not fit"}.items():
        badge = row(page, jobs[f"{name}.mlir"]).locator('[data-label="Fits"] .badge')
        assert badge.inner_text() == words
        assert badge.evaluate(CONTRAST) >= 4.5
        colours[name] = badge.evaluate(COLOUR)
    red, green, _ = colours["large"]
    assert red > 1.5 * green
    red, green, _ = colours["fits"]
    assert green > 1.2 * red
    for badge in page.locator(".badge:visible").all():
        assert badge.evaluate(CONTRAST) >= 4.5


def test_dark_screens_get_a_dark_page(tab: Tabs, service: Server, jobs: dict[str, str]) -> None:
    papers = set()
    for dark in (False, True):
        page = listed(tab(dark=dark), service)
        papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(papers) == 2


def test_filters_narrow_the_list_and_stay_in_the_address(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    page = listed(tab(), service)
    page.get_by_label("Name contains").fill("LARGE")
    until(page, "document.querySelectorAll('#jobs tbody tr').length == 1")
    assert page.locator("#jobs tbody a").inner_text() == "large.mlir"
    page.get_by_label("Name contains").fill("")
    page.get_by_label("State").select_option("failed")
    until(
        page,
        "[...document.querySelectorAll('#jobs tbody tr')].length &&"
        "[...document.querySelectorAll('#jobs .badge.failed')].length =="
        "document.querySelectorAll('#jobs tbody tr').length",
    )
    assert "state=failed" in page.url
    again = tab().page
    again.goto(page.url)
    again.wait_for_selector("#jobs tbody tr")
    assert again.get_by_label("State").input_value() == "failed"
    again.get_by_label("Name contains").fill("no such name")
    again.wait_for_selector("text=No job is like that.")
    assert not again.locator("#jobs").is_visible()


@pytest.fixture
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two hundred jobs behind one that takes its time."""
    folder = tmp_path_factory.mktemp("crowded")
    with Server(folder / "data", engine_command=fake_engine(folder / "engine")) as server:
        server.until(server.submit("slow 600", name="first")["id"], "running")
        module = server.upload("success")
        for number in range(200):
            body = {"module": module, "mesh": "data=2", "name": f"many {number:03}"}
            assert server.client.post("/v1/jobs", json=body).status_code == 202
        yield server


def test_two_hundred_jobs_come_in_pages(tab: Tabs, crowded: Server) -> None:
    phone = tab(width=PHONE)
    page = listed(phone, crowded, "/?name=many")
    seen: list[str] = []
    while True:
        names = page.locator("#jobs tbody a").all_inner_texts()
        seen += names
        older = page.get_by_role("button", name="Older")
        if not older.is_visible():
            break
        older.click()
        until(page, f"document.querySelector('#jobs tbody a').textContent != '{names[0]}'")
    assert seen == [f"many {number:03}" for number in reversed(range(200))]
    assert phone.overflow() == 0
    page.get_by_role("button", name="Newest").click()
    until(page, "document.querySelector('#jobs tbody a').textContent == 'many 199'")


def test_a_name_is_never_markup(tab: Tabs, service: Server, jobs: dict[str, str]) -> None:
    name = "<img src=x onerror=alert(1)>"
    job = service.submit("success", name=name)["id"]
    page = listed(tab(), service)
    assert row(page, job).locator("a").inner_text() == name
    assert page.locator("#jobs img").count() == 0


def test_the_keyboard_alone_opens_a_job(tab: Tabs, service: Server, jobs: dict[str, str]) -> None:
    page = listed(tab(), service, "/?name=tight")
    for _ in range(20):
        page.keyboard.press("Tab")
        focused = page.evaluate("document.activeElement.textContent")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", "it shows where the focus is"
        if focused == "tight.mlir":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/job.html?id=*")


def test_everything_that_can_be_used_has_a_name(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    page = listed(tab(), service)
    page.locator("#new > summary").click()
    page.locator("#upload summary").click()
    for role in ("button", "link", "textbox", "combobox", "checkbox", "searchbox", "spinbutton"):
        for found in page.get_by_role(role).all():
            named = found.evaluate(
                "one => one.getAttribute('aria-label') || one.textContent.trim() ||"
                "(one.labels && one.labels[0] && one.labels[0].textContent.trim())"
            )
            assert named, found.evaluate("one => one.outerHTML")
    page.get_by_role("table", name="Jobs").wait_for()
    page.get_by_role("button", name="Delete fits.mlir").wait_for()
    page.get_by_role("checkbox", name="Compare the plan of tight.mlir").wait_for()


def test_a_job_is_deleted_from_the_list(tab: Tabs, service: Server, jobs: dict[str, str]) -> None:
    job = service.submit("success", name="short-lived")["id"]
    service.finished(job)
    page = listed(tab(), service)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete short-lived").click()
    row(page, job).wait_for(state="detached")
    assert page.evaluate("document.activeElement.tagName") == "A", "the focus goes to a neighbour"
    assert service.client.get(f"/v1/jobs/{job}").status_code == 404


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    environment = {"TOAST_API_KEYS": KEY}
    engine = fake_engine(folder / "engine")
    with Server(folder / "data", engine_command=engine, environment=environment) as server:
        server.client.headers["Authorization"] = f"Bearer {KEY}"
        yield server


def test_a_key_is_asked_for_and_used(tab: Tabs, guarded: Server) -> None:
    job = guarded.submit("success", name="secret.mlir")["id"]
    guarded.finished(job)
    page = tab().page
    page.goto(guarded.url)
    field = page.get_by_label("API key of this service")
    field.fill("wrong-key-wrong-key")
    field.press("Enter")
    page.wait_for_selector("#key:visible")
    assert page.locator("tr[data-job]").count() == 0
    field.fill(KEY)
    field.press("Enter")
    page.get_by_role("link", name="secret.mlir").click()
    page.wait_for_selector("h1:has-text('secret.mlir')")
    assert not page.locator("#key").is_visible()


def test_a_service_that_is_gone_is_said_and_forgotten(tab: Tabs, guarded: Server) -> None:
    page = tab().page
    page.goto(guarded.url)
    page.route("**/v1/jobs?*", lambda route: route.abort())
    page.get_by_label("API key of this service").fill(KEY)
    page.get_by_role("button", name="Use the key").click()
    page.wait_for_selector("#problem:has-text('does not answer')")
    page.unroute("**/v1/jobs?*")
    page.wait_for_selector("text=No jobs yet")
    assert not page.locator("#problem").is_visible()
