"""Where discovery runs: in this process, or in a child that may die."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from toast.analysis.shardcombine.findings import Discovery, Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An op as `extract.text_of` wrote it, and earlier findings for its kind."""

    name: str
    text: str
    hints: tuple[Finding, ...] = ()


class Runner(Protocol):
    """Runs discoveries one at a time."""

    def run(self, request: Request) -> Discovery | None:
        """What was found; None when the op cannot be run, aborts or takes too long."""

    def close(self) -> None:
        """Give back what the runner holds; a later `run` starts anew."""
