"""One line of a file of hashed keys.

    sha256:HEX name=ci owner=build scopes=submit,read expires=2027-01-31T00:00:00Z

Only the digest is required. A line without fields is as it was before there were any: what
follows the digest is the key's name, and the key may do everything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from toast.service.access.callers import ALL_SCOPES, Caller, Scope

NAME_LENGTH = 64

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_FIELDS = ("name", "owner", "scopes", "expires")


class BadKeys(ValueError):
    """The keys cannot be used as they are; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as the service knows it; `expires` in seconds since the epoch."""

    digest: str
    caller: Caller
    expires: float | None = None


def counts(line: str) -> bool:
    """Whether a line names a key: it is neither empty nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def parse_line(line: str, source: str) -> ApiKey:
    """The key of a line of `source`; raises `BadKeys`, which never shows the line's own text."""
    word, _, rest = line.strip().partition(" ")
    match = _DIGEST.fullmatch(word)
    if match is None:
        raise BadKeys(
            f"{source} has a line that is not sha256:HEX; keys are stored hashed, make the line "
            "with `toast keys add`, or of a key that you have with `toast serve --hash-key`"
        )
    words = rest.split()
    if any("=" in part for part in words):
        return _with_fields(match[1], _fields(words, source), source)
    return key_of_digest(match[1], rest.strip())


def key_of_digest(digest: str, note: str = "") -> ApiKey:
    """A key without fields: it may do everything, and `note` is its name and owner."""
    name = note if note.isprintable() and 0 < len(note) <= NAME_LENGTH else digest[:16]
    return ApiKey(digest=digest, caller=Caller(name=name, owner=name, scopes=ALL_SCOPES))


def format_line(key: ApiKey) -> str:
    """The line that stands for `key`; raises `BadKeys` for a name that would not be read back."""
    caller = key.caller
    check_name(caller.name, "the key's name")
    check_name(caller.owner, "the key's owner")
    scopes = ",".join(scope for scope in Scope if scope in caller.scopes)
    line = f"sha256:{key.digest} name={caller.name} owner={caller.owner} scopes={scopes}"
    return line if key.expires is None else f"{line} expires={format_time(key.expires)}"


def format_time(seconds: float) -> str:
    """RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_name(name: str, what: str) -> str:
    """The name of a key or of an owner, if it can be one."""
    if _NAME.fullmatch(name) is None:
        raise BadKeys(
            f"{what} {name!r} is no name: give up to {NAME_LENGTH} letters, digits, and . _ @ -"
        )
    return name


def parse_scopes(text: str) -> frozenset[Scope]:
    """`submit,read` as scopes."""
    try:
        return frozenset(Scope(part) for part in text.split(","))
    except ValueError as error:
        known = ", ".join(Scope)
        raise BadKeys(f"{text!r} are no scopes; known are {known}") from error


def _fields(words: list[str], source: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        # A slip of the pen must not give a key more than was meant: every word has to be known.
        if not equals or name not in _FIELDS or name in fields:
            known = ", ".join(f"{field}=" for field in _FIELDS)
            raise BadKeys(
                f"{source} has a key with {name!r}, which is unknown or comes twice; known: {known}"
            )
        fields[name] = value
    if "scopes" not in fields:
        raise BadKeys(f"{source} has a key with fields but without scopes=; add scopes=submit,read")
    return fields


def _with_fields(digest: str, fields: dict[str, str], source: str) -> ApiKey:
    try:
        name = check_name(fields.get("name", digest[:16]), "the key's name")
        owner = check_name(fields.get("owner", name), "the key's owner")
        expires = fields.get("expires")
        return ApiKey(
            digest=digest,
            caller=Caller(name=name, owner=owner, scopes=parse_scopes(fields["scopes"])),
            expires=None if expires is None else _seconds(expires),
        )
    except BadKeys as error:
        raise BadKeys(f"{source}: {error}") from error


def _seconds(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadKeys(f"{text!r} is no time; write 2027-01-31T00:00:00Z") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
