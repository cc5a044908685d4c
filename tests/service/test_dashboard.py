"""The dashboard asks for metrics that exist, by labels that they have."""

from __future__ import annotations

import json
import re
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.service.harness import ROOT, Server

DASHBOARD = json.loads((ROOT / "service/observe/dashboard.json").read_text())
METRIC = re.compile(r"\b(toast_[a-z_]+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\bby \(([a-z, ]+)\)")
SUFFIX = re.compile(r"_(bucket|count|sum)$")


def expressions() -> list[str]:
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert len(found) >= 12
    return found


def shown(server: Server) -> dict[str, set[str]]:
    """The labels of every metric that a used server shows."""
    server.finished(server.submit("success")["id"])
    server.client.get("/nothing")
    text = server.client.get("/metrics").text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        name = family.name + ("_total" if family.type == "counter" else "")
        found[name] = {label for sample in family.samples for label in sample.labels}
    found["toast_http_connections_dropped_total"].add("reason")  # no sample of it yet
    return found


def test_every_expression_asks_for_what_there_is(server: Server) -> None:
    metrics = shown(server)
    for text in expressions():
        names = METRIC.findall(text)
        assert names, text
        for name, selectors in names:
            known = metrics.get(SUFFIX.sub("", name))
            assert known is not None, f"{name} is no metric"
            labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selectors)) - {"instance"}
            for group in GROUPED.findall(text):
                labels |= {label.strip() for label in group.split(",")}
            assert labels <= known, f"{name} has no label {labels - known}"


def test_panels_are_where_they_can_be_seen() -> None:
    taken: set[tuple[int, int]] = set()
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    for panel in DASHBOARD["panels"]:
        place: dict[str, Any] = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        used = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps(panel)))
        assert used <= names, panel["title"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_words_of_legends_are_labels() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert label in GROUPED.search(target["expr"])[1]  # type: ignore[index]
