"""A local child that stands for an engine on a node of a Ray cluster.

    python -m toast.cluster.relay SETTINGS DIR       run the engine on DIR, on some node
    python -m toast.cluster.relay SETTINGS --spare   connect, then run on what stdin says

SETTINGS are JSON (`RelaySettings`). It speaks as the engine does, in both directions. The files of
DIR travel to the node and what the engine makes of them travels back; how the engine ended is in
DIR/outcome.json. When a node is lost, another one begins anew. Exit code 75, and no such file,
where the cluster is away, or has lost one node after another.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from toast.analysis.parent_death import end_with_parent
from toast.cluster.connection import ClusterAway, ClusterMissing, connect
from toast.cluster.host import EngineOrder, Result, remote_host
from toast.cluster.outcome_file import write_outcome
from toast.cluster.parcel import pack, unpack
from toast.cluster.settings import RelaySettings
from toast.process.messages import ALIVE, BEAT_SECONDS, READY, Emitter, leave, take_stdout
from toast.process.parent_words import listen_for_cancel, next_directory

EXIT_AWAY = 75
SPARE = "--spare"
MAX_LOSSES = 5
"""Nodes that one attempt may lose; then the job waits in the queue instead."""
_TICK_SECONDS = 0.2
_WORD_SECONDS = 1.0
"""How long the node waits for the engine's next word before it answers that there was none."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
WAITING = "waiting for a node"


class NodesLost(Exception):
    """One node after another went while it ran the engine; the text has what Ray said."""


class Relay:
    """One attempt, on as many nodes as it takes."""

    def __init__(
        self, ray: Any, settings: RelaySettings, emitter: Emitter, cancelled: Callable[[], bool]
    ) -> None:
        self._ray = ray
        self._settings = settings
        self._emitter = emitter
        self._cancelled = cancelled
        self._beat_at = 0.0
        self._heard = False

    def run(self, directory: Path) -> Result | None:
        """The end of the engine, with its files; None when cancelled before it began."""
        files = pack(directory)
        names, parts = list(files), [self._ray.put(data) for data in files.values()]
        order = EngineOrder(
            limits=self._settings.limits, command=self._settings.command, name=directory.name
        )
        pause, said = _FIRST_PAUSE, ""
        for _ in range(MAX_LOSSES):
            host = remote_host(self._ray, self._settings.cluster)
            try:
                return self._follow(host, host.run.remote(order, names, *parts))
            except self._ray.exceptions.RayError as error:
                said = (str(error).strip().splitlines() or [""])[0]
                sys.stderr.write(f"a node was lost: {type(error).__name__}: {said}\n")
            finally:
                self._ray.kill(host)
            self._rest(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise NodesLost(said)

    def _follow(self, host: Any, run: Any) -> Result | None:
        """Pass on what the engine says, and what our parent says to it."""
        asked, self._heard = False, False
        words = host.events.remote(_WORD_SECONDS)
        self._emitter.emit("progress", stage=WAITING, fraction=0.0)
        while True:
            ready, _ = self._ray.wait([run, words], num_returns=1, timeout=_TICK_SECONDS)
            self._beat()
            if words in ready:
                self._pass_on(self._ray.get(words))
                words = host.events.remote(_WORD_SECONDS)
            if run in ready:
                result: Result = self._ray.get(run)
                self._pass_on(self._ray.get(host.events.remote(0.0)))
                return result
            if self._cancelled() and not asked:
                if not self._heard:
                    return None
                asked = True
                host.stop.remote()

    def _pass_on(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            self._heard = True
            self._emitter.emit(**event)

    def _beat(self) -> None:
        """Say that this process lives, from the loop that has to."""
        if time.monotonic() - self._beat_at >= BEAT_SECONDS:
            self._beat_at = time.monotonic()
            self._emitter.emit(ALIVE)

    def _rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._cancelled():
            time.sleep(_TICK_SECONDS)
            self._beat()


def main(arguments: list[str]) -> int:
    """The whole process; returns its exit code."""
    end_with_parent()
    emitter = Emitter(take_stdout())
    settings, argument = RelaySettings.of(arguments[0]), arguments[1]
    try:
        ray = connect(settings.cluster.address)
        directory = Path(argument)
        if argument == SPARE:
            emitter.emit(READY)
            given = next_directory()
            if given is None:
                return 0
            directory = given
        result = Relay(ray, settings, emitter, listen_for_cancel()).run(directory)
    except (ClusterAway, ClusterMissing, NodesLost) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_AWAY
    if result is not None:
        outcome, files = result
        unpack(files, directory)
        write_outcome(replace(outcome, directory=directory), directory)
    return 0


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
