"""How long a job waits after an attempt that ended through no fault of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """`first` seconds after the first such attempt, doubled each time up to `longest`.

    For a job that is suspected of ending its servers up to `longest_suspected`.
    """

    first: float = 1.0
    longest: float = 60.0
    longest_suspected: float = 86_400.0

    def after(self, times: int, *, suspected: bool = False) -> float:
        """Seconds to wait after the `times`-th attempt that ended so."""
        longest = self.longest_suspected if suspected else self.longest
        return min(longest, self.first * 2.0 ** min(times - 1, 60))
