"""Whether the compiler for a target is installed, and which one it is; needs no jax."""

from __future__ import annotations

import importlib.util
import os
from importlib import metadata
from pathlib import Path

from toast.analysis.errors import InvalidRequest
from toast.aot.target import Target
from toast.costmodel.hardware.devices import Device
from toast.costmodel.network.mesh import Mesh

LIBRARY = "TPU_LIBRARY_PATH"
"""The variable that names a libtpu outside of the environment."""


def installed_target(device: Device, mesh: Mesh) -> Target:
    """What a mesh of a device is as a target; InvalidRequest where no compiler is installed."""
    target = Target.for_mesh(device, mesh)
    check_installed(target)
    return target


def check_installed(target: Target) -> None:
    """Raise InvalidRequest, with what to install, where the compiler is not there."""
    if target.chip.platform == "tpu":
        if not os.environ.get(LIBRARY) and not importlib.util.find_spec("libtpu"):
            raise InvalidRequest(
                f"Compiling for {target} needs libtpu, which is not installed.",
                "Install it with: pip install 'toast-planner[aot]'.",
            )
    elif not _has_cuda_plugin():
        raise InvalidRequest(
            f"Compiling for {target} needs jax's CUDA plugin, which is not installed.",
            "Install it with: pip install 'toast-planner[aot-cuda]'.",
        )


def compiler_version(target: Target) -> str:
    """The compiler and its version, such as `libtpu 0.0.42.1`; it has to be installed."""
    if target.chip.platform == "cuda":
        return f"jax-cuda12-pjrt {_version('jax-cuda12-pjrt')}"
    library = os.environ.get(LIBRARY)
    if not library or _is_of_the_package(Path(library)):
        return f"libtpu {_version('libtpu')}"
    try:
        found = Path(library).stat()
    except OSError:
        return f"libtpu at {library}"
    return f"libtpu at {library}, {found.st_size} bytes of {found.st_mtime_ns}"


def _is_of_the_package(library: Path) -> bool:
    """Whether the variable names the installed package, as jax sets it when it is imported."""
    found = importlib.util.find_spec("libtpu")
    folders = [] if found is None else list(found.submodule_search_locations or ())
    return any(library.is_relative_to(folder) for folder in folders)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _has_cuda_plugin() -> bool:
    try:
        return importlib.util.find_spec("jax_plugins.xla_cuda12") is not None
    except ModuleNotFoundError:  # no plugin of any kind
        return False
