"""Waits for the signal that ends a process which serves nothing but threads."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ending_signals() -> Iterator[Callable[[], None]]:
    """While inside, SIGTERM and SIGINT end nothing; what it gives returns once one has come.

    For the main thread. No lock would do: the kernel may hand the signal to another thread, or
    to this one just before it falls asleep, and neither wakes who waits for a lock. The byte that
    Python's C handler writes into a socket does.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    with reader, writer:
        handlers = {number: signal.signal(number, _ignore) for number in _ENDING}
        woken = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield lambda: _wait(reader)
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _wait(reader: socket.socket) -> None:
    """Read numbers of signals until one asks for the end."""
    while reader.recv(1)[0] not in _ENDING:
        pass


def _ignore(*_: object) -> None:
    """Python writes to the socket only for signals that have a handler."""
