"""Puts a sharded module back into the `jax.export.Exported` that it came from."""

from __future__ import annotations

import dataclasses
from typing import Any

from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir

from toast.analysis.errors import UnsupportedModule
from toast.analysis.forms import Loaded, portable
from toast.costmodel.network.mesh import Mesh
from toast.plans.plan import Spec


def encode_export(
    loaded: Loaded,
    module: ir.Module,
    mesh: Mesh,
    arguments: list[Spec],
    results: list[Spec],
    version: str | None = None,
) -> bytes:
    """A serialized export with the sharded module, whose `in_shardings_jax` gives the layouts.

    `arguments` are those of the module, in which a multi-platform export has one more in front.
    """
    exported = loaded.exported
    if exported is None:
        raise UnsupportedModule("The module did not come as a jax.export artifact.")
    abstract = AbstractMesh(
        tuple(axis.size for axis in mesh.axes), tuple(axis.name for axis in mesh.axes)
    )
    extra = len(arguments) - len(exported.module_kept_var_idx)
    kept = dict(zip(exported.module_kept_var_idx, arguments[extra:], strict=True))
    inputs = [
        _named(abstract, kept.get(index), aval.ndim) for index, aval in enumerate(exported.in_avals)
    ]
    outputs = [_named(abstract, spec, len(spec)) for spec in results]
    with module.context:
        data = portable(module, version)
    fields = {field.name for field in dataclasses.fields(exported)}
    changes: dict[str, Any] = {
        "mlir_module_serialized": data,
        "nr_devices": mesh.devices,
        "_has_named_shardings": True,
        "_in_named_shardings": tuple(inputs),
        "_out_named_shardings": tuple(outputs),
    }
    changes = {name: value for name, value in changes.items() if name in fields}
    return bytes(dataclasses.replace(exported, **changes).serialize())


def _named(mesh: AbstractMesh, spec: Spec | None, rank: int) -> NamedSharding:
    dims: list[Any] = [tuple(axes) or None for axes in spec or [[]] * rank]
    return NamedSharding(mesh, PartitionSpec(*dims))
