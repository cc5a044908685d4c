"""Meshes of JAX whose devices say in which slices they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.experimental import mesh_utils

from toast.costmodel.hardware.devices import find
from toast.plans.plan import MeshAxis, MeshSpec
from toast.request.jax_meshes import crossed, placed_mesh, slice_numbers
from toast.request.settings import make_request
from toast.sharding.meshes import built_mesh, chosen_mesh, devices_of, slice_count


@dataclass(frozen=True)
class FakeDevice:
    """What meshes are made of where there is no chip."""

    id: int
    process_index: int
    slice_index: int | None
    device_kind: str = "NVIDIA H100 80GB HBM3"
    platform: str = "gpu"


class FakeMesh:
    """What is read of a `jax.sharding.Mesh`."""

    def __init__(self, devices: Any, names: tuple[str, ...]) -> None:
        self.devices = np.asarray(devices)
        self.shape = dict(zip(names, self.devices.shape, strict=True))


def node_devices(nodes: int, each: int, *, numbered: bool = True) -> list[FakeDevice]:
    return [
        FakeDevice(id=n, process_index=n // each, slice_index=n // each if numbered else None)
        for n in range(nodes * each)
    ]


def hybrid(inside: tuple[int, ...], across: tuple[int, ...], *, numbered: bool = True) -> Any:
    devices = node_devices(int(np.prod(across)), int(np.prod(inside)), numbered=numbered)
    return mesh_utils.create_hybrid_device_mesh(
        inside, across, devices, process_is_granule=not numbered
    )


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize(
    ("inside", "across", "expected"),
    [
        ((1, 8), (4, 1), "data=4@infiniband,model=8"),
        ((2, 4), (2, 1), "data=4@infiniband:2,model=4"),
        ((2, 4), (1, 2), "data=2,model=8@infiniband:2"),
        ((2, 4), (2, 2), "data=4@infiniband:2,model=8@infiniband:2"),
        ((2, 4), (1, 1), "data=2,model=4"),
    ],
)
def test_hybrid_meshes(
    inside: tuple[int, ...], across: tuple[int, ...], expected: str, numbered: bool
) -> None:
    mesh = FakeMesh(hybrid(inside, across, numbered=numbered), ("data", "model"))
    assert str(placed_mesh(mesh, find("h100-80gb"))) == expected
    request = make_request(mesh=mesh)
    assert (request.mesh, request.device) == (expected, "h100-80gb")


def test_devices_in_order_are_nodes_in_order() -> None:
    mesh = FakeMesh(np.array(node_devices(2, 4)).reshape(2, 4), ("data", "model"))
    assert str(placed_mesh(mesh, find("h100-80gb"))) == "data=2@infiniband,model=4"
    across = FakeMesh(np.array(node_devices(2, 4)).reshape(2, 4).T, ("data", "model"))
    assert str(placed_mesh(across, find("h100-80gb"))) == "data=4,model=2@infiniband"


def test_an_axis_that_crosses_in_another_order_is_priced_as_if_all_of_it_did() -> None:
    woven = np.array(node_devices(2, 4)).reshape(2, 4).T.reshape(8)
    mesh = FakeMesh(woven, ("data",))
    assert str(placed_mesh(mesh, find("h100-80gb"))) == "data=8@infiniband"


def test_devices_that_say_nothing_are_numbered_as_the_networks_join_them() -> None:
    alone = [FakeDevice(id=n, process_index=n, slice_index=None) for n in range(16)]
    mesh = FakeMesh(np.array(alone).reshape(2, 8), ("data", "model"))
    assert set(slice_numbers(alone)) == {0}
    assert str(placed_mesh(mesh, find("h100-80gb"))) == "data=2@infiniband,model=8"


def test_hosts_of_a_tpu_slice_are_no_slices() -> None:
    hosts = [
        FakeDevice(id=n, process_index=n // 4, slice_index=None, platform="tpu") for n in range(8)
    ]
    mesh = FakeMesh(np.array(hosts).reshape(2, 4), ("data", "model"))
    assert str(placed_mesh(mesh, find("tpu-v5e"))) == "data=2,model=4"


def test_a_chip_of_one_network_has_no_slices() -> None:
    mesh = FakeMesh(np.array(node_devices(2, 4)).reshape(2, 4), ("data", "model"))
    assert str(placed_mesh(mesh, find("cpu"))) == "data=2,model=4"


SIZES = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=3)


@given(SIZES)
def test_the_parts_that_cross_are_found_again(sizes: list[tuple[int, int]]) -> None:
    inside, across = (np.array(one) for one in zip(*sizes, strict=True))
    slices = np.arange(across.prod(), dtype=np.int64).reshape(across)
    blocks = np.kron(slices, np.ones(inside, dtype=np.int64)).astype(np.int64)
    assert crossed(blocks) == tuple(across)


@given(SIZES, st.randoms(use_true_random=False))
def test_in_any_order_no_less_crosses_than_there_are_slices(
    sizes: list[tuple[int, int]], random: Any
) -> None:
    inside, across = (np.array(one) for one in zip(*sizes, strict=True))
    numbers = [n for n in range(across.prod()) for _ in range(inside.prod())]
    random.shuffle(numbers)
    found = crossed(np.array(numbers).reshape(inside * across))
    assert np.prod(found) >= across.prod()
    assert all((inside * across) % np.array(found) == 0)


def test_the_mesh_of_a_plan_has_its_slices_where_the_plan_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    devices = node_devices(2, 4)
    monkeypatch.setattr(jax, "devices", lambda: devices)
    spec = MeshSpec(axes=[MeshAxis(name="data", size=2), MeshAxis(name="model", size=4, across=2)])
    built = built_mesh(spec)
    assert str(placed_mesh(built, find("h100-80gb"))) == "data=2,model=4@infiniband:2"
    plain = built_mesh(MeshSpec(axes=[MeshAxis(name="data", size=4)]))
    assert [device.id for device in plain.devices.flat] == [0, 1, 2, 3]


def test_a_text_over_several_slices_waits_for_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "devices", lambda: node_devices(2, 4))
    assert chosen_mesh("data=2,model=4") == (None, "data=2,model=4")
    mesh, text = chosen_mesh("data=4")
    assert (mesh is not None, text) == (True, "data=4")
    assert len(devices_of(None, "data=2,model=4")) == 8
    assert slice_count(node_devices(2, 4)) == 2
