"""The way from one layout to another, against what the compilers sent for the same modules."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.probes.figures import read_figures
from benchmarks.probes.reshards import MESH, PROBE
from toast.analysis.analyse import analyse
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve

KEPT = [(target, name) for target in PROBE.targets for name in read_figures(PROBE.name, target)]


def sent(target: str, name: str) -> dict[str, float]:
    """What a case is priced to put on the wire of a device, in bytes, by kind of collective."""
    program = load(PROBE.cases[name].module(target)).program
    chip = find("tpu-v5e" if target.startswith("tpu") else "a100-40gb")
    plan = resolve(Evaluator(analyse(program), Mesh.parse(MESH), chip), ())
    found = Counter[str]()
    for one in plan.totals():
        found[one.kind.name.lower()] += one.bytes
    return dict(found)


@pytest.mark.parametrize(("target", "name"), KEPT)
def test_a_move_is_priced_as_it_was_compiled(target: str, name: str) -> None:
    compiled = read_figures(PROBE.name, target)[name]
    assert sent(target, name) == {
        kind: sum(one["wire"] for one in found) for kind, found in compiled.items()
    }


def test_the_moves_were_compiled_for_a_tpu_and_a_gpu() -> None:
    assert {target for target, _ in KEPT} == set(PROBE.targets)
