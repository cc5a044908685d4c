"""Keeps the naming of a file and its removal apart.

A file is named when a row of the ledger says that its bytes are there. Who names one looks first
whether the bytes are there and then writes the row; who removes one looks first whether a row names
it and then removes the bytes. Either may not slip between the other's two steps.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Protocol


class NamingGuard(Protocol):
    """As many at once as want to name; whoever removes is alone."""

    def naming(self) -> contextlib.AbstractContextManager[None]:
        """Held from the look at the bytes until the row is written."""

    def removing(self) -> contextlib.AbstractContextManager[Callable[[], None]]:
        """Held from the look at the rows until the bytes are gone.

        It gives a function to call just before the removal, which raises when the guard was lost.
        """


class ProcessGuard:
    """For a ledger that one process owns: a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """See `NamingGuard`."""
        with self._lock:
            yield

    @contextlib.contextmanager
    def removing(self) -> Iterator[Callable[[], None]]:
        """See `NamingGuard`; a lock of this process is never lost."""
        with self._lock:
            yield lambda: None
