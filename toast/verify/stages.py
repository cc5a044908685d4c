"""Where the time of a comparison goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class VerifyStages:
    """Seconds by stage; `announce` hears the name of each as it starts."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self.seconds: dict[str, float] = {}
        self._announce = announce

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        self._announce(name)
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
