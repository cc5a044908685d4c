"""Writes the end of an attempt however long database or files are away or the disk is full."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from toast.service.artifacts.disk import no_room_is_disk_full
from toast.service.ledger.records import Claim, Job
from toast.service.ledger.store import JobStore
from toast.service.problems import DatabaseAway, DiskFull, FilesAway, UnknownJob

_log = logging.getLogger("toast.service")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


class GivenUp(Exception):
    """The server goes before the fault does; the next life of the server finds the job."""


def persevere(
    write: Callable[[], Job], store: JobStore, claim: Claim, stopped: threading.Event
) -> Job:
    """The job as `write` left it, tried again after each fault of database or disk.

    Raises what `write` raises else, `StaleClaim` above all: the claim, not a clock, decides how
    long a result is worth keeping. Raises `GivenUp` after a fault once `stopped` is set.
    """
    pause, fault = _FIRST_PAUSE, False
    while True:
        try:
            with no_room_is_disk_full():
                if fault:
                    store.ping()  # cheaper than to copy files for a database that is away
                    if (ended := _ended(store, claim)) is not None:
                        return ended
                return write()
        except (DatabaseAway, DiskFull, FilesAway) as error:
            if not fault:
                _log.warning("job %s: its end waits: %s", claim.job.id, error.message)
            fault = True
            if stopped.wait(pause):
                raise GivenUp from error
            pause = min(2 * pause, _LONGEST_PAUSE)


def _ended(store: JobStore, claim: Claim) -> Job | None:
    """The job if it is over by our attempt: an earlier write was made and its answer lost."""
    try:
        job = store.get(claim.job.id)
    except UnknownJob:  # deleted; the write will be refused
        return None
    return job if job.terminal and job.attempt == claim.attempt else None
