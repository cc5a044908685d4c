"""Bearer API keys, kept as SHA-256 digests only.

Keys are long random strings, so a plain digest is enough: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = "TOAST_API_KEYS"
MIN_LENGTH = 16

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


class BadKeys(ValueError):
    """The keys cannot be used as they are; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The digests that open the service; with none, it is open to all who reach it."""

    digests: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.digests)

    def holder(self, authorization: str | None) -> str | None:
        """Who an `Authorization` header belongs to (a short name of the key), None for nobody."""
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest = digest_of(key.strip())
        # Compared with every key, so that the time taken tells nothing.
        matches = [hmac.compare_digest(digest, known) for known in self.digests]
        return digest[:16] if any(matches) else None


def digest_of(key: str) -> str:
    """The lower-case hex SHA-256 of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def hashed_line(key: str) -> str:
    """The line for a keys file that stands for `key`."""
    if len(key) < MIN_LENGTH:
        raise BadKeys(f"an API key has at least {MIN_LENGTH} characters; make a longer one")
    return f"sha256:{digest_of(key)}"


def read_keys(environment: str | None, file: Path | None) -> Keys:
    """Keys from the value of `TOAST_API_KEYS` (comma-separated) and from a file of digests.

    A line of the file is `sha256:HEX` and, after a space, anything that helps to remember whose
    it is; empty lines and lines that start with # are skipped.
    """
    digests = [_from_environment(part) for part in (environment or "").split(",") if part.strip()]
    if file is not None:
        lines = file.read_text().splitlines()
        digests += [_from_line(line, file) for line in lines if _counts(line)]
        if not digests:
            raise BadKeys(f"{file} has no keys; add one with: python -m service --hash-key")
    return Keys(digests=tuple(dict.fromkeys(digests)))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _counts(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _from_environment(part: str) -> str:
    text = part.strip()
    match = _DIGEST.fullmatch(text)
    return match[1] if match else hashed_line(text).removeprefix("sha256:")


def _from_line(line: str, file: Path) -> str:
    match = _DIGEST.fullmatch(line.split(maxsplit=1)[0])
    if match is None:
        raise BadKeys(
            f"{file} has a line that is not sha256:HEX; keys are stored hashed, "
            "make the line with: python -m service --hash-key"
        )
    return match[1]
