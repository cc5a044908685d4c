"""The files of a directory as arrays, which Ray sends without pickling them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def pack(directory: Path, without: Iterable[str] = ()) -> dict[str, Bytes]:
    """The plain files in `directory`, but those named: mapped, not read.

    Links are left out, whoever put them there.
    """
    left_out = set(without)
    names = sorted(path.name for path in directory.iterdir() if path.name not in left_out)
    files = {name: _mapped(directory / name) for name in names}
    return {name: data for name, data in files.items() if data is not None}


def unpack(files: Mapping[str, Bytes], directory: Path) -> None:
    """Write the files into a directory, each in its place once it is whole."""
    for name, data in files.items():
        if Path(name).name != name or name == "..":
            raise ValueError(f"{name!r} is no name of a file")
        temporary = directory / f".{name}.part"
        temporary.write_bytes(data.data)
        temporary.replace(directory / name)


def _mapped(path: Path) -> Bytes | None:
    """The bytes of a plain file, None for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        if found.st_size == 0:  # nothing can be mapped
            return np.empty(0, np.uint8)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return np.asarray(np.memmap(file, np.uint8, "r"))
    finally:
        os.close(descriptor)
