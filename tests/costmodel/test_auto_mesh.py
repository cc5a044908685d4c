"""The meshes that `auto:8` stands for."""

from __future__ import annotations

import math

import pytest

from toast.analysis.errors import InvalidMesh
from toast.costmodel.hardware.devices import catalogue, find
from toast.costmodel.network.auto_mesh import is_auto, meshes
from toast.costmodel.network.mesh import Mesh

MAX_AXES = 3
MAX_EACH = 6


def sizes(text: str, device: str) -> list[tuple[int, ...]]:
    return [tuple(axis.size for axis in mesh.axes) for mesh in meshes(text, find(device))]


@pytest.mark.parametrize(
    ("devices", "device", "expected"),
    [
        (2, "tpu-v5e", [(2,)]),
        (7, "cpu", [(7,)]),
        (6, "a100-80gb", [(6,), (2, 3)]),
        (8, "tpu-v5e", [(8,), (2, 4), (2, 2, 2)]),
        (8, "a100-80gb", [(8,), (2, 4), (2, 2, 2)]),
    ],
)
def test_factorisations_over_one_network_are_counted_without_their_order(
    devices: int, device: str, expected: list[tuple[int, ...]]
) -> None:
    assert sizes(f"auto:{devices}", device) == expected


def test_the_order_counts_where_axes_lie_over_other_networks() -> None:
    """Sixteen A100 are two nodes: one axis leaves the node, and it matters which."""
    found = sizes("auto:16", "a100-80gb")
    assert {(2, 8), (8, 2)} <= set(found)
    assert (4, 4) in found


def test_the_order_counts_where_a_torus_closes_into_a_ring() -> None:
    """On v4 the two ways are the same dimensions turned; on v5e they share its sides otherwise."""
    assert (8, 2) in sizes("auto:16", "tpu-v5e")
    assert (8, 2) not in sizes("auto:16", "tpu-v4")


@pytest.mark.parametrize("devices", [2, 6, 8, 16, 64, 256, 4096, 65_536])
@pytest.mark.parametrize("device", sorted(catalogue()))
def test_every_mesh_has_all_devices_and_there_are_not_too_many(device: str, devices: int) -> None:
    found = meshes(f"auto:{devices}", find(device))
    assert 1 <= len(found) <= 1 + (MAX_AXES - 1) * MAX_EACH
    assert len(set(map(str, found))) == len(found)
    for mesh in found:
        assert mesh.devices == devices
        assert [axis.name for axis in mesh.axes] == [f"d{n}" for n in range(len(mesh.axes))]
        assert all(axis.size > 1 for axis in mesh.axes)
        assert Mesh.parse(str(mesh)) == mesh


def test_even_meshes_of_each_number_of_axes_are_among_those_of_many_devices() -> None:
    found = sizes("auto:4096", "tpu-v5p")
    assert {(4096,), (64, 64), (16, 16, 16)} <= set(found)
    assert all(math.prod(each) == 4096 for each in found)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("auto", "for how many devices"),
        ("auto:", "for how many devices"),
        ("auto:0", "for how many devices"),
        ("auto:x", "for how many devices"),
        ("auto:-2", "for how many devices"),
        ("auto:8:2", "for how many devices"),
        ("auto:999999999", "for how many devices"),
        ("auto:1", "one device"),
    ],
)
def test_what_does_not_say_how_many_devices_is_refused(text: str, part: str) -> None:
    with pytest.raises(InvalidMesh, match=part) as caught:
        meshes(text, find("cpu"))
    assert "auto:" in caught.value.hint


def test_a_given_mesh_is_the_only_one() -> None:
    assert [str(mesh) for mesh in meshes("data=2,model=4", find("cpu"))] == ["data=2,model=4"]
    assert not is_auto("autos=2")
    assert is_auto(" auto:8 ")
    with pytest.raises(InvalidMesh, match="does not have"):
        meshes("data=2@nvlink", find("tpu-v5e"))
