"""Files named by the SHA-256 of their bytes: modules, plans, sharded modules.

A file appears whole or not at all: temporary file, fsync, rename, fsync of the directory; its row
in the database follows. `guard` is held from the rename to the row, and another while a file that
no row names is removed, so that neither can slip between the other's two steps.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from toast.service.artifacts.guard import NamingGuard, ProcessGuard

_CHUNK = 1 << 20
MARK = "ledger"
"""The file that says whose files these are."""
OLD_SECONDS = 86_400.0
"""Bytes on their way in that were not added to for so long never come in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Bytes that are on disk: `sha256` in lower-case hex, `size` in bytes."""

    sha256: str
    size: int


class DamagedArtifact(OSError):
    """Stored bytes are not those that came in."""


class OtherLedger(Exception):
    """The files belong to another ledger, which would lose them to the sweep of this one."""


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
    """A directory of files under `root`, two levels deep.

    Servers may share it: each then has an `owner`, under whose name bytes come in.
    """

    def __init__(self, root: Path, *, guard: NamingGuard | None = None, owner: str = "") -> None:
        self._root = root
        self._incoming = root / "incoming" / owner
        self._incoming.mkdir(parents=True, exist_ok=True)
        self._guard = guard or ProcessGuard()

    @property
    def guard(self) -> contextlib.AbstractContextManager[None]:
        """To hold from `keep` until the row is written."""
        return self._guard.naming()

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
        target.parent.mkdir(parents=True, exist_ok=True)
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
        """Make the bytes readable at `target`: a hard link where the disk allows, else a copy.

        Raises `DamagedArtifact` when they are not those that came in.
        """
        link_or_copy(self.path(sha256), target)
        check_digest(target, sha256)

    def release(self, sha256: str, refers_to: Callable[[str], bool]) -> bool:
        """Remove the bytes unless a row still names them; whether they went."""
        with self._guard.removing() as check:
            if refers_to(sha256):
                return False
            check()
            self.path(sha256).unlink(missing_ok=True)
            return True

    def belong_to(self, ledger: str) -> None:
        """These are the files of that ledger from now on; raises `OtherLedger`."""
        found = self._mark(ledger)
        if found != ledger:
            raise OtherLedger(
                f"these files belong to another ledger ({found[:64]}, not {ledger}): what this one "
                f"does not name it would remove; give each its own folder or prefix, or remove "
                f"the file {MARK!r} there if the other one is gone for good"
            )

    def _mark(self, ledger: str) -> str:
        """The mark that is there; first this one, where there is none."""
        path = self._root / MARK
        with contextlib.suppress(FileNotFoundError):
            if found := path.read_text().strip():
                return found
        path.write_text(ledger)
        return path.read_text().strip()

    def sweep(self, refers_to: Callable[[str], bool]) -> int:
        """Remove what a crash left: temporary files and files that no row names. How many."""
        left = self._unfinished()
        for path in left:
            path.unlink(missing_ok=True)
        names = [path.name for path in self._root.glob("??/*") if len(path.name) == 64]
        return len(left) + sum(self.release(name, refers_to) for name in names)

    def _unfinished(self) -> list[Path]:
        """Our own temporary files, and those of others that nobody has touched for a day."""
        before = time.time() - OLD_SECONDS
        return [
            path
            for path in (self._root / "incoming").rglob("*")
            if path.is_file() and (path.parent == self._incoming or _modified(path) < before)
        ]


def _modified(path: Path) -> float:
    """When it was last written to; never, where somebody removes it at this moment."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def link_or_copy(source: Path, target: Path) -> None:
    """Make the file `source` readable at `target` as well."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def check_digest(path: Path, sha256: str) -> None:
    """Raise `DamagedArtifact` unless the bytes of the file have that digest."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise DamagedArtifact(f"the stored file {sha256} is damaged: its bytes hash to {found}")


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
