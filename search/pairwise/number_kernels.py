"""Reads lists of lists of whole numbers from text: what nearly all of a contest problem is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toast.analysis.jit import entry, inner
from toast.analysis.program import Floats, Ints

OPEN, CLOSE, COMMA, ZERO, NINE = (ord(sign) for sign in "[],09")
SPACES = tuple(ord(sign) for sign in " \t\r\n")
MOST = (2**63 - 1) // 10 - 1
"""A number up to this may have one more digit."""


@inner
def _skip(text: NDArray[np.uint8], place: int) -> int:
    while place < len(text) and text[place] in SPACES:
        place += 1
    return place


@entry
def read_rows(text: NDArray[np.uint8], place: int, numbers: Floats, ends: Ints, got: Ints) -> int:
    """Read `[[1, 2], [], ...]` from `place`; the place behind it, or -1 where there is none.

    `numbers` has those of all rows, and `ends` where each row ends; `got` says how many there are
    of both.
    """
    many = rows = 0
    inside, wants = 0, False  # brackets open, and whether something must follow
    while place < len(text):
        place = _skip(text, place)
        sign = text[place] if place < len(text) else 0
        if sign == OPEN and inside < 2 and (inside == 0 or wants or rows == 0):
            inside, wants = inside + 1, False
            place += 1
        elif sign == CLOSE and not wants:
            place += 1
            inside -= 1
            if inside == 0:
                got[0], got[1] = many, rows
                return place
            if rows == len(ends):
                return -1
            ends[rows] = many
            rows += 1
        elif (
            sign == COMMA and not wants and (inside == 1 or many > (ends[rows - 1] if rows else 0))
        ):
            wants = True
            place += 1
        elif inside == 2 and ZERO <= sign <= NINE and many < len(numbers):
            if not wants and many > (ends[rows - 1] if rows else 0):
                return -1
            value = 0
            while place < len(text) and ZERO <= text[place] <= NINE:
                if value > MOST:
                    return -1
                value = value * 10 + (text[place] - ZERO)
                place += 1
            numbers[many] = value
            many, wants = many + 1, False
        else:
            return -1
    return -1
