"""The keys of a running service, which change when their files do."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toast.service.access.callers import Caller
from toast.service.access.environment import take_secret
from toast.service.access.key_lines import ApiKey, BadKeys
from toast.service.access.keys import (
    ENVIRONMENT,
    FILE_ENVIRONMENT,
    Keys,
    distinct,
    keys_of_lines,
    keys_of_secret,
    keys_of_words,
)

LOOK_SECONDS = 1.0

_log = logging.getLogger("toast.service")

Stamp = tuple[int, ...] | None
"""What changes when a file does; None while it cannot be looked at."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file of keys; a `secret` one may hold keys that are not hashed."""

    path: Path
    secret: bool = False

    def read(self) -> list[ApiKey]:
        """Its keys. A file with no line at all is taken for one that is being written."""
        text = self.path.read_text()
        if not text.strip():
            raise _without_keys(self.path)
        parse = keys_of_secret if self.secret else keys_of_lines
        return parse(text, str(self.path))

    def stamp(self) -> Stamp:
        """Differs after the file was written or replaced."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """The names of keys that a reload brought and took away."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class Keyring:
    """Keys that never change and keys of files, read again when those change.

    Whether keys are asked for is settled at the start: a file that loses its last key locks
    everybody out and never opens the service.
    """

    def __init__(self, fixed: list[ApiKey] | None = None, files: tuple[KeyFile, ...] = ()) -> None:
        self._fixed = list(fixed or ())
        self._files = files
        self._stamps = [file.stamp() for file in files]
        self._keys = self._read()
        if files and not self._keys:
            raise _without_keys(files[0].path)
        self._wake = threading.Event()
        self._over = False

    def __bool__(self) -> bool:
        return bool(self._fixed or self._files)

    def holder(self, authorization: str | None) -> Caller | None:
        """Who an `Authorization` header belongs to, None for nobody."""
        return self._keys.holder(authorization)

    def reload(self) -> KeyChange | None:
        """Read the files again; what changed. Files that cannot be used leave the keys as is."""
        try:
            keys = self._read()
        except (BadKeys, OSError, UnicodeError) as error:
            _log.error("the API keys stay as they were: %s", error)
            return None
        old, self._keys = self._keys, keys
        change = KeyChange(added=_names(keys.keys, old.keys), removed=_names(old.keys, keys.keys))
        _log.info("read the API keys again: %d keys", len(keys.keys))
        return change if keys.keys != old.keys else None

    def wake(self) -> None:
        """Read the files again now. Safe in a signal handler."""
        self._wake.set()

    def watch(self, on_change: Callable[[KeyChange], None]) -> None:
        """Look at the files every second, in a thread, until `close`."""
        thread = threading.Thread(target=self._watch, args=(on_change,), name="keys", daemon=True)
        thread.start()

    def close(self) -> None:
        """End the thread of `watch`."""
        self._over = True
        self._wake.set()

    def _watch(self, on_change: Callable[[KeyChange], None]) -> None:
        while True:
            asked = self._wake.wait(LOOK_SECONDS)
            if self._over:
                return
            self._wake.clear()
            stamps = [file.stamp() for file in self._files]
            if asked or stamps != self._stamps:
                self._stamps = stamps
                change = self.reload()
                if change is not None:
                    on_change(change)

    def _read(self) -> Keys:
        found = [key for file in self._files for key in file.read()]
        return Keys(keys=distinct([*self._fixed, *found]))


def open_keyring(file: Path | None = None, descriptor: int | None = None) -> Keyring:
    """All keys that the service was given; they are gone from the environment afterwards.

    They come from `TOAST_API_KEYS`, from the secret file that `TOAST_API_KEYS_FILE` names, from a
    file of hashed keys, and from an open descriptor, which is read to its end and closed.
    """
    words, secret = take_secret(ENVIRONMENT), take_secret(FILE_ENVIRONMENT)
    fixed = keys_of_words(words or "", ENVIRONMENT)
    if descriptor is not None:
        fixed += _of_descriptor(descriptor)
    files = [] if file is None else [KeyFile(file)]
    if secret:
        files.append(KeyFile(Path(secret), secret=True))
    return Keyring(fixed, tuple(files))


def _of_descriptor(descriptor: int) -> list[ApiKey]:
    source = f"descriptor {descriptor}"
    try:
        with os.fdopen(descriptor) as stream:
            found = keys_of_secret(stream.read(), source)
    except (OSError, UnicodeError) as error:
        raise BadKeys(f"no keys can be read from {source}: {error}") from error
    if not found:
        raise BadKeys(f"{source} holds no keys; write one a line to it")
    return found


def _without_keys(path: Path) -> BadKeys:
    return BadKeys(
        f"{path} has no keys; add one with `toast keys add NAME --keys {path}`, "
        "or the line of a key that you have with `toast serve --hash-key`"
    )


def _names(these: tuple[ApiKey, ...], others: tuple[ApiKey, ...]) -> tuple[str, ...]:
    return tuple(sorted({key.caller.name for key in these if key not in others}))
