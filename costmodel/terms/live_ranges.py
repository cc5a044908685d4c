"""What is held in memory besides arguments, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from toast.analysis.program import Floats, Ints
from toast.costmodel.program.dataflow import Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Buffers, by the `value` that stands for each, with its tensor, over [first, last].

    `width` is the part of its bytes that is stored; `inner` tells that it is no result of the
    program. `guard` is -1, or numbers a gradient that waits: twice where it does itself, and one
    more where what it is made of stays instead.
    """

    value: Ints
    tensor: Ints
    first: Ints
    last: Ints
    width: Floats
    inner: Bools
    guard: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Gradients that wait to be summed: the row of partials, the tensor that each is computed as.

    And `kept`, the tensors that it is made of which nothing else keeps, with their widths. Equal
    ones are one; `of` is that of each gradient.
    """

    row: Ints
    tensor: Ints
    kept: tuple[tuple[tuple[int, float], ...], ...]
    of: Ints


def joined(one: Held, other: Held) -> Held:
    """The rows of one, and then of the other."""
    names = [column.name for column in fields(Held)]
    return Held(**{n: np.concatenate([getattr(one, n), getattr(other, n)]) for n in names})
