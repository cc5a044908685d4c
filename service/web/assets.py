"""The files of the pages: they are read once, hold no data, and load nothing from elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

PREFIX = "/ui/"
_FOLDER = Path(__file__).parent / "pages"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file as it is sent."""

    content: bytes
    media: str
    etag: str


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:32]
    media = f"{_TYPES[path.suffix]}; charset=utf-8"
    return Asset(content=content, media=media, etag=f'"{digest}"')


ASSETS = {path.name: _read(path) for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}
"""By the name of the file."""

OPEN_ASSETS = frozenset(PREFIX + name for name in ASSETS)
"""The paths of them all; who reads them needs no key, their scripts ask for one."""
