"""The client against a real server with an engine that does as it is told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.harness import Server, fake_engine
from toast.analysis.errors import EngineCrashed, InvalidModule, UnknownDevice
from toast.client import Client, JobEvent, ServiceRefused, ServiceUnavailable


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("client")
    engine = fake_engine(directory / "engine")
    with Server(directory / "data", engine_command=engine, workers=2, drain=1.0) as server:
        yield server.url


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as opened:
        yield opened


def test_upload_submit_follow_fetch(client: Client) -> None:
    events: list[JobEvent] = []
    job = client.submit(b"slow 1", mesh="data=2", seed=3)
    end = client.wait(job, on_event=events.append)
    assert end["state"] == "succeeded"
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert events[-1].data["state"] == "succeeded"
    assert any(event.kind == "progress" for event in events)
    answer = client.answer(job)
    assert answer.plan.search.seed == 3
    assert answer.module == b"// sharded\nslow 1"
    assert answer.suffix == ".mlir"
    assert client.plan(job) == answer.plan
    assert client.module(job) == answer.module
    client.delete(job)
    with pytest.raises(ServiceRefused) as caught:
        client.job(job)
    assert caught.value.problem["code"] == "unknown_job"


def test_the_form_comes_back(client: Client) -> None:
    job = client.submit(b"success", mesh="data=2", seed=7)
    client.wait(job)
    assert client.answer(job).suffix == ".mlirbc"


def test_events_go_on_where_they_were_left(client: Client) -> None:
    job = client.submit(b"slow 0.5", mesh="data=2")
    every = list(client.events(job))
    assert [e.number for e in client.events(job, after=2)] == [e.number for e in every[2:]]
    assert list(client.events(job, after=every[-1].number)) == []


def test_a_module_is_uploaded_once_and_a_key_makes_one_job(client: Client) -> None:
    identity = client.upload(b"success twice")
    assert client.upload(b"success twice") == identity
    jobs = {client.submit(identity, mesh="data=2", idempotency_key="k1") for _ in range(2)}
    assert len(jobs) == 1


def test_an_earlier_result_may_do(client: Client) -> None:
    first = client.submit(b"success cached", mesh="data=2")
    client.wait(first)
    job = client.submit(b"success cached", mesh="data=2", cache="exact")
    assert client.job(job)["cached_from"] == first
    assert client.wait(job)["state"] == "succeeded"  # by its one event
    assert client.module(job) == client.module(first)


def test_cancel_keeps_the_best_plan(client: Client) -> None:
    job = client.submit(b"slow 60", mesh="data=2")
    for event in client.events(job):
        if event.kind == "progress":
            break
    client.cancel(job)
    end = client.wait(job)
    assert end["state"] in ("cancelled", "succeeded")
    assert client.plan(job).mesh.axes[0].name == "data"


def test_errors_of_jobs_keep_their_class(client: Client) -> None:
    with pytest.raises(InvalidModule, match="Line 3, column 7") as bad:
        client.wait(client.submit(b"error", mesh="data=2"))
    assert bad.value.hint == "Fix it."
    with pytest.raises(EngineCrashed, match=r"rank == 2 \(3 vs. 2\)"):
        client.wait(client.submit(b"abort", mesh="data=2"))


def test_what_the_service_refuses(client: Client) -> None:
    with pytest.raises(UnknownDevice):
        client.submit(b"success", mesh="data=2", device="abacus")
    with pytest.raises(ServiceRefused) as empty:
        client.upload(b"")
    assert empty.value.problem["code"] == "empty_body"
    with pytest.raises(ServiceRefused) as unknown:
        client.submit("0" * 64, mesh="data=2")
    assert unknown.value.problem["code"] == "unknown_module"
    with pytest.raises(ServiceRefused) as nobody:
        list(client.events("nobody"))
    assert nobody.value.problem["status"] == 404


def test_devices(client: Client) -> None:
    assert "tpu-v5e" in [device["name"] for device in client.devices()]


def test_a_key_is_sent(tmp_path: Path) -> None:
    environment = {"TOAST_API_KEYS": "a-key-of-some-length"}
    engine = fake_engine(tmp_path / "engine")
    server = Server(tmp_path / "data", environment=environment, engine_command=engine, drain=1.0)
    with server:
        with Client(server.url) as stranger, pytest.raises(ServiceRefused) as refused:
            stranger.devices()
        assert refused.value.problem["status"] == 401
        with Client(server.url, key="a-key-of-some-length") as friend:
            assert friend.devices()


def test_nobody_answers() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Client(url) as client, pytest.raises(ServiceUnavailable, match=url):
            client.devices()


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://127.0.0.1/", "http://[::1"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ServiceUnavailable) as caught, Client(url) as client:
        client.devices()
    assert "toast serve" in caught.value.hint
