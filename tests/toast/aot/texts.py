"""The committed HLO texts."""

from __future__ import annotations

from pathlib import Path

from toast.aot.hlo import HloModule, parse

FOLDER = Path(__file__).parent / "hlo"


def text(name: str) -> str:
    """A text as it is on disk."""
    return (FOLDER / f"{name}.hlo").read_text()


def module(name: str) -> HloModule:
    """A text, parsed."""
    return parse(text(name))
