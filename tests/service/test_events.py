"""Server-sent events: everything, in order, once, and then the end."""

from __future__ import annotations

from tests.service.harness import Server, parse_events


def test_the_stream_tells_the_whole_story(server: Server) -> None:
    job = server.submit("slow 1")
    events = server.events(job["id"])  # follows the job live, to its end
    numbers = [int(event["id"]) for event in events]
    assert numbers == list(range(1, len(events) + 1))
    states = [event["data"]["state"] for event in events if event["event"] == "state"]
    assert states == ["queued", "running", "succeeded"]
    progress = [event["data"]["fraction"] for event in events if event["event"] == "progress"]
    assert len(progress) >= 2
    assert progress == sorted(progress)
    assert server.job(job["id"])["progress"]["fraction"] == progress[-1]


def test_a_reader_goes_on_where_it_was(server: Server) -> None:
    job = server.finished(server.submit("success")["id"])
    events = server.events(job["id"])
    assert server.events(job["id"]) == events
    assert server.events(job["id"], last="2") == events[2:]
    assert server.events(job["id"], last="nonsense") == events


def test_who_has_seen_the_end_need_not_come_back(server: Server) -> None:
    job = server.finished(server.submit("success")["id"])
    last = server.events(job["id"])[-1]["id"]
    answer = server.client.get(f"/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": last})
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_failure_is_in_the_last_event(server: Server) -> None:
    job = server.submit("error")
    last = server.events(job["id"])[-1]
    assert last["data"]["state"] == "failed"
    assert last["data"]["error"]["code"] == "invalid_module"


def test_events_come_as_they_happen(server: Server) -> None:
    job = server.submit("slow 60")
    with server.client.stream("GET", f"/v1/jobs/{job['id']}/events") as answer:
        text = ""
        for chunk in answer.iter_text():
            text += chunk
            if "event: progress" in text and "cancelling" not in text:
                server.client.post(f"/v1/jobs/{job['id']}/cancel")
    states = [e["data"]["state"] for e in parse_events(text) if e["event"] == "state"]
    assert states == ["queued", "running", "cancelling", "cancelled"]


def test_a_deleted_job_ends_its_streams(server: Server) -> None:
    blockers = [server.submit("slow 60") for _ in range(2)]
    for job in blockers:
        server.until(job["id"], "running")
    waiting = server.submit("success")
    with server.client.stream("GET", f"/v1/jobs/{waiting['id']}/events") as answer:
        chunks = answer.iter_text()
        text = next(chunks)
        assert server.client.delete(f"/v1/jobs/{waiting['id']}").status_code == 204
        text += "".join(chunks)
    assert [event["data"]["state"] for event in parse_events(text)] == ["queued"]
    for job in blockers:
        server.client.post(f"/v1/jobs/{job['id']}/cancel")
        server.finished(job["id"])


def test_streams_of_unknown_jobs_are_refused(server: Server) -> None:
    answer = server.client.get("/v1/jobs/nobody/events")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_job")
