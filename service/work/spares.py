"""Worker processes that are ready before their job is: imports done, kernels loaded.

To import what a job needs takes seconds, so the next process is started ahead of time. Each is
used once, like every other worker, and replaced in the background.
"""

from __future__ import annotations

import logging
import threading

from toast.service.work.launcher import SPARE, Launcher, WorkerProcess

_log = logging.getLogger("toast.service")

_LOOK_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class SparePool:
    """Keeps `count` spare processes, from a thread of its own.

    That thread starts them and lives as long as they may: Linux ends a child of ours when the
    thread that started it ends.
    """

    def __init__(self, launcher: Launcher, count: int) -> None:
        self._launcher = launcher
        self._count = count
        self._spares: list[WorkerProcess] = []
        self._changed = threading.Condition()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="spares")

    def start(self) -> None:
        """Begin to start processes."""
        self._thread.start()

    def take(self) -> WorkerProcess | None:
        """A spare process, now the caller's, or None where none is there."""
        with self._changed:
            while self._spares:
                worker = self._spares.pop(0)
                self._changed.notify_all()
                if worker.child.is_usable():
                    return worker
                worker.close()
        return None

    def close(self) -> None:
        """End the spares, and then the thread, which also is the end of those that were taken."""
        with self._changed:
            self._over.set()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while not self._over.is_set():
            lost = self._drop_lost()
            try:
                self._fill()
            except OSError:
                _log.exception("a spare worker could not be started")
                lost += 1
            # A spare that cannot live is not to be started over and over.
            pause = min(_LONGEST_PAUSE, 2 * pause) if lost else _FIRST_PAUSE
            with self._changed:
                if not self._over.is_set() and (lost or len(self._spares) >= self._count):
                    self._changed.wait(pause if lost else _LOOK_SECONDS)
        with self._changed:
            left, self._spares = self._spares, []
        for worker in left:
            worker.close()

    def _drop_lost(self) -> int:
        """Close the spares that ended or were stopped; how many."""
        with self._changed:
            lost = [worker for worker in self._spares if not worker.child.is_usable()]
            self._spares = [worker for worker in self._spares if worker not in lost]
        for worker in lost:
            worker.close()
            _log.warning("a spare worker was lost: %s", worker.child.crash_line())
        return len(lost)

    def _fill(self) -> None:
        while not self._over.is_set() and len(self._spares) < self._count:
            worker = self._launcher.start(SPARE)
            with self._changed:
                self._spares.append(worker)
