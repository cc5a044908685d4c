"""Programs compiled for several slices: where their collectives between slices are, and which."""

from __future__ import annotations

import importlib.util
import os

import pytest

from examples import forms, mlp
from tests.toast.aot.texts import module, text
from toast import plan
from toast.analysis.errors import InvalidRequest
from toast.aot import Target, judge
from toast.aot.child import in_mesh
from toast.aot.collective_time import CollectiveClock
from toast.aot.collectives import find_collectives
from toast.aot.compile import totals
from toast.aot.hlo import parse
from toast.aot.makespan import makespan
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.collectives import Kind, collective_tables
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.network.slice_major import slice_major

CHIP = find("tpu-v5e")
HAS_LIBTPU = bool(os.environ.get("TPU_LIBRARY_PATH") or importlib.util.find_spec("libtpu"))
REDUCED = "{1,2}x{0:7}"


def rows(mesh: str, *changes: tuple[str, str]) -> list[tuple[str, object, int, int]]:
    """The collectives of the text for a mesh over two slices of eight."""
    changed = text("slices")
    for old, new in changes:
        assert old in changed
        changed = changed.replace(old, new)
    parted = slice_major(Mesh.parse(mesh), CHIP)
    found = find_collectives(parse(changed), parted)
    return [(one.kind, one.axes, one.group_size, one.size) for one in found]


def test_an_all_reduce_of_all_is_three_collectives() -> None:
    whole, part = 2048 * 512 * 4, 256 * 512 * 4
    assert rows("data=2@dcn,model=8") == [
        ("reduce_scatter", ("model",), 8, whole),
        ("all_reduce", ("data",), 2, part),
        ("all_gather", ("model",), 8, whole),
    ]
    assert rows("data=2,model=8@dcn:2")[0][1] == ("data", "model@inside")
    assert rows("data=2,model=8@dcn:2")[1][1] == ("model@dcn",)


def test_it_takes_as_long_as_it_is_priced() -> None:
    """What the compiler sends are the three steps of the tables."""
    mesh = Mesh.parse("data=2@dcn,model=8")
    found = totals(find_collectives(module("slices"), slice_major(mesh, CHIP)))
    clock = CollectiveClock.of(mesh, CHIP)
    priced = collective_tables(mesh, CHIP).seconds(Kind.ALL_REDUCE, 3, 2048 * 512 * 4)
    assert sum(map(clock.seconds, found)) == pytest.approx(priced)


def test_what_crosses_is_received_while_computation_goes_on() -> None:
    mesh = Mesh.parse("data=2@dcn,model=8")
    parted, clock = slice_major(mesh, CHIP), CollectiveClock.of(mesh, CHIP)
    changed = text("slices").replace(
        "%recv-done =", "%slow = f32[8]{0} negate(%c)ESTIMATE\n  %recv-done ="
    )
    estimate = ', backend_config={"estimated_cycles":"1000000"}'
    plain, beside = (parse(changed.replace("ESTIMATE", found)) for found in ("", estimate))
    found = totals(find_collectives(plain, parted))
    quick, slow = (makespan(one, parted, clock, 1e9, found) for one in (plain, beside))
    moving = sum(map(clock.seconds, found))
    assert quick == pytest.approx(moving)
    assert slow < moving + 1e-3


TYPES = ('_xla_megascale_transfer_type="ALL_REDUCE"', f'_xla_megascale_target="{REDUCED}"')


@pytest.mark.parametrize(
    ("kind", "target", "mesh", "expected"),
    [
        ("ALL_GATHER", None, "data=2@dcn,model=8", ("all_gather", ("data",), 2, 1)),
        ("REDUCE_SCATTER", None, "data=2@dcn,model=8", ("reduce_scatter", ("data",), 2, 2)),
        (
            "ALL_TO_ALL",
            "{{100000,100001,200000,200001}}",
            "data=2@dcn,model=2",
            ("all_to_all", ("data", "model"), 4, 1),
        ),
        (
            "ALL_TO_ALL",
            "{{100000,100001,200000,200001},{100002,100003,200002,200003}}",
            "a=2,b=4@dcn:2",
            ("all_to_all", ("b",), 4, 1),
        ),
        (
            "ALL_REDUCE",
            "{{100000,300000},{100001,300001},{200000,400000},{200001,400001}}",
            "a=2@dcn,b=2@dcn,m=2",
            ("all_reduce", ("a",), 2, 1),
        ),
        (
            "ONE_TO_ONE",
            "{{100000->200000},{200000->100000}}",
            "data=2@dcn",
            ("collective_permute", ("data",), 2, 1),
        ),
    ],
)
def test_what_the_runtime_is_asked_for(
    kind: str, target: str | None, mesh: str, expected: tuple[str, object, int, int]
) -> None:
    named = f"_xla_megascale_target={target}" if target else TYPES[1]
    changes = (
        (TYPES[0], f'_xla_megascale_transfer_type="{kind}"'),
        (TYPES[1], named),
        ("{{0,1,2,3,4,5,6,7}}", "{{0}}"),
    )
    received = 128 * 8 * 128 * 4
    name, axes, group, times = expected
    assert rows(mesh, *changes) == [(name, axes, group, times * received)]


@pytest.mark.parametrize(
    ("name", "devices", "slices"), [("tpu-v5e:2x4,slices=2", 16, 2), ("tpu-v3:2x2,slices=4", 32, 4)]
)
def test_targets_of_several_slices(name: str, devices: int, slices: int) -> None:
    target = Target.parse(name)
    assert (str(target), target.devices, target.slices) == (name, devices, slices)


@pytest.mark.parametrize("name", ["a100:8,slices=2", "tpu-v5e:2x4,slices=0", "tpu-v5e:2x4,2"])
def test_targets_that_are_none(name: str) -> None:
    with pytest.raises(InvalidRequest):
        Target.parse(name)


def test_a_mesh_is_compiled_for_the_slices_that_it_crosses() -> None:
    mesh = Mesh.parse("data=2@dcn,model=8")
    assert str(Target.for_mesh(CHIP, mesh)) == "tpu-v5e:2x4,slices=2"
    assert str(Target.for_mesh(CHIP, Mesh.parse("data=2,model=8"))) == "tpu-v5e:4x4"
    small = Target.for_mesh(CHIP, Mesh.parse("data=4@dcn,model=2"))
    assert str(small) == "tpu-v5e:2x2,slices=4"
    assert in_mesh(list("abcdefghijklmnop"), small, 8, list(range(8))) == list("abefijmn")


@pytest.mark.parametrize(
    ("target", "mesh", "message"),
    [
        ("tpu-v5e:2x4,slices=2", "data=4@dcn,model=4", "lies over 4 slices"),
        ("tpu-v5e:2x4,slices=2", "data=2,model=8", "lies over 1 slices"),
        ("tpu-v5e:2x2,slices=4", "data=2@dcn,model=8", "lies over 2 slices"),
    ],
)
def test_other_slices_than_those_of_the_plan_are_refused(
    target: str, mesh: str, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        judge(b"", Target.parse(target), Mesh.parse(mesh))


@pytest.mark.nightly
@pytest.mark.parametrize("mesh", ["data=2@dcn,model=4", "data=2,model=4@dcn:2"])
@pytest.mark.skipif(not HAS_LIBTPU, reason="libtpu, from the `aot` extra, is not installed")
def test_a_plan_compiles_for_two_slices(mesh: str) -> None:
    """Every collective runs along axes of the mesh, and some cross where the plan says so."""
    step = forms.serialize(mlp.make_step(mlp.PRESETS["small"]), "bytecode")
    result = plan(step, mesh=mesh, device="tpu-v5e", rollouts=50)
    target = Target.for_mesh(CHIP, Mesh.parse(mesh))
    verdict = judge(result.module, target, Mesh.parse(mesh))
    assert verdict.refusal is None
    assert verdict.collectives
    assert all(row.axes for row in verdict.collectives)
    assert verdict.step_seconds
