"""The values of flags: numbers, sizes and times as people write them."""

from __future__ import annotations

import argparse

from toast.analysis.errors import ToastError
from toast.costmodel.hardware.quantities import parse_bytes, parse_seconds


def size(text: str) -> int:
    """Bytes."""
    try:
        return parse_bytes(text)
    except ToastError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def time(text: str) -> float:
    """Seconds."""
    try:
        return parse_seconds(text)
    except ToastError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def age(text: str) -> float | None:
    """Seconds, or None for `never`."""
    return None if text == "never" else time(text)


def count(text: str) -> int:
    """1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def some(text: str) -> int:
    """0 or more."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value
