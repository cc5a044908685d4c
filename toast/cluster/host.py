"""What runs on a node: an actor of Ray that runs an engine, and hands out what it says.

The engine is a child of the actor's process: it may abort, and the actor tells how. It ends with
the actor, which Ray ends with its node and with whoever asked for it.
"""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from toast.cluster.parcel import Bytes, pack, unpack
from toast.process import runner
from toast.process.limits import ClusterShare
from toast.process.outcome import Outcome

_PREFIX = "toast-node-"
Result = tuple[Outcome, dict[str, Bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOrder:
    """What to run on the node, and within which limits. `command` replaces the engine.

    A memory limit of None is most of the node's memory. `wanted` are the files to bring back, all
    that the engine makes where it is empty.
    """

    limits: runner.Limits
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    name: str = "attempt"
    wanted: tuple[str, ...] = ()


class EngineHost:
    """Runs one engine. Its methods are called from several threads at once."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._events: queue.Queue[runner.Event] = queue.Queue()
        _sweep()

    def run(self, order: EngineOrder, names: list[str], *files: Bytes) -> Result:
        """Run the engine on these files to its end; how that was, and the files that it made."""
        with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as folder:
            directory = Path(folder) / order.name
            directory.mkdir()
            unpack(dict(zip(names, files, strict=True)), directory)
            outcome = runner.run(
                directory,
                command=[*order.command, str(directory)] if order.command else None,
                environment=order.environment,
                limits=order.limits,
                on_event=self._events.put,
                cancelled=self._stop.is_set,
            )
            # What is mapped stays readable without the directory, until Ray has sent it.
            made = pack(directory, without=names) if outcome.has_plan else {}
            wanted = order.wanted or tuple(made)
            return outcome, {name: made[name] for name in wanted if name in made}

    def events(self, wait: float) -> list[runner.Event]:
        """What the engine said since the last call; waits for the first word."""
        said: list[runner.Event] = []
        try:
            said.append(self._events.get(timeout=wait))
            while True:
                said.append(self._events.get_nowait())
        except queue.Empty:
            return said

    def stop(self) -> None:
        """Ask the engine for its best plan so far."""
        self._stop.set()


def _sweep() -> None:
    """Remove what actors left that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        number = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if number.isdigit() and not psutil.pid_exists(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def remote_host(ray: Any, share: ClusterShare) -> Any:
    """A new host on a node that has so much to give, once there is one."""
    options: dict[str, Any] = {"num_cpus": share.cpus, "max_restarts": 0, "max_concurrency": 4}
    if share.memory_bytes is not None:
        options["memory"] = share.memory_bytes
    return ray.remote(EngineHost).options(**options).remote()
