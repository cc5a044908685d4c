"""Compilations on the nodes of a cluster, beside those here."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests import ray_cluster
from toast.aot import Target, Verdict
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.confirm import compilations
from toast.pipeline.confirm.compilations import Compilations, TimeLimit
from toast.pipeline.confirm.node_compilers import NodeLost
from toast.pipeline.confirm.verdict_cache import VerdictCache
from toast.process.outcome import EngineTimeout

TARGET = Target.parse("tpu-v5e:2x2")
MODULES = [bytes([number]) for number in range(6)]


def verdict() -> Verdict:
    return Verdict(target=str(TARGET), devices=4, compile_seconds=0.0)


class Nodes:
    """Compilers elsewhere that count what they do, and may be lost."""

    def __init__(self, *, lost: bool = False) -> None:
        self.asked: list[bytes] = []
        self._lost = lost

    def judge(self, module: bytes, *_: Any, **__: Any) -> Verdict:
        self.asked.append(module)
        if self._lost:
            raise NodeLost("gone")
        return verdict()


def compiling(folder: Path, nodes: Nodes | None, count: int = 2) -> Compilations:
    there: Any = None
    if nodes is not None:
        there = nodes
        there.count = count
    cache = VerdictCache(
        folder=folder, target=TARGET, compiler="libtpu 1", mesh="a=4", reserved_bytes=0
    )
    return Compilations(
        target=TARGET,
        mesh=Mesh.parse("a=4"),
        cache=cache,
        limit=TimeLimit(seconds=60),
        workers=1,
        nodes=there,
    )


def test_modules_are_shared_out_among_here_and_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, here = Nodes(), []
    both = threading.Barrier(2, timeout=20)

    def judge(module: bytes, *_: Any, **__: Any) -> Verdict:
        here.append(module)
        both.wait()  # until a node has been asked as well
        return verdict()

    def there(module: bytes, *_: Any, **__: Any) -> Verdict:
        if not nodes.asked:
            nodes.asked.append(module)
            both.wait()
        else:
            nodes.asked.append(module)
        return verdict()

    monkeypatch.setattr(compilations, "judge", judge)
    monkeypatch.setattr(nodes, "judge", there)
    found = dict(compiling(tmp_path, nodes, 1).answers(MODULES[:2]))
    assert all(answer.verdict is not None for answer in found.values())
    assert len(here) == len(nodes.asked) == 1


def test_a_lost_node_is_left_out_and_its_module_compiled_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, here = Nodes(lost=True), []

    def judge(module: bytes, *_: Any, **__: Any) -> Verdict:
        here.append(module)
        return verdict()

    monkeypatch.setattr(compilations, "judge", judge)
    found = dict(compiling(tmp_path, nodes).answers(MODULES))
    assert sorted(found) == MODULES
    assert sorted(here) == MODULES
    assert len(nodes.asked) <= 2
    assert all(answer.verdict is not None for answer in found.values())


def test_an_error_on_a_node_is_the_module_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: Any, **__: Any) -> Verdict:
        raise EngineTimeout("The engine is late.", "Wait.")

    nodes = Nodes()
    monkeypatch.setattr(nodes, "judge", late)
    monkeypatch.setattr(compilations, "judge", late)
    found = dict(compiling(tmp_path, nodes).answers(MODULES))
    assert {answer.failure for answer in found.values()} == {"not compiled: the compiler is late"}


@pytest.mark.nightly
@pytest.mark.skipif(ray_cluster.missing() is not None, reason=ray_cluster.missing() or "")
def test_a_node_with_another_compiler_compiles_nothing() -> None:
    with ray_cluster.ray_cluster(1) as cluster:
        done = subprocess.run(
            [sys.executable, "-c", ELSEWHERE.format(address=cluster.address)],
            cwd=ray_cluster.ROOT, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "lost: another compiler is installed there"


ELSEWHERE = """
from toast.aot import Target
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.confirm.node_compilers import NodeLost, compilers_of
from toast.process.limits import ClusterShare

nodes = compilers_of(ClusterShare(address="{address}"), "libtpu 0.0.0")
assert nodes is not None and nodes.count == 1
try:
    nodes.judge(b"", Target.parse("tpu-v5e:2x2"), Mesh.parse("a=4"), cancelled=lambda: False)
except NodeLost as error:
    print("lost:", error)
"""
