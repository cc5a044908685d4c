"""A browser, a service with jobs of every kind, and tabs that hear every complaint of a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import Server, fake_engine, sample_plan
from tests.service.pages.chromium import Tab, missing, running_browser

GIB = 1 << 30


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, and say why, where there is no browser."""
    here = Path(__file__).parent
    if why := missing():
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=f"PAGES NOT TESTED: {why}"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    # Not for the session: while it lives the process has an event loop, and other tests run theirs.
    with running_browser() as found:
        yield found


@pytest.fixture
def tab(chromium: Any) -> Iterator[Callable[..., Tab]]:
    """Opens tabs; at the end no page has complained."""
    opened: list[Tab] = []

    def make(**options: Any) -> Tab:
        opened.append(Tab(chromium, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
    assert [line for one in opened for line in one.complaints] == []


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("pages")
    engine = fake_engine(directory / "engine")
    with Server(directory / "data", engine_command=engine, workers=2, drain=1.0) as running:
        yield running


@pytest.fixture(scope="session")
def jobs(service: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The ids of jobs whose plans fit, are tight, do not fit, or that failed, by name."""
    template = next(tmp_path_factory.getbasetemp().glob("pages*/engine/template.json"))
    usual = template.read_text()
    kinds: dict[str, dict[str, Any]] = {
        "fits.mlir": {"verdict": "fits"},
        "tight.mlir": {"verdict": "tight", "peak_bytes": 15 * GIB},
        "large.mlir": {"fits": False, "peak_bytes": 17 * GIB, "step_seconds": 0.5},
    }
    found: dict[str, str] = {}
    for name, cost in kinds.items():
        document = sample_plan().model_dump(mode="json", by_alias=True)
        document["predicted"] |= cost
        template.write_text(json.dumps(document))
        found[name] = str(service.submit("success", name=name)["id"])
        assert service.finished(found[name])["state"] == "succeeded"
    template.write_text(usual)
    found["broken.mlir"] = str(service.submit("error", name="broken.mlir")["id"])
    service.finished(found["broken.mlir"])
    return found
