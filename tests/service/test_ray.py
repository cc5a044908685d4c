"""Jobs on the nodes of a real Ray cluster, nodes of which come and go."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import ray_cluster
from tests.ray_cluster import RayCluster
from tests.service.harness import Server, fake_engine

pytestmark = pytest.mark.skipif(
    ray_cluster.missing() is not None, reason=ray_cluster.missing() or ""
)


LARGE = 4
"""Processors of a node that only some jobs want, so that a test has it for itself."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """A cluster with a node of two processors, to which tests add larger ones."""
    with ray_cluster.ray_cluster(2) as running:
        yield running


@pytest.fixture(scope="module")
def server(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose jobs run on the cluster."""
    with make(tmp_path_factory.mktemp("server"), cluster.address) as running:
        yield running


def make(folder: Path, address: str, **settings: Any) -> Server:
    return Server(
        folder / "data",
        engine_command=fake_engine(folder / "engine"),
        launcher="ray",
        ray_address=address,
        **{"workers": 2, "drain": 1.0, "worker_memory": 200 << 20, **settings},
    )


def engines(job: str) -> list[psutil.Process]:
    """The processes of the fake engine that run a job, wherever they are."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or [""]
        if "fake_engine.py" in " ".join(line) and Path(line[-1]).name.startswith(job):
            found.append(process)
    return found


def engine_of(job: str, seconds: float = 60.0) -> psutil.Process:
    end = time.monotonic() + seconds
    while not (found := [one for one in engines(job) if "relay" not in " ".join(one.cmdline())]):
        assert time.monotonic() < end, "no engine runs"
        time.sleep(0.05)
    return found[0]


def test_a_job_runs_on_a_node(server: Server) -> None:
    job = server.submit("slow 1 x")["id"]
    engine = engine_of(job)
    parents = [parent.pid for parent in engine.parents()]
    assert server.process is not None
    assert server.process.pid not in parents  # the node's, not ours
    done = server.finished(job)
    assert (done["state"], done["attempt"], done["interruptions"]) == ("succeeded", 1, 0)
    assert server.client.get(f"/v1/jobs/{job}/module").text == "// sharded\nslow 1 x"
    assert server.client.get(f"/v1/jobs/{job}/plan").status_code == 200


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("error", "invalid_module"),
        ("abort", "engine_crashed"),
        ("grow", "engine_out_of_memory"),
        ("silent", "engine_failed"),
    ],
)
def test_what_a_module_is_to_blame_for_fails_its_job(server: Server, text: str, code: str) -> None:
    done = server.finished(server.submit(text)["id"])
    assert (done["state"], done["error"]["code"], done["attempt"]) == ("failed", code, 1)


@pytest.mark.nightly
def test_the_deadline_holds_and_waiting_for_a_node_does_not_count(
    cluster: RayCluster, tmp_path: Path
) -> None:
    with make(tmp_path, cluster.address, deadline=2.0, ray_cpus=LARGE) as server:
        job = server.submit("slow 60 deadline")["id"]
        server.until(job, "running")
        time.sleep(3.0)
        assert server.job(job)["progress"]["stage"] == "waiting for a node"
        number = cluster.add(LARGE)
        done = server.finished(job)
        cluster.kill(number)
    assert (done["state"], done["summary"]["termination"]) == ("succeeded", "deadline")


@pytest.mark.parametrize("text", ["slow 60 cancelled", "hang"])
def test_a_cancelled_job_leaves_no_process_on_its_node(server: Server, text: str) -> None:
    job = server.submit(text)["id"]
    engine = engine_of(job)
    assert server.client.post(f"/v1/jobs/{job}/cancel").status_code == 202
    assert server.finished(job)["state"] == "cancelled"
    psutil.wait_procs([engine], timeout=60)
    assert not engine.is_running()


@pytest.mark.nightly
def test_the_engine_ends_with_a_killed_server_and_the_job_goes_on(
    cluster: RayCluster, tmp_path: Path
) -> None:
    server = make(tmp_path, cluster.address)
    with server:
        job = server.submit("slow 2 y")["id"]
        engine = engine_of(job)
        server.kill()
        psutil.wait_procs([engine], timeout=60)
        assert not engine.is_running()
        server.start()
        done = server.finished(job)
    assert (done["state"], done["interruptions"], done["lost_workers"]) == ("succeeded", 1, 0)


def test_an_engine_that_is_killed_on_its_node_counts_as_a_lost_worker(server: Server) -> None:
    done = server.finished(server.submit("killed-once")["id"])
    assert (done["state"], done["attempt"], done["lost_workers"]) == ("succeeded", 2, 1)


def test_a_lost_node_costs_the_job_nothing_but_time(cluster: RayCluster, tmp_path: Path) -> None:
    with make(tmp_path, cluster.address, ray_cpus=LARGE) as server:
        first = cluster.add(LARGE)
        job = server.submit("slow 2 z")["id"]
        engine = engine_of(job)
        cluster.kill(first)
        psutil.wait_procs([engine], timeout=60)
        assert not engine.is_running()
        second = cluster.add(LARGE)
        done = server.finished(job)
        cluster.kill(second)
    assert (done["state"], done["attempt"]) == ("succeeded", 1)
    assert (done["interruptions"], done["lost_workers"]) == (0, 0)


@pytest.mark.nightly
def test_no_job_is_lost_while_nodes_come_and_go_under_load(tmp_path: Path) -> None:
    with ray_cluster.ray_cluster(2, 1) as cluster:
        nodes = [0, 1]
        with make(tmp_path, cluster.address, workers=4, spares=2) as server:
            jobs = [server.submit(f"slow 0.5 {n}", seed=n)["id"] for n in range(60)]
            while server.job(jobs[-1])["state"] == "queued":
                nodes.append(cluster.add(2))
                time.sleep(1.5)
                cluster.kill(nodes.pop(0))
            assert len(nodes) < cluster.added - 2  # several were killed
            for number, job in enumerate(jobs):
                done = server.finished(job, seconds=60)
                assert (done["state"], done["lost_workers"]) == ("succeeded", 0), done
                plan = server.client.get(f"/v1/jobs/{job}/plan").json()
                assert plan["search"]["seed"] == number
                ends = [e for e in server.events(job) if e["data"].get("state") == "succeeded"]
                assert len(ends) == 1


@pytest.mark.nightly
def test_a_server_outside_the_cluster_reaches_it(cluster: RayCluster, tmp_path: Path) -> None:
    with make(tmp_path, cluster.outside) as server:
        done = server.finished(server.submit("slow 0.5 outside")["id"], seconds=60)
        assert (done["state"], done["attempt"], done["interruptions"]) == ("succeeded", 1, 0)
        blamed = server.finished(server.submit("error")["id"], seconds=60)
        assert (blamed["state"], blamed["error"]["code"]) == ("failed", "invalid_module")
        job = server.submit("slow 60 outside")["id"]
        engine = engine_of(job, seconds=60.0)
        server.client.post(f"/v1/jobs/{job}/cancel")
        assert server.finished(job, seconds=60)["state"] == "cancelled"
        psutil.wait_procs([engine], timeout=60)
        assert not engine.is_running()


@pytest.mark.nightly
def test_servers_of_one_ledger_share_a_cluster(
    cluster: RayCluster, tmp_path: Path, postgres_url: str
) -> None:
    shared = {"database": postgres_url, "artifacts": f"file://{tmp_path}/shared", "lease": 2.0}
    one, two = (make(tmp_path / name, cluster.address, **shared) for name in ("one", "two"))
    with one, two:
        jobs = [one.submit(f"slow 0.5 {n}", seed=n)["id"] for n in range(8)]
        one.until(jobs[0], "running")
        one.kill()
        for number, job in enumerate(jobs):
            done = two.finished(job, seconds=60)
            assert (done["state"], done["lost_workers"]) == ("succeeded", 0), done
            assert two.client.get(f"/v1/jobs/{job}/plan").json()["search"]["seed"] == number
            ends = [e for e in two.events(job) if e["data"].get("state") == "succeeded"]
            assert len(ends) == 1


@pytest.mark.nightly
def test_jobs_wait_while_the_cluster_is_away(tmp_path: Path) -> None:
    impatient = {"RAY_gcs_rpc_server_connect_timeout_s": "1"}
    with make(tmp_path, "127.0.0.1:9", environment=impatient) as server:
        job = server.submit("success")["id"]
        end = time.monotonic() + 60
        while server.job(job)["interruptions"] < 1:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert server.job(job)["state"] in ("queued", "running")


def test_a_drained_server_gives_back_what_waits_for_a_node(
    cluster: RayCluster, tmp_path: Path
) -> None:
    server = make(tmp_path, cluster.address, ray_cpus=LARGE)
    with server:
        job = server.submit("slow 1 back")["id"]
        server.until(job, "running")
        server.terminate()
        assert server.wait() == 0
        server.start()
        number = cluster.add(LARGE)
        done = server.finished(job)
        cluster.kill(number)
    assert (done["state"], done["interruptions"]) == ("succeeded", 0)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--ray-address", "10.0.0.1:6379"], "--launcher ray"),
        (["--launcher", "ray", "--worker-user", "nobody"], "--worker-user"),
        (["--launcher", "ray", "--ray-cpus", "0"], "more than 0"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    tmp_path: Path, flags: list[str], said: str
) -> None:
    command = [sys.executable, "-m", "toast", "serve", "--port", "0", "--data", str(tmp_path)]
    done = subprocess.run(
        [*command, *flags], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
