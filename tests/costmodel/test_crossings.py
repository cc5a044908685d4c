"""Which axes of a mesh cross slices: the ways that are tried, and what cannot be."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.errors import InvalidMesh
from toast.costmodel.hardware.devices import catalogue, find
from toast.costmodel.network.auto_mesh import meshes
from toast.costmodel.network.crossings import as_placed, splits
from toast.costmodel.network.mesh import Axis, Mesh
from toast.costmodel.network.placement import across, largest_slice, place, slices

MAX_CROSSINGS = 6
TWO_NETWORKS = sorted(name for name, chip in catalogue().items() if len(chip.links) > 1)


def ways(text: str, device: str, count: int | None = None) -> list[str]:
    return [str(mesh) for mesh in meshes(text, find(device), count)]


@pytest.mark.parametrize(
    ("mesh", "device", "count", "expected"),
    [
        ("data=2,model=8", "tpu-v5e", None, ["data=2,model=8"]),
        ("data=2,model=8", "tpu-v5e", 1, ["data=2,model=8"]),
        ("data=2,model=8", "tpu-v5e", 2, ["data=2@dcn,model=8", "data=2,model=8@dcn:2"]),
        ("data=16", "tpu-v5e", 4, ["data=16@dcn:4"]),
        ("data=2@dcn,model=8", "tpu-v5e", 2, ["data=2@dcn,model=8"]),
        (
            "data=4,model=8",
            "h100-80gb",
            None,
            [
                "data=4@infiniband,model=8",
                "data=4,model=8@infiniband:4",
                "data=4@infiniband:2,model=8@infiniband:2",
            ],
        ),
    ],
)
def test_ways(mesh: str, device: str, count: int | None, expected: list[str]) -> None:
    assert ways(mesh, device, count) == expected


def test_the_major_part_of_an_axis_crosses_and_the_rest_stays_inside() -> None:
    chip = find("tpu-v7x")
    mesh = Mesh.parse("data=2,model=8@dcn:2")
    placed = place(mesh, chip)
    assert across(placed, chip) == (1, 2)
    assert slices(placed, chip) == 2
    assert [chip.links[piece.link].name for piece in placed[1]] == ["d2d", "ici", "dcn"]


@pytest.mark.parametrize(
    ("mesh", "device", "count", "message", "hint"),
    [
        ("data=2@dcn,model=512", "tpu-v5e", None, "512 devices on one side of dcn", "model=512"),
        ("data=2@infiniband,model=16", "h200", None, "at most 8 together", "@infiniband:2"),
        ("data=4,model=512", "tpu-v5e", 2, "1024 devices, and ici of tpu-v5e joins", "8 slices"),
        ("data=4,model=512", "tpu-v5e", 1, "2048 devices", "8 slices or more"),
        ("auto:512", "tpu-v5e", 1, "512 devices", "2 slices or more"),
        ("auto:16", "tpu-v5e", 3, "do not make 3 slices", "divides"),
        ("auto:16", "tpu-v5e", 0, "no 0 slices", "one slice"),
        ("data=2,model=8", "tpu-v5e", -1, "no -1 slices", "one slice"),
        ("auto:16", "cpu", 2, "one network, shm", "two networks"),
        ("data=3,model=5", "cpu", 3, "one network", "two networks"),
        ("data=9,model=2", "tpu-v5e", 9, "", ""),
        ("data=2@dcn,model=4", "tpu-v5e", 4, "lies over 2 slices", "networks"),
        ("data=2@dcn", "cpu", None, "which cpu does not have", "shm"),
        ("data=8@dcn:3", "tpu-v5e", None, "do not make 8", "product"),
        ("a=2,b=2,c=2", "tpu-v5e", 8, "No axes of the mesh", "size"),
    ],
)
def test_what_cannot_be(mesh: str, device: str, count: int | None, message: str, hint: str) -> None:
    if not message:
        assert ways(mesh, device, count)
        return
    with pytest.raises(InvalidMesh, match=message) as caught:
        meshes(mesh, find(device), count)
    assert hint in caught.value.hint


POWERS = st.lists(st.integers(0, 5).map(lambda n: 2**n), min_size=1, max_size=4)


@given(POWERS, st.integers(1, 6).map(lambda n: 2**n), st.sampled_from(TWO_NETWORKS))
def test_every_way_has_the_slices_asked_for_and_fits(
    sizes: list[int], count: int, name: str
) -> None:
    chip = find(name)
    mesh = Mesh(axes=tuple(Axis(name=f"a{n}", size=size) for n, size in enumerate(sizes)))
    if mesh.devices == 1:
        return
    try:
        found = meshes(str(mesh), chip, count)
    except InvalidMesh:
        return
    assert 1 <= len(found) <= MAX_CROSSINGS
    assert len({place(way, chip) for way in found}) == len(found)
    for way in found:
        placed = place(way, chip)
        assert slices(placed, chip) == count
        assert way.devices // count <= largest_slice(chip)
        assert [axis.size for axis in way.axes] == sizes
        assert meshes(str(way), chip) == [way]
        assert meshes(str(way), chip, count) == [way]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), st.sampled_from(TWO_NETWORKS))
def test_a_mesh_says_what_it_would_cross_and_lies_as_before(sizes: list[int], name: str) -> None:
    chip = find(name)
    mesh = Mesh(axes=tuple(Axis(name=f"a{n}", size=size) for n, size in enumerate(sizes)))
    assert place(as_placed(mesh, chip), chip) == place(mesh, chip)


@given(POWERS, st.integers(1, 6).map(lambda n: 2**n))
def test_splits_multiply_to_the_slices_and_divide_their_axes(sizes: list[int], count: int) -> None:
    for split in splits(sizes, count):
        assert math.prod(split) == count
        assert all(size % parts == 0 for size, parts in zip(sizes, split, strict=True))
        assert sum(parts > 1 for parts in split) <= 2


@pytest.mark.parametrize(("devices", "count"), [(16, 2), (512, 4), (1024, 4), (4096, 16)])
@pytest.mark.parametrize("device", ["tpu-v5e", "tpu-v5p", "tpu-v7x"])
def test_a_number_of_devices_and_slices_is_enough(device: str, devices: int, count: int) -> None:
    chip = find(device)
    found = meshes(f"auto:{devices}", chip, count)
    assert 2 <= len(found) <= 13
    assert {mesh.devices for mesh in found} == {devices}
    assert {slices(place(mesh, chip), chip) for mesh in found} == {count}
    alone = [mesh for mesh in found if str(mesh.axes[0]) == f"d0={count}@dcn"]
    cut = [mesh for mesh in found if any("@dcn:" in str(axis) for axis in mesh.axes)]
    assert alone
    assert cut


def test_axes_that_no_pair_of_cuts_makes_are_refused_in_one_line() -> None:
    with pytest.raises(InvalidMesh) as caught:
        meshes("a=2,b=2,c=2", find("tpu-v5e"), 8)
    assert "\n" not in caught.value.message
