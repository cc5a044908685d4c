"""Further searches of one job, each by an engine on a node of a cluster, with a seed of its own.

They only propose: what they found is priced here again, and one that is lost or late is left out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toast.cluster.connection import ClusterAway, connect
from toast.cluster.host import EngineOrder, remote_host
from toast.costmodel.network.mesh import Mesh
from toast.labels.decisions import decision_text
from toast.process.limits import ClusterShare
from toast.process.runner import Limits
from toast.request.request import PlanRequest

_LEAST_WAIT, _AS_LONG_AGAIN = 30.0, 2.0
"""Others are waited for so many seconds, or so many times what the search here took."""
_TICK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperAnswer:
    """What another search found, as a request would ask for it."""

    mesh: tuple[tuple[str, int], ...]
    decisions: tuple[str, ...]
    rollouts: int
    evaluations: int

    def on(self, meshes: Iterable[Mesh]) -> Mesh:
        """Its mesh among those that were to be tried."""
        named = {tuple((axis.name, axis.size) for axis in mesh.axes): mesh for mesh in meshes}
        return named[self.mesh]

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> HelperAnswer:
        """That of a `plan.json`."""
        search = plan["search"]
        return cls(
            mesh=tuple((axis["name"], axis["size"]) for axis in plan["mesh"]["axes"]),
            decisions=tuple(
                decision_text(one["colour"], one["axis"], one["resolution"])
                for one in plan["decisions"]
            ),
            rollouts=search["rollouts"],
            evaluations=search["evaluations"],
        )


@dataclass(slots=True, kw_only=True)
class Helpers:
    """Searches that run elsewhere."""

    ray: Any
    hosts: list[Any]
    runs: list[Any]
    started: float = field(default_factory=time.monotonic)

    def answers(self, cancelled: Callable[[], bool]) -> list[HelperAnswer]:
        """What they found; who is not done by then is ended."""
        spent = time.monotonic() - self.started
        until = time.monotonic() + max(_LEAST_WAIT, _AS_LONG_AGAIN * spent)
        waiting, done = list(self.runs), []
        while waiting and time.monotonic() < until and not cancelled():
            ready, waiting = self.ray.wait(waiting, num_returns=1, timeout=_TICK_SECONDS)
            done += ready
        found = [self._answer(run) for run in done]
        for host in self.hosts:
            self.ray.kill(host)
        return [answer for answer in found if answer is not None]

    def _answer(self, run: Any) -> HelperAnswer | None:
        try:
            outcome, files = self.ray.get(run)
        except self.ray.exceptions.RayError:  # its node is gone
            return None
        if outcome.status != "done" or "plan.json" not in files:
            return None
        return HelperAnswer.of(json.loads(files["plan.json"].tobytes()))


def start_helpers(
    module: bytes, request: PlanRequest, cluster: ClusterShare | None
) -> Helpers | None:
    """All searches of the request but one, begun on the cluster; None where there are none.

    Where the module may be rewritten as the search finds best, all of them are made here: those
    elsewhere might search another module.
    """
    alone = request.searches == 1 or request.decisions is not None
    if cluster is None or alone or request.microbatches == "auto" or request.fit:
        return None
    try:
        ray = connect(cluster.address)
    except ClusterAway:  # the search here goes on without
        return None
    data = ray.put(np.frombuffer(module, np.uint8))
    order = EngineOrder(limits=Limits(memory_bytes=cluster.memory_bytes), wanted=("plan.json",))
    hosts, runs = [], []
    for number in range(1, request.searches):
        host = remote_host(ray, cluster)
        asked = np.frombuffer(_other(request, number).model_dump_json().encode(), np.uint8)
        hosts.append(host)
        runs.append(host.run.remote(order, ["module", "request.json"], data, asked))
    return Helpers(ray=ray, hosts=hosts, runs=runs)


def _other(request: PlanRequest, number: int) -> PlanRequest:
    """The same search with another seed, and nothing that comes after a search."""
    settings: dict[str, Any] = {
        "seed": (request.seed + number) % 2**63,
        "searches": 1,
        "prove": False,
        "refine": False,
        "advice": False,
        "confirm": None,
        "confirm_time": None,
    }
    return request.model_copy(update=settings)
