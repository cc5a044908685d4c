"""How a process of ours joins a Ray cluster."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

CONNECT_SECONDS = 20
"""How long the head of a cluster may take to answer."""


class ClusterMissing(Exception):
    """A cluster is asked for and Ray is not installed; the text says what to do."""


class ClusterAway(Exception):
    """No cluster answers at that address, or it went away."""


def check_installed() -> None:
    """Raises `ClusterMissing` without Ray."""
    if importlib.util.find_spec("ray") is None:
        raise ClusterMissing("Ray is not installed here; run: pip install 'toast-planner[ray]'")


def connect(address: str) -> Any:
    """Ray, connected: `HOST:PORT` or `auto` from a node of the cluster, `ray://...` from outside.

    Raises `ClusterMissing` and `ClusterAway`.
    """
    check_installed()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_gcs_rpc_server_connect_timeout_s", str(CONNECT_SECONDS))
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
