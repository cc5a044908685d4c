"""Worker processes: ready ahead of time, noticed when they stop, with few rights."""

from __future__ import annotations

import os
import re
import resource
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.modules import text
from tests.service.harness import Server, fake_engine
from toast.process.child import Child
from toast.process.runner import Limits, engine_command, engine_environment, follow
from toast.service.settings import ServiceSettings
from toast.service.work.cgroups import Cgroups, own_group
from toast.service.work.process_launcher import ProcessLauncher, UnknownUser, find_user

NOBODY = 65534


def make(tmp_path: Path, **settings: Any) -> Server:
    engine = fake_engine(tmp_path / "engine")
    return Server(tmp_path / "data", engine_command=engine, **{"drain": 1.0, **settings})


def children(server: Server) -> list[psutil.Process]:
    assert server.process is not None
    return psutil.Process(server.process.pid).children()


def wait_children(server: Server, count: int = 1) -> list[psutil.Process]:
    end = time.monotonic() + 15
    while len(found := children(server)) != count:
        assert time.monotonic() < end, f"{len(found)} processes in place of {count}"
        time.sleep(0.02)
    return found


def starts(server: Server) -> dict[str, float]:
    text = server.client.get("/metrics").text
    found = re.findall(r'toast_worker_starts_total\{kind="(\w+)"\} (\S+)', text)
    return {kind: float(count) for kind, count in found}


def test_a_spare_process_takes_the_job_and_is_replaced(tmp_path: Path) -> None:
    with make(tmp_path, spares=1) as server:
        pids = set()
        for _ in range(3):
            (spare,) = wait_children(server)
            pids.add(spare.pid)
            job = server.submit("slow 0.3")["id"]
            server.until(job, "running")
            assert server.finished(job)["state"] == "succeeded"
            psutil.wait_procs([spare], timeout=60)
            assert not spare.is_running()  # used once
        assert len(pids) == 3
        assert starts(server) == {"spare": 3.0}
        server.terminate()
        assert server.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_spare_that_dies_or_stops_costs_no_job(tmp_path: Path, number: signal.Signals) -> None:
    with make(tmp_path, spares=1) as server:
        (spare,) = wait_children(server)
        spare.send_signal(number)
        done = server.finished(server.submit("success")["id"])
        assert (done["state"], done["attempt"], done["lost_workers"]) == ("succeeded", 1, 0)
        psutil.wait_procs([spare], timeout=60)
        assert not spare.is_running()
        wait_children(server)


def test_the_spares_end_with_a_killed_server(tmp_path: Path) -> None:
    with make(tmp_path, spares=2) as server:
        spares = wait_children(server, 2)
        server.kill()
        assert psutil.wait_procs(spares, timeout=60)[1] == []


def test_spares_that_cannot_live_are_not_started_over_and_over(tmp_path: Path) -> None:
    log = tmp_path / "starts"
    engine = tmp_path / "engine.sh"
    engine.write_text(f"#!/bin/sh\necho start >> {log}\nexit 3\n")
    engine.chmod(0o755)
    with Server(tmp_path / "data", engine_command=[str(engine)], spares=1, drain=1.0):
        time.sleep(3.5)
        assert 1 <= len(log.read_text().splitlines()) <= 3


@pytest.mark.parametrize("mode", ["mute-once", "pause-once"])
def test_a_worker_that_stops_is_replaced_within_seconds(tmp_path: Path, mode: str) -> None:
    with make(tmp_path, stall=1.0) as server:
        began = time.monotonic()
        done = server.finished(server.submit(mode)["id"])
        assert time.monotonic() - began < 15
        assert (done["state"], done["attempt"]) == ("succeeded", 2)
        assert (done["lost_workers"], done["failures"]) == (0, 0)
        assert 'toast_attempts_total{outcome="stalled"} 1.0' in server.client.get("/metrics").text


def test_a_worker_that_always_stops_is_given_up(tmp_path: Path) -> None:
    with make(tmp_path, stall=0.5, max_lost=2) as server:
        done = server.finished(server.submit("mute")["id"])
        assert (done["state"], done["attempt"]) == ("failed", 3)
        assert done["error"]["code"] == "worker_lost"


def shell(script: str, tmp_path: Path, stall: float) -> tuple[str, float]:
    """How `sh -c script` ends under a limit on silence, and after how long."""
    began = time.monotonic()
    child = Child(["/bin/sh", "-c", script], dict(os.environ))
    outcome = follow(child, tmp_path, Limits(stall_s=stall))
    return outcome.status, time.monotonic() - began


def test_silence_alone_is_no_stall(tmp_path: Path) -> None:
    busy = "end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done"
    status, seconds = shell(busy, tmp_path, stall=0.8)
    assert status == "failed"  # it ended by itself, without a plan
    assert seconds > 1.5
    status, seconds = shell("sleep 60", tmp_path, stall=0.8)
    assert status == "stalled"
    assert seconds < 5


def test_what_has_ended_has_worked_too() -> None:
    busy = "( i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done ); echo '{}'; exec sleep 60"
    child = Child(["/bin/sh", "-c", busy], dict(os.environ))
    try:
        assert child.events.get(timeout=60) == {}
        assert child.cpu_seconds() > 0.05
    finally:
        child.kill()
    assert child.cpu_seconds() == 0


def test_a_pause_of_the_server_is_no_stall(tmp_path: Path) -> None:
    with make(tmp_path, stall=1.0) as server:
        job = server.submit("slow 4")["id"]
        server.until_progress(job)
        (engine,) = children(server)
        assert server.process is not None
        engine.suspend()
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        server.process.send_signal(signal.SIGCONT)
        engine.resume()
        done = server.finished(job)
        assert (done["state"], done["attempt"]) == ("succeeded", 1)


def test_the_engine_gives_up_rights_and_plans_as_a_spare(tmp_path: Path) -> None:
    (tmp_path / "module").write_bytes(text("mlp"))
    (tmp_path / "request.json").write_text(
        '{"mesh": "data=2,model=2", "rollouts": 20, "threads": 1, "planner": "greedy"}'
    )
    child = Child(engine_command("--spare"), engine_environment())
    try:
        assert child.events.get(timeout=100) == {"event": "ready"}
        status = Path(f"/proc/{child.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        limits = Path(f"/proc/{child.pid}/limits").read_text()
        assert re.search(r"Max core file size\s+0\s+0\s", limits)
        assert child.begin(tmp_path)
        said: list[dict[str, Any]] = []
        outcome = follow(child, tmp_path, Limits(stall_s=30.0), on_event=said.append)
        assert (outcome.status, outcome.has_plan) == ("done", True)
        assert {event["event"] for event in said} == {"progress"}
    finally:
        child.kill()


SPY = """#!/bin/sh
dir=$1
if [ "$1" = --spare ]; then
  echo '{"event": "ready"}'; read line; dir=${line#*: \\"}; dir=${dir%\\"*}
fi
said="uid $(id -u) module $(cat $dir/module) $(touch $dir/mine && ls -n $dir/mine | cut -d' ' -f3)"
for name in toast.db audit.jsonl instance artifacts work; do
  [ -r $dir/../../$name ] || said="$said no-$name"
done
echo "{\\"event\\": \\"error\\", \\"code\\": \\"invalid_module\\", \\"message\\": \\"$said\\"}"
exit 2
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run workers as another user")
@pytest.mark.parametrize("spares", [0, 1])
def test_workers_run_as_another_user(spares: int) -> None:
    """They see their own directory and nothing else of the service's."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own are closed to other users
        directory = Path(name)
        directory.chmod(0o711)
        engine = directory / "engine.sh"
        engine.write_text(SPY)
        engine.chmod(0o755)
        settings: dict[str, Any] = {"worker_user": str(NOBODY), "spares": spares, "drain": 1.0}
        with Server(directory / "data", engine_command=[str(engine)], **settings) as server:
            if spares:
                wait_children(server)
            done = server.finished(server.submit("bytes")["id"])
            stored = [p for p in (server.data / "artifacts").rglob("*") if p.is_file()]
            assert {path.stat().st_uid for path in stored} == {0}
            assert set(starts(server)) == ({"spare"} if spares else {"fresh"})
    assert done["error"]["detail"] == (
        f"uid {NOBODY} module bytes {NOBODY} no-toast.db no-audit.jsonl no-instance no-artifacts "
        "no-work"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run workers as another user")
def test_a_result_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """A worker that was taken over must not have the server read a file for it."""
    script = tmp_path / "engine.sh"
    script.write_text(
        "#!/bin/sh\nln -s /etc/hostname $1/plan.json; ln -s /etc/hostname $1/sharded.mlir\n"
        'echo \'{"event": "done", "suffix": ".mlir"}\'\n'
    )
    script.chmod(0o755)
    with Server(tmp_path / "data", engine_command=[str(script)], drain=1.0) as server:
        done = server.finished(server.submit("any")["id"])
        assert done["state"] == "failed"
        assert "plan" not in done["links"]


@pytest.mark.parametrize(("name", "text"), [("no-such-user", "no user"), ("root", "no safer")])
def test_a_user_that_cannot_be_is_refused(name: str, text: str) -> None:
    if os.geteuid() != 0 and name == "root":
        text = "only root"
    with pytest.raises(UnknownUser, match=text):
        find_user(name)


def fake_group(path: Path) -> Path:
    path.mkdir(parents=True)
    for name in ("cgroup.procs", "memory.max", "pids.max", "cgroup.kill"):
        (path / name).touch()
    return path


def test_a_group_has_its_limits(tmp_path: Path) -> None:
    """On a folder in place of the kernel's, which few machines let us write to."""
    group = Cgroups(tmp_path, memory=1 << 30, pids=99, cpus=1.5).make()
    (folder,) = tmp_path.iterdir()
    group.add(4711)
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written["memory.max"] == str(1 << 30)
    assert (written["pids.max"], written["cpu.max"]) == ("99", "150000 100000")
    assert written["cgroup.procs"] == "4711"
    assert not group.ran_out_of_memory()
    (folder / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 2\n")
    assert group.ran_out_of_memory()


def test_our_own_group_is_found(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("4:memory:/other\n0::/system.slice/toast.service\n")
    (tmp_path / "mountinfo").write_text(
        "30 23 0:26 / /sys rw,nosuid - sysfs sysfs rw\n"
        "31 30 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
    )
    assert own_group(tmp_path) == Path("/sys/fs/cgroup/system.slice/toast.service")
    (tmp_path / "mountinfo").write_text("30 23 0:26 / /sys rw,nosuid - sysfs sysfs rw\n")
    assert own_group(tmp_path) is None


def test_a_machine_without_groups_is_served_all_the_same(tmp_path: Path) -> None:
    launcher = ProcessLauncher(ServiceSettings(data=tmp_path, engine_command=("/bin/true",)))
    worker = launcher.start("x")
    assert worker.child.wait() == 0
    worker.close()
    assert resource.getrlimit(resource.RLIMIT_CORE) is not None
