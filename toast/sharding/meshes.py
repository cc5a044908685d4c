"""Which mesh a function is sharded over, and which chips that is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh

from toast.analysis.errors import InvalidMesh
from toast.costmodel.network import mesh as planned
from toast.costmodel.network.auto_mesh import is_auto
from toast.plans.plan import MeshSpec
from toast.request.jax_meshes import slice_numbers


def chosen_mesh(mesh: Any) -> tuple[Mesh | None, str]:
    """A mesh with its text, or None and what to choose one for.

    `mesh` is one of JAX's, a text such as `data=2,model=4` or `auto:8`, or a mapping of sizes, over
    the first of `jax.devices()`; None is the current mesh of JAX, else the best over all devices.
    A mesh over several slices is built when the plan says which of its axes cross.
    """
    if mesh is None:
        mesh = _current()
    if mesh is None:
        count = len(jax.devices())
        mesh = f"auto:{count}" if count > 1 else Mesh(jax.devices(), ("d0",))
    if isinstance(mesh, Mesh):
        return mesh, ",".join(f"{name}={size}" for name, size in mesh.shape.items())
    if isinstance(mesh, str):
        text = mesh.strip()
    elif hasattr(mesh, "items"):
        text = ",".join(f"{name}={size}" for name, size in mesh.items())
    else:
        raise InvalidMesh(
            f"A {type(mesh).__name__} has no devices to run on.",
            "Give a jax.sharding.Mesh, a text such as data=2,model=4 or auto:8, or nothing.",
        )
    if is_auto(text):
        return None, text
    axes = planned.Mesh.parse(text).axes
    sizes = {axis.name: axis.size for axis in axes}
    if slice_count(first_devices(math.prod(sizes.values()))) > 1:
        return None, text
    return _over_first(sizes), text


def built_mesh(spec: MeshSpec) -> Mesh:
    """The mesh of a plan over the first of all devices, whose axes cross slices as it says."""
    sizes = {axis.name: axis.size for axis in spec.axes}
    devices = first_devices(math.prod(sizes.values()))
    if spec.slices == 1 or slice_count(devices) == 1:
        return _over_first(sizes)
    lattice = mesh_utils.create_hybrid_device_mesh(
        [axis.inside for axis in spec.axes],
        [axis.across for axis in spec.axes],
        devices,
        process_is_granule=getattr(devices[0], "slice_index", None) is None,
    )
    return Mesh(lattice, tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))


def slice_count(devices: Sequence[Any]) -> int:
    """In how many slices devices are, as far as they say so."""
    return len(set(slice_numbers(devices)))


def first_devices(count: int) -> Sequence[Any]:
    """The first of all devices; raises InvalidMesh where there are not so many."""
    devices = jax.devices()
    if count > len(devices):
        raise InvalidMesh(
            f"The mesh has {count} devices, and JAX sees {len(devices)}.",
            "Give a smaller mesh, or none for the best over all devices.",
        )
    return devices[:count]


def _over_first(sizes: Mapping[str, int]) -> Mesh:
    devices, types = first_devices(math.prod(sizes.values())), (AxisType.Auto,) * len(sizes)
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=types, devices=devices)


def automatic(mesh: Mesh) -> Mesh:
    """The same devices with axes that XLA propagates: a plan says where it must not."""
    types = (AxisType.Auto,) * len(mesh.axis_names)
    return Mesh(mesh.devices, mesh.axis_names, axis_types=types)


def explicit(mesh: Mesh | None) -> bool:
    """Whether a mesh has axes over which JAX wants every layout said in types."""
    return mesh is not None and any(kind is not AxisType.Auto for kind in mesh.axis_types)


def devices_of(mesh: Mesh | None, text: str) -> Sequence[Any]:
    """The devices of a mesh, or those that one is chosen or built over."""
    if mesh is not None:
        return list(mesh.devices.flat)
    if is_auto(text):
        return jax.devices()
    return first_devices(planned.Mesh.parse(text).devices)


def _current() -> Mesh | None:
    """The mesh of `jax.set_mesh`, or of a `with mesh:` around the call."""
    mesh = jax.sharding.get_mesh()
    if isinstance(mesh, Mesh) and not mesh.empty:
        return mesh
    from jax._src import mesh as internal

    entered = internal.thread_resources.env.physical_mesh
    return None if entered.empty else entered
