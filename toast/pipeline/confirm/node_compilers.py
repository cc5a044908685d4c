"""Compilers on the nodes of a cluster, beside those of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toast.analysis.errors import ToastError
from toast.aot import Target, Verdict, judge
from toast.aot.installed import compiler_version
from toast.cluster.connection import ClusterAway, connect
from toast.costmodel.network.mesh import Mesh
from toast.process.limits import ClusterShare
from toast.process.outcome import EngineTimeout

NODE_BYTES = 4 << 30
"""Memory that a compiler reserves on its node."""
MOST = 32
"""Compilers elsewhere: no job has more plans to compile."""
_START_SECONDS = 20.0
"""How long a node may take to begin; others may have taken its room meanwhile."""
_TICK_SECONDS = 0.2


class NodeLost(Exception):
    """No node compiled it, for a reason that the module did not cause."""


class CompilerHost:
    """What runs on a node: an actor of Ray whose child compiles."""

    def has(self, target: Target, compiler: str) -> bool:
        """Whether this very compiler is installed there."""
        try:
            return compiler_version(target) == compiler
        except (ToastError, ImportError):
            return False

    def judge(
        self, module: bytes, target: Target, mesh: Mesh, **settings: Any
    ) -> Verdict | ToastError:
        """The verdict, or the error that stands for it."""
        try:
            return judge(module, target, mesh, **settings)
        except ToastError as error:
            return error


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCompilers:
    """So many compilers may run elsewhere at once."""

    ray: Any
    share: ClusterShare
    compiler: str
    count: int

    def judge(
        self,
        module: bytes,
        target: Target,
        mesh: Mesh,
        *,
        cancelled: Callable[[], bool],
        **settings: Any,
    ) -> Verdict:
        """As `toast.aot.judge`, on a node; raises `NodeLost` where none would do it."""
        host = self.ray.remote(CompilerHost).options(
            num_cpus=self.share.cpus, memory=NODE_BYTES, max_restarts=0
        ).remote()  # fmt: skip
        try:
            if not self._wait(host.has.remote(target, self.compiler), cancelled, _START_SECONDS):
                raise NodeLost("another compiler is installed there")
            found = self._wait(host.judge.remote(module, target, mesh, **settings), cancelled)
        except self.ray.exceptions.RayError as error:
            raise NodeLost(str(error)) from error
        finally:
            self.ray.kill(host)
        if isinstance(found, ToastError):
            raise found
        assert isinstance(found, Verdict)
        return found

    def _wait(
        self, answer: Any, cancelled: Callable[[], bool], seconds: float = float("inf")
    ) -> Any:
        until = time.monotonic() + seconds
        while not self.ray.wait([answer], timeout=_TICK_SECONDS)[0]:
            if cancelled():
                raise EngineTimeout("The compilation was stopped.", "Allow more time.")
            if time.monotonic() >= until:
                raise NodeLost("no node had room")
        return self.ray.get(answer)


def compilers_of(cluster: ClusterShare | None, compiler: str) -> NodeCompilers | None:
    """The compilers for which a cluster has room now; None where there are none."""
    if cluster is None:
        return None
    try:
        ray = connect(cluster.address)
    except ClusterAway:
        return None
    room = ray.available_resources()
    count = min(room.get("CPU", 0.0) // cluster.cpus, room.get("memory", 0.0) // NODE_BYTES, MOST)
    if count < 1:
        return None
    return NodeCompilers(ray=ray, share=cluster, compiler=compiler, count=int(count))
