"""A real Ray cluster on this machine, of several nodes that can be added and killed.

    python ray_cluster.py        `add CPUS` and `kill NUMBER` on stdin; answers on stdout

Ray runs in a process of its own: it starts threads and leaves files open, which the tests forbid.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MISSING = "Ray is not tested: install it (pip install 'toast-planner[ray]')"
_STORE_BYTES = 100 << 20


def missing() -> str | None:
    """Why there is no Ray, None where there is."""
    return MISSING if importlib.util.find_spec("ray") is None else None


class RayCluster:
    """A head without processors, to which nodes are added.

    Nodes reach it at `address`; who is none of them, at `outside` (ray://HOST:PORT).
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, **_SETTINGS, "PYTHONPATH": str(ROOT)},
        )
        said = self._answer()
        self.address, self.outside = str(said["address"]), str(said["outside"])
        self.added = 0

    def add(self, cpus: int = 1) -> int:
        """A new node; its number."""
        self.added += 1
        return int(self._ask(f"add {cpus}")["node"])

    def kill(self, node: int) -> None:
        """As a power cut would: its processes are killed, none of them asked."""
        self._ask(f"kill {node}")

    def close(self) -> None:
        """End all nodes."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _ask(self, words: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # Ray prints there too
                answer = json.loads(line)
                assert isinstance(answer, dict)
                return answer
        raise AssertionError("the Ray cluster ended")


_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # A node that is gone is noticed within a second rather than after 15.
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "300",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "2",
}


@contextlib.contextmanager
def ray_cluster(*nodes: int) -> Iterator[RayCluster]:
    """A cluster with nodes of so many processors."""
    cluster = RayCluster()
    try:
        for cpus in nodes:
            cluster.add(cpus)
        yield cluster
    finally:
        cluster.close()


def _serve() -> None:
    from ray.cluster_utils import Cluster

    port = _free_port()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE_BYTES,
            "ray_client_server_port": port,
        },
    )  # fmt: skip
    nodes: dict[int, Any] = {}
    _say(address=cluster.address, outside=f"ray://{cluster.address.partition(':')[0]}:{port}")
    for line in sys.stdin:
        what, number = line.split()
        if what == "add":
            nodes[len(nodes)] = cluster.add_node(
                num_cpus=int(number), object_store_memory=_STORE_BYTES
            )
            _say(node=len(nodes) - 1)
        else:
            cluster.remove_node(nodes[int(number)], allow_graceful=False)
            _say(killed=int(number))
    cluster.shutdown()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def _say(**words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve()
