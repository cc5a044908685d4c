"""Requests from what people write."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from toast.analysis.errors import InvalidMesh, InvalidRequest, ToastError, UnknownDevice
from toast.request.settings import make_request, mesh_text


def test_units_are_read() -> None:
    request = make_request(mesh="data=2,model=4", memory="16GiB", budget="2min", seed=3)
    assert request.memory == 16 * 2**30
    assert request.budget == 120.0
    assert (request.mesh, request.seed, request.planner) == ("data=2,model=4", 3, "mcts")


class JaxMesh:
    """What a `jax.sharding.Mesh` shows of its axes."""

    def __init__(self) -> None:
        self.shape = {"data": 2, "model": 4}


class Devices(JaxMesh):
    """A mesh of devices of these kinds."""

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        self.devices = np.array([SimpleNamespace(device_kind=kind) for kind in kinds])


@pytest.mark.parametrize(
    ("kind", "device"),
    [("TPU v5 lite", "tpu-v5e"), ("NVIDIA H100 80GB HBM3", "h100-80gb"), ("cpu", "cpu")],
)
def test_the_device_is_what_the_mesh_is_made_of(kind: str, device: str) -> None:
    assert make_request(mesh=Devices(kind)).device == device
    assert make_request(mesh=Devices(kind), device="tpu-v4").device == "tpu-v4"
    assert make_request(mesh="data=2").device == "tpu-v5e"


def test_a_small_memory_may_be_said_in_bytes() -> None:
    assert make_request(mesh="data=2", memory="16B").memory == 16
    assert make_request(mesh="data=2", memory=1 << 20).memory == 1 << 20


@pytest.mark.parametrize("mesh", ["data=2,model=4", {"data": 2, "model": 4}, JaxMesh()])
def test_a_mesh_in_three_forms(mesh: Any) -> None:
    assert mesh_text(mesh) == "data=2,model=4"


def test_a_mesh_to_be_chosen_is_left_to_the_engine() -> None:
    request = make_request(mesh="auto:8", prove=True, decisions=("x.0=d0",))
    assert (request.mesh, request.prove, request.decisions) == ("auto:8", True, ("x.0=d0",))
    assert make_request(mesh="data=2").decisions is None


@pytest.mark.parametrize(
    ("settings", "kind", "part"),
    [
        ({"mesh": 8}, InvalidMesh, "int is not a mesh"),
        ({"mesh": ""}, InvalidMesh, "empty"),
        ({"mesh": "data=1"}, InvalidMesh, "one device"),
        ({"mesh": "auto:x"}, InvalidMesh, "for how many devices"),
        ({"mesh": "data=2", "prove": "perhaps"}, InvalidRequest, "'prove' is out of range"),
        ({"mesh": "data=2", "prove": True, "refine": True}, InvalidRequest, "not go together"),
        ({"mesh": "data=2,data=4"}, InvalidMesh, "named twice"),
        ({"mesh": "data:2"}, InvalidMesh, "not a mesh axis"),
        ({"mesh": "data=2@nvlink"}, InvalidMesh, "which tpu-v5e does not have"),
        ({"mesh": "data=2", "device": "none.toml"}, UnknownDevice, "cannot be read"),
        ({"mesh": "data=2", "device": "tpu-v99"}, UnknownDevice, "tpu-v99"),
        ({"mesh": "data=2", "memory": "lots"}, InvalidRequest, "lots"),
        ({"mesh": "data=2", "memory": "0"}, InvalidRequest, "above zero"),
        ({"mesh": "data=2", "memory": "16"}, InvalidRequest, "16 bytes"),
        ({"mesh": "data=2", "memory": 80}, InvalidRequest, "80 bytes"),
        ({"mesh": Devices("TPU v99")}, UnknownDevice, "JAX calls 'TPU v99'"),
        ({"mesh": Devices("TPU v4", "TPU v5")}, UnknownDevice, "several kinds"),
        ({"mesh": "data=2", "budget": "-1s"}, InvalidRequest, "-1s"),
        ({"mesh": "data=2", "seed": -1}, InvalidRequest, "'seed' is out of range"),
        ({"mesh": "data=2", "rollouts": 0}, InvalidRequest, "'rollouts' is out of range"),
        ({"mesh": "data=2", "threads": 999}, InvalidRequest, "'threads' is out of range"),
        ({"mesh": "data=2", "colour": "red"}, InvalidRequest, "'colour'"),
    ],
)
def test_bad_settings_say_what_and_what_to_do(
    settings: dict[str, Any], kind: type[ToastError], part: str
) -> None:
    with pytest.raises(kind) as caught:
        make_request(**settings)
    assert part in caught.value.message
    assert caught.value.hint
