"""What the compiler said of a module before, kept in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toast.aot import Target, Verdict

FORMAT = 1
"""Part of every key: a change of what verdicts mean begins anew."""
UNUSED_DAYS = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCache:
    """Verdicts in one file each, named by module, target, compiler, mesh and memory.

    A folder that cannot be read or written to holds nothing, and that is no error.
    """

    folder: Path | None
    target: Target
    compiler: str
    mesh: str
    reserved_bytes: int = 0

    def find(self, module: bytes, *, memory_only: bool) -> Verdict | None:
        """What is known of a module; with `memory_only` a whole compilation does as well."""
        for early in (False, True) if memory_only else (False,):
            path = self._path(module, memory_only=early)
            if path is None:
                return None
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                verdict = Verdict.from_dict(json.loads(path.read_text()))
                os.utime(path)
                return verdict
        return None

    def keep(self, module: bytes, verdict: Verdict) -> None:
        """Keep a verdict, and forget those that nobody has asked for in a long time."""
        path = self._path(module, memory_only=verdict.memory_only)
        if path is None:
            return
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
                json.dump(verdict.to_dict(), file)
            Path(file.name).replace(path)
            _forget(path.parent)

    def _path(self, module: bytes, *, memory_only: bool) -> Path | None:
        if self.folder is None:
            return None
        key: list[Any] = [FORMAT, str(self.target), self.compiler, self.mesh, self.reserved_bytes]
        key += [memory_only, hashlib.sha256(module).hexdigest()]
        name = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        return self.folder / f"{name}.json"


def cache_folder() -> Path | None:
    """`toast/compiled` in the user's cache folder (`XDG_CACHE_HOME`, else `~/.cache`)."""
    with contextlib.suppress(RuntimeError):
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(root) / "toast" / "compiled"
    return None


def _forget(folder: Path) -> None:
    oldest = time.time() - UNUSED_DAYS * 86_400
    for path in folder.iterdir():
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
