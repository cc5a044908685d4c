"""The page of a job, sending a module, and two plans side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.service.harness import Server
from tests.service.pages.chromium import PHONE, Tab, until

Tabs = Callable[..., Tab]
DROP = """async ([name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    for (const kind of ["dragover", "drop"])
        document.getElementById("jobs").dispatchEvent(
            new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def opened(tab: Tab, service: Server, job: str) -> Any:
    tab.page.goto(f"{service.url}/ui/job.html?id={job}")
    tab.page.wait_for_selector("h1:not(:empty)")
    return tab.page


def test_progress_comes_by_itself_and_then_the_end(tab: Tabs, service: Server) -> None:
    job = service.submit("slow 5", name="slow.mlir")["id"]
    service.until_progress(job)
    chromium = tab()
    asked: list[str] = []
    chromium.page.on("request", lambda request: asked.append(request.url))
    page = opened(chromium, service, job)
    until(page, "document.getElementById('bar').value > 0.2")
    assert page.locator("#stage").inner_text() == "search"
    page.wait_for_selector("#state:has-text('succeeded')")
    page.wait_for_selector("#tiles .tile")
    assert not page.locator("#running").is_visible()
    polled = [url for url in asked if url.endswith(f"/v1/jobs/{job}")]
    assert len(polled) == 2, "progress comes as events: the job is read first and at its end"
    page.locator("summary", has_text="What happened").click()
    said = page.locator("#log li").evaluate_all("rows => rows.map(row => row.dataset.said)")
    assert said == ["queued", "running", "search", "succeeded"]


def test_events_go_on_where_a_connection_broke(tab: Tabs, service: Server) -> None:
    page = tab().page
    streams: list[str | None] = []

    def answer(route: Any) -> None:
        streams.append(route.request.headers.get("last-event-id"))
        if len(streams) > 1:
            route.continue_()
            return
        text = 'id: 1\nevent: state\ndata: {"state":"queued","at":1}\n\n'
        route.fulfill(status=200, content_type="text/event-stream", body=text)

    page.route("**/events", answer)
    job = service.submit("slow 3", name="broken-line")["id"]
    page.goto(f"{service.url}/ui/job.html?id={job}")
    page.wait_for_selector("#state:has-text('succeeded')")
    assert streams[:2] == [None, "1"]


def test_a_running_job_is_cancelled(tab: Tabs, service: Server) -> None:
    job = service.submit("slow 60", name="long.mlir")["id"]
    service.until_progress(job)
    page = opened(tab(), service, job)
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector("#state:has-text('cancelled')")
    assert service.job(job)["state"] == "cancelled"
    assert page.get_by_role("button", name="Download the plan").is_visible()


def test_the_end_of_a_job_is_shown_with_its_results(tab: Tabs, service: Server) -> None:
    job = service.submit("slow 60", name="held.mlir")["id"]
    service.until_progress(job)
    page = opened(tab(), service, job)
    until(page, "document.querySelector('#log li')")  # no request of its start is on the way
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route(f"**/v1/jobs/{job}", hold)
    with page.expect_request(lambda request: request.url.endswith(f"/v1/jobs/{job}")):
        page.get_by_role("button", name="Cancel").click()
    until(page, "document.querySelector('#log li:last-child').dataset.said === 'cancelled'")
    assert page.locator("#state").inner_text() == "cancelling", "its plan is not read yet"
    held[0].continue_()
    page.wait_for_selector("#state:has-text('cancelled')")
    assert page.get_by_role("button", name="Download the plan").is_visible()


def test_a_failed_job_says_why_and_what_to_do(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    page = opened(tab(), service, jobs["broken.mlir"])
    shown = page.get_by_role("alert").filter(has_text="Line 3").inner_text()
    error = service.job(jobs["broken.mlir"])["error"]
    assert shown.split("\n\n") == [error["detail"], error["hint"]]


def test_the_report_is_in_the_page_and_fits_a_phone(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    phone = tab(width=PHONE)
    page = opened(phone, service, jobs["large.mlir"])
    frame = page.frame_locator("iframe")
    frame.locator("h1", has_text="Sharding plan: large.mlir").wait_for(timeout=60_000)
    until(page, "!document.getElementById('report-note').offsetHeight")
    assert phone.overflow() == 0
    inside = page.frames[1]
    assert inside.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
    assert inside.evaluate("innerHeight >= document.documentElement.scrollHeight")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert inside.evaluate(paper) != "rgba(0, 0, 0, 0)", "its style is not refused"
    assert page.locator("#verdict").inner_text() == "does not fit"


def test_a_plan_is_downloaded_under_the_name_of_its_model(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    page = opened(tab(), service, jobs["fits.mlir"])
    with page.expect_download() as found:
        page.get_by_role("button", name="Download the plan").click()
    assert found.value.suggested_filename == "fits.mlir.plan.json"
    plan = service.client.get(f"/v1/jobs/{jobs['fits.mlir']}/plan").content
    assert Path(found.value.path()).read_bytes() == plan


def test_a_job_that_is_not_there_is_said(tab: Tabs, service: Server) -> None:
    page = tab().page
    page.goto(f"{service.url}/ui/job.html?id=nothing")
    page.wait_for_selector("#problem:has-text('There is no job')")


def test_a_module_is_dropped_and_becomes_a_job(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    page = tab().page
    page.goto(service.url)
    page.wait_for_selector("#jobs tbody tr")
    page.evaluate(DROP, ["dropped.mlir", "success"])
    assert page.evaluate("document.activeElement.name") == "mesh"
    page.keyboard.type("data=2,model=4")
    page.get_by_label("Memory per chip").fill("8GiB")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/job.html?id=*")
    page.wait_for_selector("h1:has-text('dropped.mlir')")
    job = service.job(page.url.rpartition("=")[2])
    request = job["request"]
    assert (job["name"], request["mesh"], request["memory"]) == (
        "dropped.mlir", "data=2,model=4", 8 << 30,
    )  # fmt: skip


def test_a_step_is_rewritten_as_the_form_asks(tab: Tabs, service: Server, tmp_path: Path) -> None:
    file = tmp_path / "chosen.mlir"
    file.write_text("success")
    page = tab().page
    page.goto(service.url)
    page.locator("#new > summary").click()
    page.locator("#upload summary").click()
    page.locator("#file").set_input_files(file)
    page.get_by_label("Mesh").fill("data=2")
    page.get_by_label("Layers to recompute").select_option("products")
    page.get_by_label("Where nothing fits").check()
    page.get_by_role("textbox", name="Microbatches").fill("4")
    page.get_by_role("button", name="Plan it").click()
    page.wait_for_selector("#upload-problem:has-text('fit')")
    page.get_by_role("textbox", name="Microbatches").fill("auto")
    page.get_by_role("button", name="Plan it").click()
    page.wait_for_url("**/ui/job.html?id=*")
    asked = service.client.get(f"/v1/jobs/{page.url.rpartition('=')[2]}").json()["request"]
    assert (asked["microbatches"], asked["recompute"], asked["fit"]) == ("auto", ["products"], True)


def test_what_is_wrong_with_an_upload_is_said_in_the_services_words(
    tab: Tabs, service: Server, tmp_path: Path
) -> None:
    file = tmp_path / "chosen.mlir"
    file.write_text("success")
    page = tab().page
    page.goto(service.url)
    page.locator("#new > summary").click()
    send = page.get_by_role("button", name="Plan it")
    alert = page.locator("#upload-problem")
    send.click()
    assert "There is no module." in alert.inner_text()
    page.locator("#file").set_input_files(file)
    send.click()
    assert "The mesh is missing." in alert.inner_text()
    page.get_by_label("Mesh").fill("data=2,data=4")
    send.click()
    page.wait_for_selector("#upload-problem:has-text('data')")
    refused = service.client.post(
        "/v1/jobs", json={"module": service.upload("success"), "mesh": "data=2,data=4"}
    ).json()
    assert alert.inner_text().split("\n\n") == [refused["detail"], refused["hint"]]
    assert page.evaluate("document.activeElement.name") == "mesh"
    assert page.get_by_label("Mesh").get_attribute("aria-invalid") == "true"
    page.get_by_label("Mesh").fill("data=2")
    page.get_by_label("Memory per chip").fill("much")
    send.click()
    page.wait_for_selector("#upload-problem:has-text('much')")
    assert page.evaluate("document.activeElement.name") == "memory"
    page.get_by_label("Memory per chip").fill("")
    page.get_by_label("Name", exact=True).fill("my own name")
    page.locator("#upload select[name=device]").select_option("h100-80gb")
    send.click()
    page.wait_for_selector("h1:has-text('my own name')")
    assert "h100" in page.locator("#asked").inner_text()


def test_two_plans_are_compared(tab: Tabs, service: Server, jobs: dict[str, str]) -> None:
    phone = tab(width=PHONE)
    page = phone.page
    page.goto(service.url + "/?state=succeeded")
    for name in ("fits.mlir", "large.mlir"):
        page.get_by_role("checkbox", name=f"Compare the plan of {name}").check()
    page.get_by_role("button", name="Compare the two").click()
    page.wait_for_selector("#found table", timeout=60_000)
    found = page.locator("#found").inner_text()
    path = f"/v1/jobs/{jobs['fits.mlir']}/diff/{jobs['large.mlir']}"
    document = service.client.get(path, timeout=60).json()
    assert [row["what"] for row in document["figures"]] == [
        "step", "compute", "communication", "peak",
    ]  # fmt: skip
    for words in ("250 ms", "500 ms", "+250 ms", "+100.0 %", "17.00 GiB", "+16.00 GiB"):
        assert words in found, found
    assert phone.overflow() == 0


def test_plans_of_other_modules_are_not_compared(
    tab: Tabs, service: Server, jobs: dict[str, str]
) -> None:
    page = tab().page
    page.goto(f"{service.url}/ui/compare.html?a={jobs['fits.mlir']}&b={jobs['broken.mlir']}")
    page.wait_for_selector("#problem:has-text('without a plan')")
