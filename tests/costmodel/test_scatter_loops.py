"""Windows that libtpu places one after another: which ops they are, and what the loops take."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.programs import lowered_of
from benchmarks.probes.scatter_loops import ALL
from tests.modules import analysed, evaluator_of
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Action, Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh

CLOCKS = {"tpu-v5e": 1.5e9, "tpu-v5p": 1.75e9, "tpu-v3": 0.94e9}
"""Cycles of each chip in a second."""
WITHOUT = {"scatter_expander": {"scatter_launches": 0.0, "gather_launches": 0.0}}


@pytest.mark.parametrize("name", ALL)
def test_as_many_windows_are_placed_as_libtpu_runs_loops_for(name: str) -> None:
    step, given = ALL[name]
    placed = analysed(lowered_of(step, *given)).program.op_placed
    trips = sum(loop["trips"] for loop in golden("scatter_loops", name, "tpu-v5e"))
    assert int(placed.sum()) == trips


@pytest.mark.parametrize("name", ALL)
def test_a_gpu_runs_no_loop_for_them(name: str) -> None:
    step, given = ALL[name]
    assert golden("scatter_loops", name, "a100-40gb") == []
    assert loops_of(lowered_of(step, *given), "a100-40gb") == 0.0


@pytest.mark.parametrize("device", CLOCKS)
@pytest.mark.parametrize("name", ALL)
def test_the_loops_take_what_libtpu_estimates(name: str, device: str) -> None:
    """Or a launch a trip less: a v3 looks windows up in two launches, the others in three."""
    step, given = ALL[name]
    cycles = sum(loop["trips"] * loop["cycles"] for loop in golden("scatter_loops", name, device))
    trips = sum(loop["trips"] for loop in golden("scatter_loops", name, device))
    launch = find(device).op_overhead * CLOCKS[device]
    assert loops_of(lowered_of(step, *given), device) * CLOCKS[device] == pytest.approx(
        cycles, rel=0.35, abs=trips * launch
    )


def loops_of(module: bytes, device: str) -> float:
    """The seconds of a step that its loops over windows take."""
    analysis, chip = analysed(module), find(device)
    whole = evaluator_of(module, "a=2", device).cost(()).compute
    profile = profile_of(chip).changed(WITHOUT)
    alone = Evaluator(analysis, Mesh.parse("a=2"), chip, profile=profile).cost(()).compute
    return whole - alone


def test_devices_share_the_windows() -> None:
    """Half of the rows take half of the launches."""

    def step(table: Any, places: Any) -> Any:
        return jnp.sum(jnp.sin(jax.vmap(lambda place: table[place])(places)))

    given = jax.ShapeDtypeStruct((512, 128), jnp.float32), jax.ShapeDtypeStruct((4096,), jnp.int32)
    evaluator = evaluator_of(lowered_of(jax.grad(step), *given), "a=2", "tpu-v5e")
    program = evaluator.analysis.program
    name = program.def_names(program.arguments[1].value)[0]
    group = int(evaluator.analysis.groups.of_colour[evaluator.analysis.colours.colour[name]])
    whole, half = (evaluator.cost(s).compute for s in ((), (Action(group=group, axis=0),)))
    assert half == pytest.approx(whole / 2, rel=0.05)
