"""Which problems there are: deep programs of the zoo, each over a mesh and with a limit."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.instances.graph import Graph, least_peak
from benchmarks.instances.layouts import Links
from benchmarks.zoo.lowering import MODULES, module_of
from benchmarks.zoo.split import Half, half_by_name
from toast.analysis.load import load
from toast.analysis.program import Floats

FORBIDDEN = 10**18
LIMITS = (1.05, 1.1, 1.3)
"""Limits of memory, in terms of the least peak."""
MESHES = ((4, 8), (2, 16), (8, 4), (16, 16))
PROGRAMS = (
    "pegasus conformer mbart clip_text dinov2 wav2vec2 roberta_prelayernorm xglm bloom marian "
    "bart diffusion_transformer retention electra opt blenderbot_small gpt_neo mt5 big_bird "
    "mlp_mixer experts"
)
"""Architectures whose deep training step has 10,000 to 65,000 nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A problem: an architecture's deep training step, the axes of the mesh, the limit."""

    architecture: str
    mesh: tuple[int, ...]
    limit: float

    @property
    def name(self) -> str:
        """Such as `marian-4x8-1.05`."""
        return f"{self.architecture}-{'x'.join(map(str, self.mesh))}-{self.limit}"

    def path(self, folder: Path) -> Path:
        """The file of the problem."""
        return folder / f"{self.name}.json.gz"

    @property
    def half(self) -> Half:
        """That of the architecture."""
        return half_by_name(self.architecture)


def all_cases() -> list[Case]:
    """Every architecture once; meshes and limits take turns within each half."""
    found = []
    for half in ("tuning", "held-out"):
        names = [name for name in PROGRAMS.split() if half_by_name(name) == half]
        for name, mesh, limit in zip(names, cycle(MESHES), cycle(LIMITS), strict=False):
            found.append(Case(architecture=name, mesh=mesh, limit=limit))
    return found


def make(cases: Iterable[Case], folder: Path, modules: Path = MODULES) -> None:
    """Write the problems that are not in the folder yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in cases:
        path = case.path(folder)
        if not path.exists():
            data = module_of(f"{case.architecture}/train-adamw-deep", modules)
            text = json.dumps(document(case.name, data, case.mesh, case.limit))
            path.write_bytes(gzip.compress(text.encode(), compresslevel=3, mtime=0))
            print(path, file=sys.stderr, flush=True)


def document(name: str, module: bytes, mesh: tuple[int, ...], limit: float) -> dict[str, Any]:
    """A module as a problem in the contest's format."""
    graph = Graph(load(module).program, Links(mesh))
    edges, costs = [], []
    for place, node in enumerate(graph.nodes):
        if node.leader != place:
            same = np.where(np.eye(len(node.cost), dtype=bool), 0, FORBIDDEN)
            edges.append([node.leader, place])
            costs.append(same.ravel().tolist())
    for (a, b), table in graph.tables.items():
        if table.any():
            edges.append([a, b])
            costs.append(_whole(table.ravel()))
    return {
        "problem": {
            "name": name,
            "nodes": {
                "intervals": [[node.low, node.high] for node in graph.nodes],
                "costs": [_whole(node.cost) for node in graph.nodes],
                "usages": [_whole(node.usage) for node in graph.nodes],
            },
            "edges": {"nodes": edges, "costs": costs},
            "usage_limit": int(limit * least_peak(graph.nodes)),
        }
    }


def _whole(values: Floats) -> list[int]:
    return [round(value) for value in values.tolist()]
