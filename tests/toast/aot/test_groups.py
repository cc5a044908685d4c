"""Replica groups: three syntaxes, one meaning, and the mesh axes behind them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.errors import InvalidModule
from toast.aot.replica_groups import parse_groups, parse_pairs
from toast.costmodel.network.device_groups import (
    Groups,
    axes_of_groups,
    axes_of_pairs,
    groups_over,
)
from toast.costmodel.network.mesh import Axis, Mesh

MESH = Mesh.parse("data=2,model=4")


@pytest.mark.parametrize(
    ("written", "axes"),
    [
        ("{{0,4},{1,5},{2,6},{3,7}}", ("data",)),
        ("{{0,1,2,3},{4,5,6,7}}", ("model",)),
        ("{{4,5,6,7},{1,0,2,3}}", ("model",)),
        ("[2,4]<=[8]", ("model",)),
        ("[4,2]<=[2,4]T(1,0)", ("data",)),
        ("[1,8]<=[8]", ("data", "model")),
        ("{}", ("data", "model")),
        ("mesh['axis_0'=2,'axis_1'=4] {'axis_1'}", ("model",)),
        ("mesh['axis_0'=2,'axis_1'=4,'axis_2'=1] {'axis_0'}", ("data",)),
        ("mesh['axis_0'=2,'axis_1'=4] {'axis_0','axis_1'}", ("data", "model")),
        ("mesh['a'=8] {'a':(4)2}", None),
        ("mesh['a'=8] {'a':(1)2}", ("data",)),
        ("mesh['a'=8] {'a':(2)4}", ("model",)),
        ("{{0,1},{2,3},{4,5},{6,7}}", None),
    ],
)
def test_axes_of_what_compilers_write(written: str, axes: tuple[str, ...] | None) -> None:
    assert axes_of_groups(parse_groups(written, 8), MESH) == axes


@pytest.mark.parametrize(
    ("written", "device_ids", "axes"),
    [
        ("mesh['axis_0'=8,'axis_1'=1]", "([2,4]T(1,0)) {'axis_0'}", ("data", "model")),
        ("mesh['axis_0'=4,'axis_1'=2]", "([2,4]T(1,0)) {'axis_1'}", ("data",)),
        ("mesh['axis_0'=4,'axis_1'=2]", "([2,4]T(1,0)) {'axis_0'}", ("model",)),
        ("mesh['a'=2,'b'=4]", "(0,1,2,3,4,5,6,7) {'b'}", ("model",)),
    ],
)
def test_a_mesh_over_devices_in_another_order(
    written: str, device_ids: str, axes: tuple[str, ...]
) -> None:
    assert axes_of_groups(parse_groups(written, 8, device_ids), MESH) == axes


@pytest.mark.parametrize("written", ["iota", "mesh['a'=8] {'b'}", "[x]<=[8]"])
def test_other_forms_are_refused(written: str) -> None:
    with pytest.raises(InvalidModule):
        parse_groups(written, 8)


def test_axes_of_permutations() -> None:
    def axes(written: str) -> tuple[str, ...]:
        return axes_of_pairs(parse_pairs(written), MESH)

    assert axes("{{0,1},{1,2},{2,3},{3,0}}") == ("model",)
    assert axes("{{0,4},{4,0}}") == ("data",)
    assert axes("{{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}") == ("data", "model")
    assert axes("{{0,0},{1,1}}") == ()


@st.composite
def mesh_and_axes(draw: st.DrawFn) -> tuple[Mesh, tuple[int, ...]]:
    """A mesh of up to four axes and some of them; sizes over 1, so that an answer is unique."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    mesh = Mesh(axes=tuple(Axis(name=f"x{k}", size=size) for k, size in enumerate(sizes)))
    chosen = draw(st.sets(st.sampled_from(range(len(sizes)))))
    return mesh, tuple(sorted(chosen))


def as_list(groups: Groups) -> str:
    return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"


def as_iota(mesh: Mesh, inner: tuple[int, ...]) -> str:
    sizes = [axis.size for axis in mesh.axes]
    outer = [axis for axis in range(len(sizes)) if axis not in inner]
    size = math.prod(sizes[axis] for axis in inner)
    shape = ",".join(map(str, sizes))
    order = ",".join(map(str, [*outer, *inner]))
    return f"[{mesh.devices // size},{size}]<=[{shape}]T({order})"


def as_mesh(mesh: Mesh, inner: tuple[int, ...]) -> str:
    axes = ",".join(f"'{axis.name}'={axis.size}" for axis in mesh.axes)
    used = ",".join(f"'{mesh.axes[axis].name}'" for axis in inner)
    return f"mesh[{axes}] {{{used}}}"


@given(mesh_and_axes())
def test_all_three_forms_lead_back_to_the_axes(drawn: tuple[Mesh, tuple[int, ...]]) -> None:
    mesh, inner = drawn
    names = tuple(mesh.axes[axis].name for axis in inner)
    groups = groups_over(mesh, names)
    for written in (as_list(groups), as_iota(mesh, inner), as_mesh(mesh, inner)):
        parsed = parse_groups(written, mesh.devices)
        assert {frozenset(group) for group in parsed} == {frozenset(group) for group in groups}
        assert axes_of_groups(parsed, mesh) == names


@given(mesh_and_axes(), st.randoms())
def test_the_order_of_groups_and_devices_means_nothing(
    drawn: tuple[Mesh, tuple[int, ...]], random: object
) -> None:
    mesh, inner = drawn
    names = tuple(mesh.axes[axis].name for axis in inner)
    groups = [list(group) for group in groups_over(mesh, names)]
    shuffle = random.shuffle  # type: ignore[attr-defined]
    shuffle(groups)
    for group in groups:
        shuffle(group)
    assert axes_of_groups(tuple(map(tuple, groups)), mesh) == names
