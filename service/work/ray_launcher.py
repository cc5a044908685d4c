"""Sends attempts to the nodes of a Ray cluster; each is a small process here that stands for it."""

from __future__ import annotations

from dataclasses import replace

from toast.cluster.outcome_file import read_outcome
from toast.cluster.settings import RelaySettings
from toast.process.child import Child
from toast.process.limits import ClusterShare
from toast.process.outcome import Outcome
from toast.process.runner import engine_environment
from toast.request.request import PlanRequest
from toast.service.settings import ServiceSettings
from toast.service.work.launcher import Launcher, WorkerProcess, limits_of

_SLOWER = 10.0
"""Seconds that a word to the engine and its plan may take on their way through the cluster."""


class RayLauncher(Launcher):
    """Starts relays. The nodes keep deadline and memory, and here only the relay is watched."""

    def __init__(self, settings: ServiceSettings, cluster: ClusterShare) -> None:
        here = limits_of(settings)
        self._relay = RelaySettings(
            cluster=cluster,
            limits=replace(here, memory_bytes=cluster.memory_bytes),
            command=settings.engine_command or (),
        )
        self._limits = replace(
            here, deadline_s=None, memory_bytes=None, ask_grace_s=here.ask_grace_s + _SLOWER
        )

    def start(self, argument: str) -> WorkerProcess:
        """A relay for one directory, or a spare one."""
        command = self._relay.child_command(argument)
        child = Child(command, engine_environment())
        return WorkerProcess(child=child, limits=self._limits, read=_as_the_node_says)

    def fitted(self, request: PlanRequest) -> PlanRequest:
        """With as many threads as processors are reserved, rather than all of the node's."""
        if request.threads:
            return request
        return request.model_copy(update={"threads": max(1, int(self._relay.cluster.cpus))})


def _as_the_node_says(outcome: Outcome) -> Outcome:
    """What the relay was told; a relay without that is no fault of the job."""
    found = read_outcome(outcome.directory)
    if found is not None:
        return found
    return outcome if outcome.status == "cancelled" else replace(outcome, status="away")
