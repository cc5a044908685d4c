"""How a process of ours joins a Ray cluster."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

CONNECT_SECONDS = 20
"""How long the head of a cluster may take to answer."""
GRACE_SECONDS = 5
"""How long a cluster keeps the engines of a caller from outside that no longer answers."""


class ClusterMissing(Exception):
    """A cluster is asked for and Ray is not installed; the text says what to do."""


class ClusterAway(Exception):
    """No cluster answers at that address, or it went away."""


def check_installed(address: str = "") -> None:
    """Raises `ClusterMissing` without Ray, and without its client where the address is for that."""
    needs = {"ray": "Ray"}
    if address.startswith("ray://"):
        needs["grpc"] = "Ray's client"
    for module, name in needs.items():
        if importlib.util.find_spec(module) is None:
            raise ClusterMissing(
                f"{name} is not installed here; run: pip install 'toast-planner[ray]'"
            )


def connect(address: str) -> Any:
    """Ray, connected: `HOST:PORT` or `auto` from a node of the cluster, `ray://...` from outside.

    Raises `ClusterMissing` and `ClusterAway`.
    """
    check_installed(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_gcs_rpc_server_connect_timeout_s", str(CONNECT_SECONDS))
    os.environ.setdefault("RAY_CLIENT_RECONNECT_GRACE_PERIOD", str(GRACE_SECONDS))
    # A driver that a worker started must not pass for that worker.
    for name in ("RAY_JOB_ID", "RAY_RAYLET_PID"):
        os.environ.pop(name, None)
    import ray

    if ray.is_initialized():
        return ray
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ClusterAway(f"no Ray cluster answers at {address}: {first}") from error
    return ray
