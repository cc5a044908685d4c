"""What the service has, its documents explain: routes, flags, metrics, fields, states."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.service.harness import ROOT, Server, as_object
from toast.search.planners import PLANNERS
from toast.service.__main__ import parser
from toast.service.access.keys import ENVIRONMENT
from toast.service.ledger.states import State
from toast.service.readable import PLANNERS as KNOWN_PLANNERS
from toast.service.web.views import JobRequest, JobView
from toast.service.work.attempt import AttemptVerdict

API = (ROOT / "docs/http-api.md").read_text()
OPERATIONS = (ROOT / "docs/service.md").read_text()
HEADING = re.compile(r"^### `(GET|POST|DELETE) (/\S*)`$", re.MULTILINE)


def routes(server: Server) -> set[tuple[str, str]]:
    paths: dict[str, dict[str, Any]] = as_object(server.client.get("/openapi.json"))["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


def test_every_route_is_documented_and_no_other(server: Server) -> None:
    assert set(HEADING.findall(API)) == routes(server)


def test_every_route_has_an_example_with_curl() -> None:
    sections = HEADING.split(API)[1:]
    for method, path, text in zip(sections[::3], sections[1::3], sections[2::3], strict=True):
        last = path.rpartition("/")[2]
        wanted = {"{job_id}": "$JOB", "{module_id}": "$MODULE"}.get(last, last)
        assert re.search(r"curl [^`]*" + re.escape(wanted), text), f"{method} {path}"


def test_every_flag_is_documented_and_no_other() -> None:
    flags = set(re.findall(r"^\| `(--[a-z-]+)` \|", OPERATIONS, re.MULTILINE))
    declared = {option for action in parser()._actions for option in action.option_strings}
    assert flags == declared - {"-h", "--help"}
    assert ENVIRONMENT in OPERATIONS


def test_every_metric_is_documented_and_no_other(server: Server) -> None:
    server.finished(server.submit("success")["id"])
    text = server.client.get("/metrics").text
    shown = set()
    for family in text_string_to_metric_families(text):
        shown.add(family.name + ("_total" if family.type == "counter" else ""))
        assert family.documentation
    assert len(shown) >= 12
    assert set(re.findall(r"`(toast_[a-z_]+)(?:\{[a-z,]+\})?`", OPERATIONS)) == shown


def test_every_state_and_outcome_is_documented() -> None:
    for word in (*State, *AttemptVerdict):
        assert f"`{word.value}`" in OPERATIONS, word


@pytest.mark.parametrize("name", sorted(JobRequest.model_fields))
def test_every_field_of_a_request_is_documented(name: str) -> None:
    assert f"\n| `{name}` |" in API


@pytest.mark.parametrize(
    "name",
    [
        "attempt",
        "failures",
        "lost_workers",
        "interruptions",
        "server_deaths",
        "not_before",
        "waits_for",
        "progress",
        "summary",
        "error",
        "cached_from",
        "links",
    ],
)
def test_the_fields_of_a_job_that_need_words_have_them(name: str) -> None:
    assert name in JobView.model_fields
    assert f"`{name}`" in API


def test_the_planners_are_those_of_the_search() -> None:
    """The names are written down twice, because the server may not import the search."""
    assert set(KNOWN_PLANNERS) == set(PLANNERS)
    for name in KNOWN_PLANNERS:
        assert f"`{name}`" in API


def test_help_explains_every_flag() -> None:
    command = [sys.executable, "-m", "toast.service", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    for action in parser()._actions:
        assert action.help
        assert action.option_strings[-1] in done.stdout


def test_the_readme_names_files_that_exist() -> None:
    room = ROOT / "service"
    text = (room / "README.md").read_text()
    rows = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(names) > 10
    assert [name for name in names if not (room / name).exists()] == []
    shown = {path.name for path in room.glob("*.py")} - {"__init__.py"}
    shown |= {f"{path.parent.name}/" for path in room.glob("*/__init__.py")}
    assert shown - set(names) == set()
