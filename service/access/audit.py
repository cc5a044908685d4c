"""Who did what: one JSON object a line, only ever appended.

A line is written with one call, so that lines of two processes do not mix. What cannot be written
goes to the log of the service, and the request goes on.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toast.service.access.key_lines import format_time

_log = logging.getLogger("toast.service")

_BLOCK = 1 << 16
LOOKED_AT = 16 << 20
"""Bytes that one page looks at, at most: a page may come back short, with more behind it."""

Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Records, newest first; `next` is where the following page begins, None after the last."""

    records: list[Record]
    next: int | None


class AuditTrail:
    """The file at `path`, which a rotation may move away at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, action: str, *, durable: bool = True, **fields: Any) -> None:
        """Append one record; `durable` ones are on the disk before this returns."""
        known = {name: value for name, value in fields.items() if value not in (None, "")}
        record = {"at": format_time(time.time()), "action": action, **known}
        line = json.dumps(record, separators=(",", ":"), default=str)
        try:
            self._append(line, durable=durable)
        except OSError as error:
            _log.error("the audit log takes no records (%s): %s", error.strerror, line)

    def _append(self, line: str, *, durable: bool) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            os.write(descriptor, f"{line}\n".encode())
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def page(self, *, limit: int, before: int | None = None, **wanted: str | None) -> AuditPage:
        """Up to `limit` records before byte `before`, with the fields that are `wanted`."""
        found: list[Record] = []
        end = start = None
        for at, line in self._backwards(before):
            end = at if end is None else end
            start = at
            record = _parse(line)
            if record is not None and _fits(record, wanted):
                found.append(record)
            if len(found) == limit or end - at > LOOKED_AT:
                break
        return AuditPage(records=found, next=start or None)

    def _backwards(self, before: int | None) -> Iterator[tuple[int, bytes]]:
        """The lines from the last to the first, each with the byte at which it begins."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            size = file.seek(0, os.SEEK_END)
            at = size if before is None else min(before, size)
            rest = b""
            while at > 0:
                block = min(_BLOCK, at)
                at -= block
                file.seek(at)
                lines = (file.read(block) + rest).split(b"\n")
                rest, end = lines[0], at + sum(len(line) + 1 for line in lines) - 1
                for line in reversed(lines[1:]):
                    end -= len(line) + 1
                    if line:
                        yield end + 1, line
            if rest:
                yield 0, rest


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:  # cut off by a power cut
        return None
    return record if isinstance(record, dict) else None


def _fits(record: Record, wanted: dict[str, str | None]) -> bool:
    return all(value is None or record.get(name) == value for name, value in wanted.items())
