"""From what people write (`16GiB`, `10s`, a mesh in three forms) to a checked `PlanRequest`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from toast.analysis.errors import InvalidMesh, InvalidRequest
from toast.costmodel.compiler_passes import known_passes
from toast.costmodel.hardware.devices import find, is_file
from toast.costmodel.hardware.quantities import parse_bytes, parse_seconds
from toast.costmodel.network.auto_mesh import meshes
from toast.request.devices import AUTO, device_for
from toast.request.request import CONFIRM_PLANS, PlanRequest

SMALLEST_BARE = 1 << 20
"""Bytes of memory that a bare number may mean: nobody has less, and `16` means 16GiB."""


def make_request(
    *,
    mesh: Any,
    slices: int | None = None,
    device: str = AUTO,
    memory: int | str | None = None,
    budget: float | str | None = None,
    confirm: int | bool | None = None,
    confirm_time: float | str | None = None,
    **settings: Any,
) -> PlanRequest:
    """A request whose every setting is in range; or a ToastError that says what is wrong.

    `mesh` is `data=2,model=4`, `auto:8`, a mapping of sizes by name, or a `jax.sharding.Mesh`;
    `slices` is how many slices of TPUs or nodes of GPUs it is over, as far as it does not say so;
    `device` a name of the catalogue, the path of a device file, or `auto` for that of the mesh;
    `memory` is bytes per device or a size such as `16GiB`; `budget` is seconds of search or such as
    `10s`, and `confirm_time` those of compiling; `confirm` is how many plans to compile, and True
    the usual number.
    """
    device = device_text(device_for(mesh, device))
    text = mesh_text(mesh, device)
    meshes(text, find(device), slices)
    fields = {key: value for key, value in settings.items() if value is not None}
    try:
        request = PlanRequest(
            mesh=text,
            slices=slices,
            device=device,
            memory=None if memory is None else memory_bytes(memory),
            budget=None if budget is None else parse_seconds(budget),
            confirm=plans_to_confirm(confirm),
            confirm_time=None if confirm_time is None else parse_seconds(confirm_time),
            **fields,
        )
    except ValidationError as error:
        raise invalid_setting(error) from None
    return agreeing(request)


def memory_bytes(memory: int | str) -> int:
    """Bytes per device; raises InvalidRequest for a number that was meant in another unit."""
    size = parse_bytes(memory)
    if size < SMALLEST_BARE and str(memory).strip().isdigit():
        raise InvalidRequest(
            f"A memory of {size} is {size} bytes.",
            f"Write the unit: {size}GiB, or {size}B where bytes are meant.",
        )
    return size


def plans_to_confirm(confirm: int | bool | None) -> int | None:
    """How many plans to compile: None for none, which False says too."""
    if isinstance(confirm, bool):
        return CONFIRM_PLANS if confirm else None
    return confirm


def agreeing(request: PlanRequest) -> PlanRequest:
    """The request, whose settings go together and name what there is; raises InvalidRequest."""
    if request.prove and request.refine:
        raise InvalidRequest(
            "The settings 'prove' and 'refine' do not go together: a lower bound is one of whole "
            "colours, and does not hold for a refined plan.",
            "Ask for one of the two.",
        )
    if request.confirm_time is not None and request.confirm is None:
        raise InvalidRequest(
            "The setting 'confirm_time' goes with 'confirm'.", "Ask for plans to be compiled too."
        )
    agreeing_in_time(request)
    known_passes(request.without)
    return request


def agreeing_in_time(request: PlanRequest) -> None:
    """Refuse settings of microbatches that say nothing, or that do not go together."""
    count = request.microbatches
    wanted = request.fit or count == "auto" or (isinstance(count, int) and count > 1)
    if request.batch is not None and not wanted:
        raise InvalidRequest(
            "The setting 'batch' goes with 'microbatches' or 'fit'.",
            "Say in how many parts the batch is to run: microbatches=4, or auto.",
        )
    if request.decisions is not None and (request.fit or count == "auto"):
        raise InvalidRequest(
            "The setting 'decisions' gives a plan, and 'fit' and microbatches=auto look for one.",
            "Give the number of microbatches with the decisions.",
        )
    if isinstance(count, int) and request.fit:
        raise InvalidRequest(
            "The setting 'fit' looks for a number of microbatches, and 'microbatches' gives one.",
            "Give one of the two.",
        )


def device_text(device: str) -> str:
    """A device as the engine, which runs elsewhere, finds it: the path of a file made absolute."""
    return str(Path(device).absolute()) if is_file(device) else device


def mesh_text(mesh: Any, device: str | None = None) -> str:
    """A mesh as `name=size` pairs; raises InvalidMesh for what is none.

    Of a mesh with devices, which are a `device` each, the text says which axes cross slices.
    """
    if isinstance(mesh, str):
        return mesh
    if device is not None and getattr(mesh, "devices", None) is not None:
        from toast.request.jax_meshes import placed_mesh  # numpy, which no server loads

        return str(placed_mesh(mesh, find(device)))
    sizes = mesh if isinstance(mesh, Mapping) else getattr(mesh, "shape", None)
    if not isinstance(sizes, Mapping):
        raise InvalidMesh(
            f"A {type(mesh).__name__} is not a mesh.",
            'Give "data=2,model=4", "auto:8", a dict of sizes by name, or a jax.sharding.Mesh.',
        )
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def invalid_setting(error: ValidationError) -> InvalidRequest:
    """What is wrong with the first setting that is out of range."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "request"
    problem = first["msg"][:1].lower() + first["msg"][1:]
    return InvalidRequest(
        f"The setting {name!r} is out of range: {problem}, and it is {first['input']!r}.",
        "Correct it and try again.",
    )


def threads_of(request: PlanRequest) -> int:
    """The number of search threads that a request means: one per core where it says 0."""
    return request.threads or os.cpu_count() or 1
