"""What was found, kept in memory and on disk.

One JSON file per op under `<folder>/<kind of op>/<key>.json`, written beside its place and renamed,
so that processes that share a folder see whole files or none. A file that cannot be read counts as
missing: the cache saves time and decides nothing.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from toast.analysis.shardcombine.findings import Discovery, Finding

_HINT_FILES = 8


class Missing:
    """The answer of a cache that holds nothing for a key (None means: no rule)."""


MISSING = Missing()


def default_folder() -> Path:
    """`toast/shardcombine` in the user's cache folder, `$XDG_CACHE_HOME` or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "toast" / "shardcombine"


class Cache:
    """Discoveries by kind of op and key; `folder` None keeps them in memory alone."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._memory: dict[str, Discovery | None] = {}
        self._by_kind: dict[str, dict[Finding, None]] = {}

    def get(self, name: str, key: str) -> Discovery | Missing | None:
        """What is known for `key`: a discovery, None for no rule, or `MISSING`."""
        if key not in self._memory:
            found = self._read(self._path(name, key))
            if isinstance(found, Missing):
                return found
            self._remember(name, key, found)
        return self._memory[key]

    def put(self, name: str, key: str, found: Discovery | None) -> None:
        """Keep what was found. A folder that cannot be written is left alone."""
        self._remember(name, key, found)
        path = self._path(name, key)
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            with os.fdopen(handle, "w") as file:
                json.dump({"found": None if found is None else found.to_json()}, file)
            Path(temporary).replace(path)
        except OSError:
            return

    def hints(self, name: str) -> tuple[Finding, ...]:
        """Findings for other ops of the same kind, from memory and a few files."""
        if name not in self._by_kind and self._folder is not None:
            self._by_kind[name] = {}
            files = sorted((self._folder / name).glob("*.json"))[:_HINT_FILES]
            for path in files:
                found = self._read(path)
                if isinstance(found, Discovery):
                    self._by_kind[name].update(dict.fromkeys(found.findings))
        return tuple(self._by_kind.get(name, ()))

    def _remember(self, name: str, key: str, found: Discovery | None) -> None:
        self._memory[key] = found
        if found is not None and found.findings:
            self.hints(name)
            self._by_kind.setdefault(name, {}).update(dict.fromkeys(found.findings))

    def _path(self, name: str, key: str) -> Path | None:
        return None if self._folder is None else self._folder / name / f"{key}.json"

    def _read(self, path: Path | None) -> Discovery | Missing | None:
        if path is None:
            return MISSING
        try:
            data = json.loads(path.read_text())["found"]
            return None if data is None else Discovery.from_json(data)
        except (OSError, KeyError, TypeError, ValueError):
            return MISSING
