"""Bearer API keys, kept as SHA-256 digests only.

Keys are long random strings, so a plain digest is enough: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass

from toast.service.access.callers import Caller
from toast.service.access.key_lines import ApiKey, BadKeys, counts, parse_line

ENVIRONMENT = "TOAST_API_KEYS"
FILE_ENVIRONMENT = "TOAST_API_KEYS_FILE"
MIN_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys that open the service; with none, it is open to all who reach it."""

    keys: tuple[ApiKey, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keys)

    def holder(
        self, authorization: str | None, clock: Callable[[], float] = time.time
    ) -> Caller | None:
        """Who an `Authorization` header belongs to, None for nobody."""
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest = digest_of(key.strip())
        # Compared with every key, so that the time taken tells nothing.
        found = [known for known in self.keys if hmac.compare_digest(digest, known.digest)]
        valid = [known for known in found if known.expires is None or known.expires > clock()]
        return valid[0].caller if valid else None


def digest_of(key: str) -> str:
    """The lower-case hex SHA-256 of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def hashed_line(key: str) -> str:
    """The line for a keys file that stands for `key`."""
    if len(key) < MIN_LENGTH:
        raise BadKeys(f"an API key has at least {MIN_LENGTH} characters; make a longer one")
    return f"sha256:{digest_of(key)}"


def keys_of_lines(text: str, source: str) -> list[ApiKey]:
    """The keys of a file of hashed keys; empty lines and lines that start with # are skipped."""
    return [parse_line(line, source) for line in text.splitlines() if counts(line)]


def keys_of_secret(text: str, source: str) -> list[ApiKey]:
    """The keys of a secret: lines as in a file of hashed keys, or keys as in the environment."""
    found: list[ApiKey] = []
    for line in text.splitlines():
        if counts(line):
            named = line.startswith("sha256:") and "," not in line.split()[0]
            found += [parse_line(line, source)] if named else keys_of_words(line, source)
    return found


def keys_of_words(text: str, source: str) -> list[ApiKey]:
    """The keys of a list separated by commas, each a key or `sha256:HEX`; they may do anything."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [
        parse_line(part if part.startswith("sha256:") else hashed_line(part), source)
        for part in parts
    ]


def distinct(keys: list[ApiKey]) -> tuple[ApiKey, ...]:
    """Each key once, the first line that names it."""
    return tuple({key.digest: key for key in reversed(keys)}.values())[::-1]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
