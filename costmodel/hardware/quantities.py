"""Sizes and durations as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable

from toast.analysis.errors import InvalidRequest

_BYTES = {
    "": 1, "B": 1,
    "K": 10**3, "KB": 10**3, "M": 10**6, "MB": 10**6, "G": 10**9, "GB": 10**9,
    "T": 10**12, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
_SECONDS = {
    "": 1.0, "S": 1.0, "MS": 1e-3, "US": 1e-6, "M": 60.0, "MIN": 60.0, "H": 3600.0, "D": 86_400.0,
}  # fmt: skip
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str | int) -> int:
    """Bytes from `17179869184`, `16GiB` or `16GB`; raises `InvalidRequest`."""
    return round(_parse(str(text), _BYTES, "a size", "Write it as 16GiB, 40GB or plain bytes."))


def parse_seconds(text: str | float) -> float:
    """Seconds from `10`, `10s`, `500ms` or `2min`; raises `InvalidRequest`."""
    return _parse(str(text), _SECONDS, "a duration", "Write it as 10s, 500ms or 2min.")


def _parse(text: str, units: dict[str, int] | dict[str, float], what: str, hint: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2].upper() not in units:
        raise InvalidRequest(f"{text!r} is not {what}.", hint)
    value = float(match[1]) * units[match[2].upper()]
    if not 0 < value < float("inf"):
        raise InvalidRequest(f"{text!r} is not {what} above zero.", hint)
    return value


def format_bytes(size: float) -> str:
    """A size for people, in binary units: `15.75 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} TiB"


def format_seconds(seconds: float) -> str:
    """A duration for people: `12.3 ms`."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0 s"


def bytes_between(size: float, low: float, high: float) -> str:
    """A size and its band: `2.02 GiB (1.9 to 2.4)`."""
    return _between(format_bytes, size, low, high)


def seconds_between(seconds: float, low: float, high: float) -> str:
    """A duration and its band: `12.3 ms (11 to 15)`, `382 ms (120 ms to 1 s)`."""
    return _between(format_seconds, seconds, low, high)


def _between(written: Callable[[float], str], value: float, low: float, high: float) -> str:
    """A value with the ends of its band, which name their units where these are not the value's.

    The ends have two digits, as they are no more certain than that.
    """
    text = written(value)
    ends = [written(float(f"{end:.2g}")).split() for end in (low, high)]
    units = {unit for _, unit in ends} == {text.split()[1]}
    said = [
        f"{float(f'{float(number):.2g}'):g}" + ("" if units else f" {unit}")
        for number, unit in ends
    ]
    return f"{text} ({said[0]} to {said[1]})"
