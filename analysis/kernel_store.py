"""Keeps compiled kernels on disk, under names made of all that a kernel depends on.

A kernel is one file. Its name is made of its sources, of the types of its arguments, and of the
processor, the Python and the Numba that it is for. So no file is ever stale, processes need not
wait for each other to write, and one folder serves several versions.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import platform
import re
import tempfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import serialize
from numba.core.compiler import CompileResult

PACKAGE = Path(__file__).parent.parent
"""The folder of `toast`, through which all rooms are imported."""
SUFFIX = ".kernel"
_MAKERS = ("analysis/jit.py", "analysis/records.py")
"""What every kernel is made by, whether or not its file imports it."""
_IMPORT = re.compile(
    r"^(?:from +(toast[\w.]*) +import +(\([^)]*\)|.*)|import +(toast[\w.]*))", re.M
)


def folders() -> list[Path]:
    """Where kernels may be kept: `NUMBA_CACHE_DIR`, or next to the sources and the user's cache.

    What is in any of them is read; what is compiled is written to the first that allows it.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(chosen) / "toast"]
    found = [PACKAGE / "__pycache__" / "kernels"]
    with contextlib.suppress(RuntimeError):
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        found.append(Path(cache) / "toast" / "kernels")
    return found


def writable() -> Path | None:
    """The first of the folders that may be written to, made where it is missing."""
    for folder in folders():
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    return None


class Kept:
    """The files of one kernel: what Numba calls its cache."""

    used: set[str] = set()  # noqa: RUF012  # of all kernels
    """The names of all files that this process has read or written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def cache_path(self) -> str:
        """The folder that is looked into first."""
        return str(folders()[0])

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What is kept of the kernel for arguments of these types, or None."""
        context.refresh()
        name = self._name(signature, context.codegen())
        for folder in folders():
            # A file that is torn, or of another release, is compiled anew.
            with contextlib.suppress(Exception):
                data = (folder / name).read_bytes()
                self.used.add(name)
                return CompileResult._rebuild(context, *pickle.loads(data))
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled, where anything can be kept."""
        if folder := writable():
            name = self._name(signature, compiled.codegen)
            _write(folder / name, serialize.dumps(compiled._reduce()))
            self.used.add(name)

    def _name(self, signature: Any, codegen: Any) -> str:
        code = self._function.__code__
        said = machine(codegen), sources_digest([Path(code.co_filename)]), signature
        digest = hashlib.sha256(f"{said} {code.co_firstlineno}".encode()).hexdigest()
        return f"{self._function.__qualname__}-{digest[:24]}{SUFFIX}"


def _write(file: Path, data: bytes) -> None:
    """Write a file so that other processes see all of it or nothing."""
    made = file.with_name(f"{file.name}.{os.getpid()}")
    made.write_bytes(data)
    made.replace(file)


def machine(codegen: Any) -> tuple[Any, ...]:
    """What machine code depends on besides its sources."""
    versions = platform.python_version(), numba.__version__, llvmlite.__version__
    return *versions, *codegen.magic_tuple()


def sources_digest(files: Iterable[Path], package: Path = PACKAGE) -> str:
    """The digest of these files and of all that they import from the package."""
    digest = hashlib.sha256()
    makers = [file for file in (package / name for name in _MAKERS) if file.is_file()]
    for file in sorted(with_imports([*files, *makers], package)):
        digest.update(os.path.relpath(file, package).encode() + _read(file)[0])
    return digest.hexdigest()


def with_imports(files: Iterable[Path], package: Path = PACKAGE) -> set[Path]:
    """These files and all of the package that they import, directly or not."""
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += [source for name in _read(file)[1] for source in _sources(name, package)]
    return found


def _sources(name: str, package: Path) -> list[Path]:
    """The file of a module; none where the name is of something in a module."""
    place = package.joinpath(*name.split(".")[1:])
    return [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]


def _read(file: Path) -> tuple[bytes, tuple[str, ...]]:
    """The digest of a file, and the names that it imports from the package when it is loaded."""
    state = file.stat()
    return _read_once(file, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=1024)
def _read_once(file: Path, _changed: int, _size: int) -> tuple[bytes, tuple[str, ...]]:
    text = file.read_text(encoding="utf-8")
    names = []
    for module, parts, alone in _IMPORT.findall(text):
        names.append(module or alone)
        names += [f"{module}.{part}" for part in re.findall(r"\w+", parts)]
    return hashlib.sha256(text.encode()).digest(), tuple(names)
