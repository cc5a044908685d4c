"""Refused requests in the audit log: who sent them, and not so many that they fill the disk."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service.harness import Server, fake_engine
from toast.service.access.audit import AuditTrail
from toast.service.access.callers import Caller, Scope
from toast.service.access.key_file import add_key
from toast.service.web.refusals import RefusalLog


def refused(folder: Path) -> list[dict[str, Any]]:
    file = folder / "audit.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [record for record in records if record["action"] == "request.refused"]


@pytest.mark.parametrize(
    ("status", "key", "request_of"),
    [
        (401, "", {"method": "GET", "url": "/v1/jobs", "headers": {"Authorization": "Bearer no"}}),
        (403, "look", {"method": "POST", "url": "/v1/modules", "content": b"x"}),
        (413, "work", {"method": "POST", "url": "/v1/modules", "content": b"x" * 5000}),
        (422, "work", {"method": "POST", "url": "/v1/jobs", "json": {"mesh": "data=2"}}),
        (429, "work", {"method": "POST", "url": "/v1/jobs", "json": {"mesh": "data=2"}}),
    ],
)
def test_a_refusal_is_recorded_with_who_was_refused(
    tmp_path: Path, status: int, key: str, request_of: dict[str, Any]
) -> None:
    keys = tmp_path / "keys"
    texts = {
        name: add_key(keys, Caller(name=name, owner=f"{name}ers", scopes=frozenset({scope})))
        for name, scope in (("look", Scope.READ), ("work", Scope.SUBMIT))
    }
    with Server(
        tmp_path / "data",
        engine_command=fake_engine(tmp_path / "engine"),
        keys=str(keys), max_body=4096, owner_rate=1, drain=1.0,
    ) as server:  # fmt: skip
        server.client.headers["Authorization"] = f"Bearer {texts.get(key, '')}"
        if status == 429:
            request_of = request_of | {"json": {"module": server.upload("success"), "mesh": "a=2"}}
            assert server.client.request(**request_of).status_code == 202
        for _ in range(3):
            answer = server.client.request(**request_of)
            assert answer.status_code == status, answer.text
        end = time.monotonic() + 10
        while not refused(tmp_path / "data") and time.monotonic() < end:
            time.sleep(0.02)  # the record follows the answer
        (record,) = refused(tmp_path / "data")
        assert record["status"] == status
        assert (record["method"], record["path"]) == (request_of["method"], request_of["url"])
        assert record["address"] == "127.0.0.1"
        assert (record.get("key"), record.get("owner")) == (
            (key, f"{key}ers") if key else (None,) * 2
        )
        assert httpx2.get(f"{server.url}/healthz", trust_env=False).status_code == 200
        assert len(refused(tmp_path / "data")) == 1  # what is answered is no refusal


def note(log: RefusalLog, address: str, status: int = 401) -> None:
    scope = {"type": "http", "method": "GET", "client": (address, 1), "state": {}}
    asyncio.run(log.note(scope, status, "/v1/jobs", "id"))


def test_the_next_record_says_how_many_there_were(tmp_path: Path) -> None:
    now = 0.0
    log = RefusalLog(AuditTrail(tmp_path / "audit.jsonl"), clock=lambda: now)
    for second in (0, 1, 2, 59, 61, 62):
        now = float(second)
        note(log, "a")
    assert [record.get("count") for record in refused(tmp_path)] == [None, 4]


def test_a_flood_from_many_addresses_writes_few_records(tmp_path: Path) -> None:
    log = RefusalLog(AuditTrail(tmp_path / "audit.jsonl"), clock=lambda: 0.0)
    for number in range(1500):
        note(log, f"10.0.{number // 250}.{number % 250}")
    found = refused(tmp_path)
    assert len(found) == 1001
    assert found[-1]["address"] == "others"
