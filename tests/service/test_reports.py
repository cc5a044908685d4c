"""The report of a job, and what the page says of a plan that does not fit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from examples import forms, mlp
from tests.service.harness import Server, check_problem
from tools.browser import browser, missing

MODULE = forms.serialize(mlp.make_step(mlp.PRESETS["small"]), "text").decode()


FRAME = "document.querySelector('iframe')?.contentDocument"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("real") / "data", workers=1) as server:
        yield server


@pytest.fixture(scope="module")
def tight(real: Server) -> str:
    """A job whose plan does not fit."""
    asked = {"mesh": "data=2", "device": "cpu", "memory": "200KB", "rollouts": 16, "threads": 1}
    job = real.finished(real.submit(MODULE, **asked)["id"], seconds=120)
    assert job["state"] == "succeeded", job["error"]
    assert not job["summary"]["fits"]
    return str(job["id"])


def test_a_job_has_its_report(real: Server, tight: str) -> None:
    job = real.job(tight)
    answer = real.client.get(job["links"]["report"], timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert f"Sharding plan: {job['name']}" in answer.text
    assert "What would fit" in answer.text


def test_the_summary_says_what_would_fit(real: Server, tight: str) -> None:
    advice = real.job(tight)["summary"]["advice"]
    assert any(line.startswith("more chips: ") for line in advice)


def test_a_job_without_a_plan_has_no_report(real: Server) -> None:
    job = real.finished(real.submit("poem", mesh="data=2")["id"], seconds=60)
    assert "report" not in job["links"]
    answer = real.client.get(f"/v1/jobs/{job['id']}/report")
    check_problem(answer, 404, "no_result", "without a plan")


@pytest.mark.skipif(bool(missing()), reason=f"no browser, {missing()}")
def test_the_page_shows_the_advice_and_opens_the_report(real: Server, tight: str) -> None:
    with browser() as tab:
        tab.look(f"{real.url}/ui/job.html?id={tight}", width=1280)
        advice = "[...document.querySelectorAll('#advice li')].map(each => each.textContent)"
        tab.wait("Boolean(document.querySelector('#advice li'))")
        assert tab.ask(advice) == real.job(tight)["summary"]["advice"]
        assert tab.wait(f"Boolean({FRAME}?.querySelector('#search'))", seconds=60)
        assert tab.ask(f"{FRAME}.title") == f"Sharding plan: {real.job(tight)['name']}"
        assert tab.ask(f"{FRAME}.querySelectorAll('svg.plot').length") > 0
