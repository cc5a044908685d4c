"""Changes a file of hashed keys: one editor at a time, and a reader sees the old file or the new.

Lines that a change does not concern stay as they are, comments included.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from toast.service.access.callers import Caller
from toast.service.access.key_lines import ApiKey, BadKeys, counts, format_line, parse_line
from toast.service.access.keys import digest_of

HEADER = "# Keys of a TOAST service, hashed. Change them with `toast keys`; the service follows."


def new_key() -> str:
    """A key that nobody can guess, marked so that scanners for leaked secrets can find it."""
    return f"toast_{secrets.token_urlsafe(32)}"


def list_keys(path: Path) -> list[ApiKey]:
    """The keys of the file, in its order."""
    return [parse_line(line, str(path)) for line in _lines(path) if counts(line)]


def add_key(path: Path, caller: Caller, expires: float | None = None) -> str:
    """Add a new key, which is returned; the file is made when there is none."""
    with _editing(path) as lines:
        if _of_name(lines, caller.name, path):
            raise BadKeys(
                f"{path} has a key named {caller.name} already; take another name, or change that "
                f"key with: toast keys rotate {caller.name}"
            )
        key = new_key()
        lines.append(_line(key, caller, expires))
    return key


def revoke_key(path: Path, name: str) -> int:
    """Take all keys of that name away; how many there were."""
    with _editing(path) as lines:
        gone = _existing(lines, name, path)
        lines[:] = [line for index, line in enumerate(lines) if index not in gone]
    return len(gone)


def rotate_key(path: Path, name: str, keep: float = 0.0) -> str:
    """Add a new key of that name, which is returned; the old ones end `keep` seconds from now."""
    with _editing(path) as lines:
        old = _existing(lines, name, path)
        now = time.time()
        newest = list(old.values())[-1]
        kept = {index: _ending(key, now + keep) for index, key in old.items() if keep}
        edited = [kept.get(index, line) for index, line in enumerate(lines)]
        gone = {index for index, key in old.items() if not keep or (key.expires or now) < now}
        lines[:] = [line for index, line in enumerate(edited) if index not in gone]
        key = new_key()
        lines.append(_line(key, newest.caller, None))
    return key


def _ending(key: ApiKey, at: float) -> str:
    expires = at if key.expires is None else min(at, key.expires)
    return format_line(ApiKey(digest=key.digest, caller=key.caller, expires=expires))


def _line(key: str, caller: Caller, expires: float | None) -> str:
    return format_line(ApiKey(digest=digest_of(key), caller=caller, expires=expires))


def _of_name(lines: list[str], name: str, path: Path) -> dict[int, ApiKey]:
    keys = {index: parse_line(line, str(path)) for index, line in enumerate(lines) if counts(line)}
    return {index: key for index, key in keys.items() if key.caller.name == name}


def _existing(lines: list[str], name: str, path: Path) -> dict[int, ApiKey]:
    found = _of_name(lines, name, path)
    if not found:
        raise BadKeys(f"{path} has no key named {name}; `toast keys list --keys {path}` shows all")
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except UnicodeError as error:
        raise BadKeys(f"{path} is no text; give a file of hashed keys") from error


@contextlib.contextmanager
def _editing(path: Path) -> Iterator[list[str]]:
    """The lines of the file, which are written when the block ends without an error."""
    target = path.resolve()
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        # On the directory, since the file itself is replaced.
        fcntl.flock(directory, fcntl.LOCK_EX)
        lines = _lines(target) if target.exists() else [HEADER]
        yield lines
        _replace(target, "".join(f"{line}\n" for line in lines))
        os.fsync(directory)
    finally:
        os.close(directory)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(file.fileno(), 0o600)
            if path.exists():  # the service that reads it may run as another user than we
                owner = path.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
