"""The committed dump of a compiler, as it is written while it works."""

from __future__ import annotations

import shutil
from pathlib import Path

GOLDEN = Path(__file__).parent / "dump"
NAME = "module_0000.two_layers"


def dumped(folder: Path, name: str = NAME, *, assigned: bool = True) -> None:
    """A dump of the golden module up to where it is taken up, or to where memory is laid out."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.before_optimizations.txt").touch()
    if assigned:
        for path in GOLDEN.iterdir():
            shutil.copy(path, folder / path.name.replace(NAME, name))
        marker = f"{name}.after_optimizations_after_buffer_assignment.txt"
        (folder / marker).write_text("not yet all of it")
