"""Meshes over several slices, as their chips are numbered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.costmodel.hardware.devices import find
from toast.costmodel.network.collectives import Kind, collective_tables
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.network.slice_major import slice_major

CHIP = find("tpu-v5e")


@pytest.mark.parametrize(
    ("mesh", "whole", "inside", "slices"),
    [
        ("data=2,model=4", "data=2,model=4", "data=2,model=4", 1),
        ("data=2@dcn,model=4", "data=2@dcn,model=4", "model=4", 2),
        ("data=2,model=4@dcn", "model=4@dcn,data=2", "data=2", 4),
        (
            "data=4@dcn:2,model=4@dcn:2",
            "data@dcn=2@dcn,model@dcn=2@dcn,data@inside=2,model@inside=2",
            "data@inside=2,model@inside=2",
            4,
        ),
    ],
)
def test_axes_between_slices_come_first(mesh: str, whole: str, inside: str, slices: int) -> None:
    found = slice_major(Mesh.parse(mesh), CHIP)
    assert (str(found.whole), str(found.inside), found.slices) == (whole, inside, slices)


def test_devices_are_found_slice_by_slice() -> None:
    assert slice_major(Mesh.parse("data=2@dcn,model=4"), CHIP).positions == tuple(range(8))
    assert slice_major(Mesh.parse("data=2,model=2@dcn"), CHIP).positions == (0, 2, 1, 3)
    assert slice_major(Mesh.parse("a=2,b=4@dcn:2"), CHIP).positions == (0, 1, 4, 5, 2, 3, 6, 7)


def test_both_parts_of_an_axis_are_the_axis() -> None:
    found = slice_major(Mesh.parse("data=4@dcn:2,model=4@dcn:2"), CHIP)
    assert found.joined(["data@dcn", "model@dcn", "data@inside"]) == ("data", "model@dcn")
    assert found.joined(["model@inside", "data@inside"]) == ("data@inside", "model@inside")
    assert found.joined(["data@dcn", "model@dcn", "data@inside", "model@inside"]) == (
        "data",
        "model",
    )


SIZES = st.lists(
    st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 4])), min_size=1, max_size=3
)


@given(SIZES, st.floats(1, 1e10))
def test_it_is_the_same_mesh(sizes: list[tuple[int, int]], size: float) -> None:
    """Each device once, each slice whole, and each axis as dear as its parts together."""
    text = ",".join(
        f"a{n}={outer * inner}" + (f"@dcn:{outer}" if outer > 1 else "")
        for n, (outer, inner) in enumerate(sizes)
    )
    if all(outer * inner == 1 for outer, inner in sizes):
        return
    mesh = Mesh.parse(text)
    found = slice_major(mesh, CHIP)
    assert sorted(found.positions) == list(range(mesh.devices))
    assert found.whole.devices == mesh.devices
    outer = [one for one, _ in sizes]
    lattice = np.array(found.positions).reshape([a * b for a, b in sizes])
    slices = lattice // found.inside.devices
    firsts = slices[tuple(slice(None, None, inner) for _, inner in sizes)]
    assert sorted(firsts.flat) == list(range(int(np.prod(outer))))
    names = [axis.name for axis in found.whole.axes]
    one, other = collective_tables(mesh, CHIP), collective_tables(found.whole, CHIP)
    for number, axis in enumerate(mesh.axes):
        bits = sum(1 << names.index(part) for part in found.parts[axis.name])
        for kind in Kind:
            assert one.seconds(kind, 1 << number, size) == pytest.approx(
                other.seconds(kind, bits, size)
            )
