"""Records of records of arrays, as one flat list of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def columns(record: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All columns of a record, by their full names."""
    for field, value in zip(record._fields, record, strict=True):
        if hasattr(value, "_fields"):
            yield from columns(value, f"{name}{field}.")
        else:
            yield name + field, value


def assert_equal_columns(one: Any, other: Any, *, but: frozenset[str] = frozenset()) -> None:
    for (name, mine), (same, theirs) in zip(columns(one), columns(other), strict=True):
        assert name == same
        assert name in but or np.array_equal(mine, theirs), name
