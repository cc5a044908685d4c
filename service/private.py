"""Files for nobody but the user that the service runs as."""

from __future__ import annotations

from pathlib import Path

UMASK = 0o077
"""Of the whole process, so that no file is open to others for a moment either."""


def make_private(directory: Path, *, passable: bool = False) -> None:
    """Make `directory`, and close it to others where an earlier version left it open.

    Through a `passable` one others reach what they know the name of, if that is open to them.

    Files in it are closed too, at its top: what lies deeper cannot be reached past the top.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory.chmod(0o711 if passable else 0o700)
    for path in directory.iterdir():
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
