"""The disk that files go to: how much room it has, and what its errors mean."""

from __future__ import annotations

import contextlib
import errno
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from toast.costmodel.hardware.quantities import format_bytes
from toast.service.problems import DiskFull

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The numbers by which an operating system says that nothing more can be written."""

_PROBE_BYTES = 64 << 10


class Disk:
    """The disk under `path`. Below `floor` free bytes nothing new is taken in.

    What is left below the floor is for the ledger and the files of jobs that run already.
    """

    def __init__(self, path: Path, floor: int) -> None:
        self._path = path
        self._floor = floor

    def check(self) -> None:
        """Raise `DiskFull` below the floor."""
        free = shutil.disk_usage(self._path).free
        if free < self._floor:
            raise DiskFull(
                f"The disk of the service has {format_bytes(free)} left, below its floor of "
                f"{format_bytes(self._floor)}."
            )

    def takes(self, directory: Path) -> bool:
        """Whether there is room above the floor and `directory` takes a small file."""
        probe = directory / f"probe.{uuid.uuid4().hex}"
        try:
            self.check()
            probe.write_bytes(b"\0" * _PROBE_BYTES)
        except (DiskFull, OSError):
            return False
        finally:
            with contextlib.suppress(OSError):
                probe.unlink()
        return True


@contextlib.contextmanager
def no_room_is_disk_full() -> Iterator[None]:
    """Raise `DiskFull` where the operating system says that there is no room."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFull("The disk of the service is full.") from error
        raise
