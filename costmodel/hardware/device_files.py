"""Device files as TOML: read with every mistake named by its key and line, and written."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from toast.costmodel.hardware.devices import DIMENSIONS, Device, Link
from toast.costmodel.hardware.typed_toml import Ranges, TypedToml

FLOPS = ("bf16", "f16", "f32", "f64", "i8")
"""The element types whose peak a profile must give."""

_HINT = (
    "Compare it with a file under costmodel/hardware/chips, or write a new one with "
    "`toast calibrate`."
)
_RANGES = Ranges(
    may_be_zero=frozenset(
        {
            "reserved_bytes",
            "op_overhead",
            "program_start",
            "buffer_start",
            "latency",
            "wrap",
            "on_chip_bytes",
            "on_chip_buffers",
        }
    ),
    shares=frozenset({"matmul_efficiency", "stream_efficiency", "efficiency"}),
)
_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")
_COMPILERS = {"tpu": "libtpu", "cpu": "xla_cpu"}
"""The compiler for each kind of device whose file names none; for others it is XLA's for GPUs."""
_MOVED = {
    "early": ("fusion", "stores_reduced"),
    "sums_whole": ("reduce_scatter_creator", "keeps_sums_over_all_whole"),
    "in_blocks": ("space_to_batch", "convolves_in_blocks"),
    "on_chip_sent": ("memory_space_assignment", "collectives_on_chip"),
    "on_chip_buffers": ("memory_space_assignment", "scoped_bytes"),
}
"""Keys of files before compilers had profiles: the section and the key of a profile that each is
now. `early` is the opposite of its key, and `on_chip_buffers` what it leaves of `on_chip_bytes`."""


def read_profile(text: str, where: str) -> Device:
    """The device that a TOML text describes; raises `InvalidDevice`, where `where` names it."""
    reader = _DeviceReader(where, _HINT, _RANGES, text)
    return reader.device(reader.parse(text))


class _DeviceReader(TypedToml):
    """Checks the values of one device file."""

    def device(self, data: dict[str, Any]) -> Device:
        """The device, or the first mistake."""
        links = data.get("links")
        if not isinstance(links, list) or not links or not all(isinstance(v, dict) for v in links):
            self.fail("links", "has to be one table [[links]] for each network, and at least one")
        known = {key: value for key, value in data.items() if key not in _MOVED}
        values = self.values(Device, _with_defaults(known), "", elsewhere=("links",))
        values["links"] = tuple(self._link(row, n) for n, row in enumerate(data["links"]))
        values["overrides"] = _merged(self._moved(data), values["overrides"])
        for name in FLOPS:
            if name not in values["flops"]:
                self.fail("flops", f"has no peak for {name}")
        if values["reserved_bytes"] >= values["memory_bytes"]:
            self.fail("reserved_bytes", "has to be less than memory_bytes")
        if data.get("on_chip_bytes", 0) < data.get("on_chip_buffers", 0):
            self.fail("on_chip_buffers", "has to be at most on_chip_bytes")
        if len(values["tile"]) != 2:
            self.fail("tile", "has to be two numbers, rows and columns")
        self._check_order(values["links"])
        return Device(**values)

    def _moved(self, data: Mapping[str, Any]) -> dict[str, dict[str, bool | int]]:
        """What keys of older files say, as keys of the compiler's profile."""
        found: dict[str, dict[str, bool | int]] = {}
        for old, (section, key) in _MOVED.items():
            if old in data:
                value = self.value(old, data[old], int if old == "on_chip_buffers" else bool)
                if old == "on_chip_buffers":
                    value = data.get("on_chip_bytes", 0) - value
                found.setdefault(section, {})[key] = not value if old == "early" else value
        return found

    def _link(self, row: dict[str, Any], number: int) -> Link:
        link = Link(**self.values(Link, row, f"links[{number}]."))
        place = f"links[{number}].dims"
        if link.topology == "torus" and not 1 <= len(link.dims) <= len(DIMENSIONS):
            self.fail(place, "has to be the one to three lengths of the torus")
        if link.topology == "torus" and link.links != 2 * len(link.dims):
            self.fail(f"links[{number}].links", "has to be two for each of dims")
        if unknown := sorted(set(link.slowdown) - set(_KINDS)):
            place = f"links[{number}].slowdown"
            self.fail(place, f"knows no {unknown[0]!r}, only {', '.join(_KINDS)}")
        return link

    def _check_order(self, links: tuple[Link, ...]) -> None:
        names = [link.name for link in links]
        for number, (fast, slow) in enumerate(pairwise(links), 1):
            if slow.span <= fast.span:
                self.fail(
                    f"links[{number}].span",
                    "has to be above that of the network before it: the smallest comes first",
                )
            if slow.bandwidth > fast.bandwidth:
                self.fail(
                    f"links[{number}].link_bandwidth",
                    "makes it faster than the network before it: the fastest comes first",
                )
            if slow.name in names[:number]:
                self.fail(f"links[{number}].name", "is that of another network")


def _with_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
    """The table with what follows from others where it says nothing."""
    found: dict[str, Any] = {"overrides": {}}
    if isinstance(data.get("kind"), str):
        found["compiler"] = _COMPILERS.get(data["kind"], "xla_gpu")
    if "name" in data:
        found["generation"] = data["name"]
    return {**found, **data}


def _merged(
    one: Mapping[str, Mapping[str, Any]], other: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The keys of both by section; those of the other count where both have one."""
    return {
        section: {**one.get(section, {}), **other.get(section, {})} for section in {**one, **other}
    }


_LINK_DEFAULTS = {
    "dims": (),
    "wrap": 0,
    "wrap_all": False,
    "whole_exchanges": False,
    "slowdown": {},
}


def write_profile(device: Device, notes: Iterable[str] = ()) -> str:
    """The TOML text of a device, which `read_profile` reads back; `notes` become comments."""
    fields = dataclasses.asdict(device)
    links = fields.pop("links")
    tables = {key: fields.pop(key) for key in ("flops", "overrides", "sources")}
    lines = [*(f"# {note}" for note in notes), *_assignments(fields)]
    for name, table in tables.items():
        if table:
            lines += ["", f"[{name}]", *_assignments(table)]
    for link in links:
        defaults = {
            "dims": (),
            "wrap": 0,
            "wrap_all": False,
            "whole_exchanges": False,
            "slowdown": {},
        }
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
