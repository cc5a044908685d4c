"""Files in an object store that all servers and workers share, through fsspec.

Bytes come in on the local disk, where they are hashed; then they go out under their digest in one
piece, as an object store shows an object whole or not at all. What is read is kept in a folder on
the local disk, checked against its digest, up to a limit; then what was used least recently goes.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec

from toast.service.artifacts.guard import NamingGuard
from toast.service.artifacts.local import (
    MARK,
    OLD_SECONDS,
    Artifact,
    ArtifactStore,
    DamagedArtifact,
    Incoming,
    check_digest,
    link_or_copy,
)
from toast.service.problems import FilesAway

_PARTS = {"chunksize": 8 << 20, "max_concurrency": 2}
"""How S3 takes a file: what is in memory at once stays small however large the file."""
_IN_USE_SECONDS = 60.0
"""A file that was asked for so recently may be about to be opened, so it stays."""


class RemoteIncoming(Incoming):
    """Bytes on their way through the local disk into the object store."""

    def __init__(self, path: Path, send: Callable[[Path, Artifact], None]) -> None:
        super().__init__(path)
        self._send = send

    def finish(self) -> Artifact:
        """Everything is written: send it, which may take long, before anybody holds the guard."""
        artifact = super().finish()
        self._send(self.path, artifact)
        return artifact


class RemoteArtifactStore(ArtifactStore):
    """Objects under `prefix` of `files`; `cache` is a folder on the local disk."""

    def __init__(
        self,
        files: fsspec.AbstractFileSystem,
        prefix: str,
        cache: Path,
        *,
        guard: NamingGuard | None = None,
        cache_bytes: int,
    ) -> None:
        super().__init__(cache, guard=guard)
        self._files = files
        self._prefix = prefix.rstrip("/")
        self._cache_bytes = cache_bytes
        self._parts = _PARTS if "s3" in files.protocol else {}

    @contextlib.contextmanager
    def incoming(self) -> Iterator[Incoming]:
        """See `ArtifactStore.incoming`."""
        incoming = RemoteIncoming(self._incoming / uuid.uuid4().hex, self._send)
        try:
            yield incoming
        finally:
            incoming.discard()

    def keep(self, incoming: Incoming, artifact: Artifact) -> None:
        """See `ArtifactStore.keep`: a removal may have come between the sending and the guard."""
        self._send(incoming.path, artifact)
        cached = self._cached(artifact.sha256)
        cached.parent.mkdir(exist_ok=True)
        incoming.path.replace(cached)
        self._evict()

    def path(self, sha256: str) -> Path:
        """Where the bytes are on the local disk; fetched, and checked, where they are not yet."""
        cached = self._cached(sha256)
        with contextlib.suppress(FileNotFoundError):
            cached.touch(exist_ok=True) if cached.exists() else self._fetch(sha256, cached)
            return cached
        raise FilesAway(f"The store has no file {sha256}.", "Tell the operator of the service.")

    def place(self, sha256: str, target: Path) -> None:
        """See `ArtifactStore.place`. A local copy that was damaged is fetched again, once."""
        link_or_copy(self.path(sha256), target)
        try:
            check_digest(target, sha256)
        except DamagedArtifact:
            target.unlink()
            self._cached(sha256).unlink(missing_ok=True)
            link_or_copy(self.path(sha256), target)
            check_digest(target, sha256)

    def release(self, sha256: str, refers_to: Callable[[str], bool]) -> bool:
        """See `ArtifactStore.release`."""
        with self._guard.removing() as check:
            if refers_to(sha256):
                return False
            check()
            with _as_service_errors(), contextlib.suppress(FileNotFoundError):
                self._files.rm_file(self._key(sha256))
        self._cached(sha256).unlink(missing_ok=True)
        return True

    def sweep(self, refers_to: Callable[[str], bool]) -> int:
        """See `ArtifactStore.sweep`. What other servers are about to name, the guard keeps."""
        left = self._unfinished()
        for path in left:
            path.unlink(missing_ok=True)
        abandoned = self._abort_uploads()
        with _as_service_errors():
            found: list[str] = self._files.find(self._prefix)
        names = {Path(key).name for key in found}
        orphans = [name for name in names if len(name) == 64 and not refers_to(name)]
        gone = sum(self.release(name, refers_to) for name in orphans)
        return len(left) + abandoned + gone

    def _mark(self, ledger: str) -> str:
        """See `ArtifactStore._mark`."""
        key = f"{self._prefix}/{MARK}"
        with _as_service_errors():
            with contextlib.suppress(FileNotFoundError):
                return str(self._files.cat_file(key).decode()).strip()
            self._files.pipe_file(key, ledger.encode())
            return str(self._files.cat_file(key).decode()).strip()

    def _abort_uploads(self) -> int:
        """End uploads in parts that were begun a day ago and never ended: they take room unseen."""
        if "s3" not in self._files.protocol:
            return 0
        bucket, _, prefix = f"{self._prefix}/".partition("/")
        before = datetime.now(UTC) - timedelta(seconds=OLD_SECONDS)
        with _as_service_errors():
            found = self._files.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix)
            old = [one for one in found.get("Uploads", []) if one["Initiated"] < before]
            for one in old:
                self._files.call_s3(
                    "abort_multipart_upload",
                    Bucket=bucket,
                    Key=one["Key"],
                    UploadId=one["UploadId"],
                )
        return len(old)

    def _send(self, path: Path, artifact: Artifact) -> None:
        key = self._key(artifact.sha256)
        with _as_service_errors():
            if not self._files.exists(key):
                self._files.put_file(str(path), key, **self._parts)

    def _fetch(self, sha256: str, cached: Path) -> None:
        cached.parent.mkdir(exist_ok=True)
        temporary = self._incoming / uuid.uuid4().hex
        try:
            with _as_service_errors():
                self._files.get_file(self._key(sha256), str(temporary))
            check_digest(temporary, sha256)
            temporary.replace(cached)
        finally:
            temporary.unlink(missing_ok=True)
        self._evict()

    def _evict(self) -> None:
        """Make room: the least recently used files go until the rest is within the limit."""
        seen = []
        for path in self._root.glob("??/*"):
            with contextlib.suppress(FileNotFoundError):
                state = path.stat()
                seen.append((state.st_mtime, state.st_size, path))
        total = sum(size for _, size, _ in seen)
        recent = time.time() - _IN_USE_SECONDS
        for used, size, path in sorted(seen):
            if total <= self._cache_bytes or used > recent:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _cached(self, sha256: str) -> Path:
        return self._root / sha256[:2] / sha256

    def _key(self, sha256: str) -> str:
        return f"{self._prefix}/{sha256[:2]}/{sha256}"


@contextlib.contextmanager
def _as_service_errors() -> Iterator[None]:
    """Raise `FilesAway` where the object store fails; a file that is not there stays what it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # each library behind fsspec has errors of its own
        raise FilesAway(
            f"The store of modules and plans does not answer: {type(error).__name__}."
        ) from error


def connect(url: str, options: dict[str, Any]) -> tuple[fsspec.AbstractFileSystem, str]:
    """The file system and the prefix of an fsspec URL."""
    files, prefix = fsspec.core.url_to_fs(url, **options)
    return files, str(prefix)
