"""Which network lies under each mesh axis, chosen or given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.errors import InvalidMesh
from toast.costmodel.hardware.devices import catalogue, find
from toast.costmodel.network.collectives import collective_tables
from toast.costmodel.network.mesh import Axis, Mesh
from toast.costmodel.network.placement import place, places


def written(mesh: str, device: str) -> list[str]:
    """The places of each axis as people write them."""
    found = find(device)
    return ["/".join(map(str, over)) for over in places(place(Mesh.parse(mesh), found), found)]


@pytest.mark.parametrize(
    ("device", "mesh", "expected"),
    [
        ("a100-40gb", "data=2,model=4", ["nvlink:2", "nvlink:4"]),
        ("a100-40gb", "data=4,model=8", ["infiniband:4", "nvlink:8"]),
        ("a100-40gb", "data=16", ["nvlink:8/infiniband:2"]),
        ("a100-40gb", "data=3,model=3", ["infiniband:3", "nvlink:3"]),
        ("a100-40gb", "data=1,model=8", ["", "nvlink:8"]),
        ("tpu-v5e", "data=2,model=4", ["ici.x:2", "ici.y:4"]),
        ("tpu-v5e", "data=8", ["ici.y:4/ici.x:2"]),
        ("tpu-v5e", "data=2,model=256", ["dcn:2", "ici.y:16/ici.x:16"]),
        ("tpu-v5p", "data=4,model=16", ["ici.z:4", "ici.y:4/ici.x:4"]),
        ("tpu-v3", "data=8", ["chip:2/ici.y:2/ici.x:2"]),
        ("tpu-v7x", "data=4,model=2", ["ici.z:2/ici.y:2", "d2d:2"]),
        ("v100-16gb", "data=2,model=8", ["infiniband:2", "nvlink:8"]),
        # asked for
        ("a100-40gb", "data=2@infiniband,model=4@nvlink", ["infiniband:2", "nvlink:4"]),
        ("a100-40gb", "data=2@infiniband,model=4", ["infiniband:2", "nvlink:4"]),
        ("a100-40gb", "data=2@nvlink,model=4@infiniband", ["nvlink:2", "infiniband:4"]),
        ("a100-40gb", "data=16@nvlink:4/infiniband:4", ["nvlink:4/infiniband:4"]),
        ("a100-40gb", "data=16@nvlink/infiniband", ["nvlink:8/infiniband:2"]),
        ("a100-40gb", "data=8@nvlink,model=4", ["nvlink:8", "infiniband:4"]),
        ("tpu-v5e", "data=4@ici.x,model=2@ici.y", ["ici.x:4", "ici.y:2"]),
        ("tpu-v5e", "data=2,model=4@ici.x", ["ici.y:2", "ici.x:4"]),
        ("tpu-v5e", "data=2@ici.x,model=4@ici.x", ["ici.x:2", "ici.x:4"]),
        ("tpu-v5e", "data=2@dcn,model=4@ici", ["dcn:2", "ici.y:2/ici.x:2"]),
    ],
)
def test_places(device: str, mesh: str, expected: list[str]) -> None:
    assert written(mesh, device) == expected


@pytest.mark.parametrize(
    ("device", "mesh", "message", "hint"),
    [
        ("a100-40gb", "data=2@ethernet", "'ethernet', which a100-40gb", "nvlink, infiniband"),
        ("a100-40gb", "data=16@nvlink", "too few for 16", "data=16@nvlink/infiniband"),
        ("a100-40gb", "a=4@nvlink,b=4@nvlink", "beside the other axes", "next network"),
        ("a100-40gb", "data=16@nvlink:3/infiniband", "do not make 16", "product"),
        ("a100-40gb", "data=16@nvlink:2/infiniband:2", "do not make 16", "product"),
        ("a100-40gb", "data=2@nvlink.x", "no dimension 'x'", "nvlink, infiniband"),
        ("tpu-v5e", "data=2@ici.z", "no dimension 'z'", "ici.x, ici.y"),
        ("tpu-v5e", "a=2@ici.x,b=2@ici.y,c=2", "without one is left", "Name a dimension"),
    ],
)
def test_places_that_cannot_be(device: str, mesh: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidMesh, match=message) as caught:
        place(Mesh.parse(mesh), find(device))
    assert hint in caught.value.hint


@pytest.mark.parametrize("text", ["a=2@", "a=2@/nvlink", "a=2@nvlink:0", "a=2@x.w", "a=2@a b"])
def test_places_that_do_not_parse(text: str) -> None:
    with pytest.raises(InvalidMesh, match="is no network for mesh axis 'a'") as caught:
        Mesh.parse(text)
    assert "@nvlink" in caught.value.hint


def test_a_mesh_with_places_prints_as_it_parses() -> None:
    text = "data=16@nvlink:8/infiniband:2,model=4@ici.x,x=3"
    assert str(Mesh.parse(text)) == text


def test_a_dimension_that_two_axes_share_is_stepped_over_by_the_outer_one() -> None:
    outer, inner = place(Mesh.parse("data=2@ici.x,model=4@ici.x"), find("tpu-v5e"))
    assert (outer[0].stride, inner[0].stride, inner[0].length) == (4, 1, 8)


@pytest.mark.parametrize(
    ("device", "mesh", "closed"),
    [
        ("tpu-v5e", "data=2,model=4", [False, False]),
        ("tpu-v5e", "data=8,model=16", [False, True]),
        ("tpu-v5e", "data=16,model=16", [True, True]),
        ("tpu-v4", "a=4,b=4,c=4", [True, True, True]),
        ("tpu-v4", "a=2,b=4,c=4", [False, False, False]),
        ("tpu-v4", "a=4,b=4,c=8", [True, True, True]),
        ("tpu-v6e", "data=16,model=4", [False, False]),
    ],
)
def test_which_dimensions_are_rings(device: str, mesh: str, closed: list[bool]) -> None:
    found = place(Mesh.parse(mesh), find(device))
    assert [all(piece.closed for piece in pieces) for pieces in found] == closed


SIZES = st.lists(
    st.integers(0, 4).map(lambda n: 2**n) | st.sampled_from([3, 6]), min_size=1, max_size=4
)


@given(SIZES, st.sampled_from(sorted(catalogue())))
def test_the_places_that_would_be_chosen_change_nothing_when_given(
    sizes: list[int], device: str
) -> None:
    found = find(device)
    axes = tuple(Axis(name=f"a{n}", size=size) for n, size in enumerate(sizes))
    chosen = place(Mesh(axes=axes), found)
    given_axes = tuple(
        replace(axis, places=over) for axis, over in zip(axes, places(chosen, found), strict=True)
    )
    mesh = Mesh(axes=given_axes)
    assert place(mesh, found) == chosen
    assert all(
        (one == other).all()
        for one, other in zip(
            collective_tables(mesh, found), collective_tables(Mesh(axes=axes), found), strict=True
        )
    )
    if mesh.devices > 1:
        assert Mesh.parse(str(mesh)) == mesh
