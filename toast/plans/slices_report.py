"""A plan over several slices of TPUs or nodes of GPUs, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from toast.plans.plan import MeshSpec, Plan


def axes_text(plan: Plan, axes: Sequence[str]) -> str:
    """Axes, and where the devices are in several slices also the networks that they cross."""
    names = ", ".join(axes)
    if plan.mesh.slices == 1:
        return names
    return f"{names} ({' + '.join(plan.mesh.networks(axes))})"


def slices_sentence(plan: Plan) -> str:
    """Which axes cross slices, and how JAX makes such a mesh; '' where the devices are in one."""
    mesh = plan.mesh
    if mesh.slices == 1:
        return ""
    crossing = [
        axis.name if axis.inside == 1 else f"{axis.across} parts of {axis.name}"
        for axis in mesh.axes
        if axis.across > 1
    ]
    each = math.prod(axis.inside for axis in mesh.axes)
    inside, across = hybrid_shapes(mesh)
    return (
        f"{mesh.slices} slices of {each} devices, between which {' and '.join(crossing)} "
        f"{'crosses' if len(crossing) == 1 and ' ' not in crossing[0] else 'cross'}. In JAX: "
        f"mesh_utils.create_hybrid_device_mesh({inside}, {across})."
    )


def hybrid_shapes(mesh: MeshSpec) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of one slice and that of the slices, as `create_hybrid_device_mesh` has them."""
    return tuple(axis.inside for axis in mesh.axes), tuple(axis.across for axis in mesh.axes)
