"""Files named by the SHA-256 of their bytes: modules, plans, sharded modules.

A file appears whole or not at all: temporary file, fsync, rename, fsync of the directory; its row
in the database follows. `guard` is held from the rename to the row, and while a file that no row
names is removed, so that neither can slip between the other's two steps.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Bytes that are on disk: `sha256` in lower-case hex, `size` in bytes."""

    sha256: str
    size: int


class Incoming:
    """Bytes on their way in; `finish` gives them their name, `discard` forgets them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._hash = hashlib.sha256()
        self._file: BinaryIO = path.open("xb")

    def write(self, data: bytes) -> None:
        """Append `data`."""
        self._file.write(data)
        self._hash.update(data)
        self.size += len(data)

    def finish(self) -> Artifact:
        """Everything is written: put it on the disk for good, still under its temporary name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return Artifact(sha256=self._hash.hexdigest(), size=self.size)

    def discard(self) -> None:
        """Remove the temporary file if it is still there."""
        with contextlib.suppress(OSError):  # a full disk refuses what is still to be flushed
            self._file.close()
        self.path.unlink(missing_ok=True)


class ArtifactStore:
    """A directory of files under `root`, two levels deep."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._incoming = root / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True)
        self.guard = threading.Lock()

    def path(self, sha256: str) -> Path:
        """Where the bytes of that digest are, or would be."""
        return self._root / sha256[:2] / sha256

    @contextlib.contextmanager
    def incoming(self) -> Iterator[Incoming]:
        """A place to write bytes into; they are gone afterwards unless `keep` took them."""
        incoming = Incoming(self._incoming / uuid.uuid4().hex)
        try:
            yield incoming
        finally:
            incoming.discard()

    def keep(self, incoming: Incoming, artifact: Artifact) -> None:
        """Give finished bytes their place. The caller holds `guard` until the row is written."""
        target = self.path(artifact.sha256)
        if target.exists():
            return  # the same bytes; the temporary copy goes
        target.parent.mkdir(exist_ok=True)
        incoming.path.replace(target)
        _sync_directory(target.parent)
        _sync_directory(self._root)

    def copy_in(self, source: Path, incoming: Incoming) -> Artifact:
        """Read a file of a worker into `incoming` and finish it."""
        with source.open("rb") as file:
            while chunk := file.read(_CHUNK):
                incoming.write(chunk)
        return incoming.finish()

    def place(self, sha256: str, target: Path) -> None:
        """Make the bytes readable at `target`: a hard link where the disk allows, else a copy."""
        try:
            os.link(self.path(sha256), target)
        except OSError:
            shutil.copyfile(self.path(sha256), target)

    def release(self, sha256: str, refers_to: Callable[[str], bool]) -> bool:
        """Remove the bytes unless a row still names them; whether they went."""
        with self.guard:
            if refers_to(sha256):
                return False
            self.path(sha256).unlink(missing_ok=True)
            return True

    def sweep(self, refers_to: Callable[[str], bool]) -> int:
        """Remove what a crash left: temporary files and files that no row names. How many."""
        left = list(self._incoming.iterdir())
        for path in left:
            path.unlink(missing_ok=True)
        names = [path.name for path in self._root.glob("??/*") if len(path.name) == 64]
        return len(left) + sum(self.release(name, refers_to) for name in names)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
