"""Who has an answer already is told so, on every path that can be asked again."""

from __future__ import annotations

import pytest

from tests.service.harness import Server


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs", "/v1/jobs?state=succeeded&limit=1", "/v1/jobs/{id}", "/v1/jobs/{id}/plan",
        "/v1/jobs/{id}/module", "/v1/jobs/{id}/report", "/v1/modules/{module}", "/v1/devices",
    ],
)  # fmt: skip
def test_what_did_not_change_is_not_sent_again(server: Server, path: str) -> None:
    job = server.finished(server.submit("success conditional")["id"])
    url = path.format(**job)
    first = server.client.get(url)
    assert first.status_code == 200
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    for seen in (tag, f'"other", W/{tag}', "*"):
        same = server.client.get(url, headers={"If-None-Match": seen})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    other = server.client.get(url, headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.headers["etag"]) == (200, tag)


def test_a_list_changes_with_its_jobs(server: Server) -> None:
    server.finished(server.submit("success conditional")["id"])
    tag = server.client.get("/v1/jobs").headers["etag"]
    job = server.finished(server.submit("success conditional")["id"])
    changed = server.client.get("/v1/jobs", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    server.client.delete(f"/v1/jobs/{job['id']}")
    assert server.client.get("/v1/jobs").headers["etag"] == tag
