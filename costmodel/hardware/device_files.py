"""Device profiles as TOML: read with every mistake named by its key and line, and written."""

from __future__ import annotations

import dataclasses
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from toast.analysis.errors import InvalidDevice
from toast.costmodel.hardware.devices import DIMENSIONS, Device, Link

FLOPS = ("bf16", "f16", "f32", "f64", "i8")
"""The element types whose peak a profile must give."""

_HINT = "Compare it with a file under costmodel/chips, or write a new one with `toast calibrate`."
_MAY_BE_ZERO = frozenset(
    {"reserved_bytes", "op_overhead", "latency", "wrap", "on_chip_bytes", "on_chip_buffers"}
)
_SHARES = frozenset({"matmul_efficiency", "stream_efficiency", "efficiency"})
_WORDS: dict[Any, tuple[type, str]] = {
    str: (str, "text"),
    bool: (bool, "true or false"),
    tuple: (list, "a list"),
    dict: (dict, "a table"),
}
_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")


def read_profile(text: str, where: str) -> Device:
    """The device that a TOML text describes; raises `InvalidDevice`, where `where` names it."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)[:1].lower() + str(error)[1:]
        raise InvalidDevice(f"{where} is no TOML: {message}.", _HINT) from None
    return _Reader(text, where).device(data)


class _Reader:
    """Checks the values of one file; knows where each key stands."""

    def __init__(self, text: str, where: str) -> None:
        self._rows = _rows(text)
        self._where = where

    def device(self, data: dict[str, Any]) -> Device:
        """The device, or the first mistake."""
        links = data.get("links")
        if not isinstance(links, list) or not links or not all(isinstance(v, dict) for v in links):
            self._fail("links", "has to be one table [[links]] for each network, and at least one")
        values = self._values(Device, data, "")
        values["links"] = tuple(self._link(row, n) for n, row in enumerate(data["links"]))
        for name in FLOPS:
            if name not in values["flops"]:
                self._fail("flops", f"has no peak for {name}")
        if values["reserved_bytes"] >= values["memory_bytes"]:
            self._fail("reserved_bytes", "has to be less than memory_bytes")
        if values.get("on_chip_buffers", 0) > values.get("on_chip_bytes", 0):
            self._fail("on_chip_buffers", "has to be at most on_chip_bytes")
        if len(values["tile"]) != 2:
            self._fail("tile", "has to be two numbers, rows and columns")
        self._check_order(values["links"])
        return Device(**values)

    def _link(self, row: dict[str, Any], number: int) -> Link:
        link = Link(**self._values(Link, row, f"links[{number}]."))
        place = f"links[{number}].dims"
        if link.topology == "torus" and not 1 <= len(link.dims) <= len(DIMENSIONS):
            self._fail(place, "has to be the one to three lengths of the torus")
        if link.topology == "torus" and link.links != 2 * len(link.dims):
            self._fail(f"links[{number}].links", "has to be two for each of dims")
        if unknown := sorted(set(link.slowdown) - set(_KINDS)):
            place = f"links[{number}].slowdown"
            self._fail(place, f"knows no {unknown[0]!r}, only {', '.join(_KINDS)}")
        return link

    def _check_order(self, links: tuple[Link, ...]) -> None:
        names = [link.name for link in links]
        for number, (fast, slow) in enumerate(pairwise(links), 1):
            if slow.span <= fast.span:
                self._fail(
                    f"links[{number}].span",
                    "has to be above that of the network before it: the smallest comes first",
                )
            if slow.bandwidth > fast.bandwidth:
                self._fail(
                    f"links[{number}].link_bandwidth",
                    "makes it faster than the network before it: the fastest comes first",
                )
            if slow.name in names[:number]:
                self._fail(f"links[{number}].name", "is that of another network")

    def _values(self, record: type, data: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        types = typing.get_type_hints(record)
        for key in data:
            if key not in types:
                close = ", ".join(sorted(types))
                self._fail(prefix + key, f"is not known; there are {close}")
        values = {}
        for entry in dataclasses.fields(record):
            if entry.name in data:
                if entry.name != "links" or prefix:
                    values[entry.name] = self._value(
                        prefix + entry.name, data[entry.name], types[entry.name]
                    )
            elif entry.default is dataclasses.MISSING and (
                entry.default_factory is dataclasses.MISSING
            ):
                self._fail(prefix + entry.name, "is missing")
        return values

    def _value(self, key: str, value: Any, wanted: Any) -> Any:
        """A value of the type that a field is annotated with."""
        origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
        if wanted in (int, float):
            return self._number(key, value, wanted)
        if origin is tuple and isinstance(value, list):
            return tuple(self._value(key, item, arguments[0]) for item in value)
        if origin is dict and isinstance(value, dict):
            return {k: self._value(f"{key}.{k}", v, arguments[1]) for k, v in value.items()}
        if origin is typing.Literal:
            fits, words = value in arguments, f"one of {', '.join(arguments)}"
        else:
            kind, words = _WORDS[origin or wanted]
            fits = isinstance(value, kind)
        if not fits:
            self._fail(key, f"has to be {words}, and is {value!r}")
        return value

    def _number(self, key: str, value: Any, wanted: type) -> float:
        name = key.rpartition(".")[2]
        allowed = (int,) if wanted is int else (int, float)
        if not isinstance(value, allowed) or isinstance(value, bool):
            words = "a whole number" if wanted is int else "a number"
            self._fail(key, f"has to be {words}, and is {value!r}")
        least = "zero or more" if name in _MAY_BE_ZERO else "above zero"
        if not (value > 0 or (value == 0 and name in _MAY_BE_ZERO)) or value == float("inf"):
            self._fail(key, f"has to be {least}, and is {value!r}")
        if name in _SHARES and value > 1:
            self._fail(key, f"is a share of the peak, at most 1, and is {value!r}")
        return wanted(value)

    def _fail(self, key: str, problem: str) -> typing.NoReturn:
        line = self._line(key)
        place = f"{self._where}, line {line}" if line else self._where
        raise InvalidDevice(f"{place}: {key} {problem}.", _HINT)

    def _line(self, key: str) -> int | None:
        """Where a key stands, or else what it is part of; None where neither is there."""
        while key:
            table, _, name = key.rpartition(".")
            for at, inside, line in self._rows:
                assigned = re.match(r"\s*\"?([\w\-]+)\"?\s*=", line)
                if (inside == table and assigned and assigned[1] == name) or (
                    inside == key and not assigned
                ):
                    return at
            key = table
        return None


def _rows(text: str) -> list[tuple[int, str, str]]:
    """Each line with its number and the table that it is in; networks are counted."""
    rows, inside, links = [], "", 0
    for at, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*(\[?)\s*\"?([\w\-]+)\"?\s*\]", line):
            inside = f"links[{links}]" if header[1] else header[2]
            links += bool(header[1])
        rows.append((at, inside, line))
    return rows


def write_profile(device: Device, notes: Iterable[str] = ()) -> str:
    """The TOML text of a device, which `read_profile` reads back; `notes` become comments."""
    fields = dataclasses.asdict(device)
    links, tables = fields.pop("links"), {k: fields.pop(k) for k in ("flops", "sources")}
    lines = [*(f"# {note}" for note in notes), *_assignments(fields)]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_assignments(table)]
    for link in links:
        defaults = {"dims": (), "wrap": 0, "wrap_all": False, "slowdown": {}}
        kept = {k: v for k, v in link.items() if k not in defaults or v != defaults[k]}
        lines += ["", "[[links]]", *_assignments(kept)]
    return "\n".join(lines) + "\n"


def _assignments(values: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_toml(value)}" for key, value in values.items()]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", " ", escaped) + '"'
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_assignments(value)) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
