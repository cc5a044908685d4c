"""TOML tables as typed records: every mistake is named by its key and line."""

from __future__ import annotations

import dataclasses
import re
import tomllib
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from toast.analysis.errors import InvalidDevice, ToastError

_WORDS: dict[Any, tuple[type, str]] = {
    str: (str, "text"),
    bool: (bool, "true or false"),
    tuple: (list, "a list"),
    dict: (dict, "a table"),
}
_PART = re.compile(r'"([^"]*)"|([\w\-]+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Which numbers may be zero, and which are shares of a whole; all others are above zero.

    Those of `parts` are below the whole.
    """

    may_be_zero: Collection[str] = frozenset()
    shares: Collection[str] = frozenset()
    parts: Collection[str] = frozenset()


class TypedToml:
    """Checks the values of one file against records; knows where each key stands.

    `where` names the file, `hint` says what to do about a mistake. Without a text no line is named.
    Mistakes are raised as `error`.
    """

    error: ClassVar[type[ToastError]] = InvalidDevice

    def __init__(self, where: str, hint: str, ranges: Ranges, text: str = "") -> None:
        self._rows = _rows(text)
        self._where = where
        self._hint = hint
        self._ranges = ranges

    def parse(self, text: str) -> dict[str, Any]:
        """The tables of a TOML text; raises `error` where it is none."""
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            message = str(error)[:1].lower() + str(error)[1:]
            raise self.error(f"{self._where} is no TOML: {message}.", self._hint) from None

    def values(
        self, record: type, data: Mapping[str, Any], prefix: str, elsewhere: Collection[str] = ()
    ) -> dict[str, Any]:
        """The fields of a record out of a table; those `elsewhere` are read by the caller."""
        hints = typing.get_type_hints(record)
        self.only(data, hints, prefix)
        found = {}
        for entry in dataclasses.fields(record):
            if entry.name in elsewhere:
                continue
            if entry.name in data:
                key = prefix + entry.name
                found[entry.name] = self.value(key, data[entry.name], hints[entry.name])
            elif entry.default is dataclasses.MISSING and (
                entry.default_factory is dataclasses.MISSING
            ):
                self.fail(prefix + entry.name, "is missing")
        return found

    def only(self, data: Iterable[str], known: Collection[str], prefix: str) -> None:
        """Refuse keys that are not known."""
        for key in data:
            if key not in known:
                self.fail(prefix + key, f"is not known; there are {', '.join(sorted(known))}")

    def table(self, key: str, value: Any) -> dict[str, Any]:
        """A value that has to be a table."""
        if not isinstance(value, dict):
            self.fail(key, f"has to be a table, and is {value!r}")
        return value

    def value(self, key: str, value: Any, wanted: Any) -> Any:
        """A value of the type that a field is annotated with."""
        origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
        if wanted in (int, float):
            return self._number(key, value, wanted)
        if origin is types.UnionType:
            if not isinstance(value, arguments):
                self.fail(key, f"has to be true or false, a number or text, and is {value!r}")
            return value
        if origin is tuple and isinstance(value, list):
            return tuple(self.value(key, item, arguments[0]) for item in value)
        if origin is dict and isinstance(value, dict):
            return {k: self.value(f"{key}.{k}", v, arguments[1]) for k, v in value.items()}
        if origin is typing.Literal:
            fits, words = value in arguments, f"one of {', '.join(arguments)}"
        else:
            kind, words = _WORDS[origin or wanted]
            fits = isinstance(value, kind)
        if not fits:
            self.fail(key, f"has to be {words}, and is {value!r}")
        return value

    def _number(self, key: str, value: Any, wanted: type) -> float:
        name = key.rpartition(".")[2]
        allowed = (int,) if wanted is int else (int, float)
        if not isinstance(value, allowed) or isinstance(value, bool):
            words = "a whole number" if wanted is int else "a number"
            self.fail(key, f"has to be {words}, and is {value!r}")
        may_be_zero = name in self._ranges.may_be_zero
        least = "zero or more" if may_be_zero else "above zero"
        if not (value > 0 or (value == 0 and may_be_zero)) or value == float("inf"):
            self.fail(key, f"has to be {least}, and is {value!r}")
        if name in self._ranges.shares and value > 1:
            self.fail(key, f"is a share of the peak, at most 1, and is {value!r}")
        if name in self._ranges.parts and value >= 1:
            self.fail(key, f"is a part, below 1, and is {value!r}")
        return wanted(value)

    def fail(self, key: str, problem: str) -> typing.NoReturn:
        """Raise `error` with the key, its line and what is wrong with it."""
        line = self.line(key)
        place = f"{self._where}, line {line}" if line else self._where
        raise self.error(f"{place}: {key} {problem}.", self._hint)

    def line(self, key: str) -> int | None:
        """Where a key stands, or else what it is part of; None where neither is there."""
        while key:
            table, _, name = key.rpartition(".")
            for at, inside, line in self._rows:
                assigned = re.match(r"\s*\"?([\w\-]+)\"?\s*=", line)
                if (inside == table and assigned and assigned[1] == name) or (
                    not assigned and (inside == key or inside.startswith(f"{key}."))
                ):
                    return at
            key = table
        return None


def _rows(text: str) -> list[tuple[int, str, str]]:
    """Each line with its number and the table that it is in; lists of tables are counted."""
    rows, inside, counted = [], "", dict[str, int]()
    for at, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[(\[?)([^\[\]=]+)\]", line):
            inside = ".".join(quoted or bare for quoted, bare in _PART.findall(header[2]))
            if header[1]:
                number = counted.get(inside, 0)
                counted[inside] = number + 1
                inside = f"{inside}[{number}]"
        rows.append((at, inside, line))
    return rows
