"""Small sizes for a reshape, whose operand and result hold the same elements in the same order."""

from __future__ import annotations

import math

from toast.analysis.shardcombine.opcopy import Shape

_SMALL = (4, 6, 8)
_WANTED = 4096
_LIMIT = 200_000


def shrink_reshape(operand: Shape, result: Shape) -> tuple[Shape, Shape] | None:
    """Both shapes with their common factors made small, or None when they stay large.

    Dimensions are read from the minor end: wherever the sizes of one side divide those of the
    other, the quotient becomes a factor that both have.
    """
    factors: list[int] = []
    left, right = _Side(operand), _Side(result)
    while not (left.done and right.done):
        common = math.gcd(left.rest, right.rest)
        if common == 1:
            return _halved(operand, result)
        left.take(common, len(factors))
        right.take(common, len(factors))
        factors.append(common)
    small = [_SMALL[min(index, len(_SMALL) - 1)] for index in range(len(factors))]
    shapes = left.shape(small), right.shape(small)
    return shapes if math.prod(shapes[0]) <= _LIMIT else _halved(operand, result)


def _halved(operand: Shape, result: Shape) -> tuple[Shape, Shape] | None:
    """Shapes without common factors, with their largest even dimensions halved on both sides."""
    left, right = list(operand), list(result)
    while math.prod(left) > _WANTED:
        even = [max((s for s in side if s % 4 == 0), default=0) for side in (left, right)]
        if 0 in even:
            break
        for side, size in zip((left, right), even, strict=True):
            side[side.index(size)] = size // 2
    return (tuple(left), tuple(right)) if math.prod(left) <= _LIMIT else None


class _Side:
    """One shape, taken apart from its minor end."""

    def __init__(self, shape: Shape) -> None:
        self._taken: list[list[int]] = [[] for _ in shape]
        self._at = len(shape) - 1
        self._sizes = shape
        self.rest = shape[-1] if shape else 1
        self._skip()

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self._at < 0

    def take(self, factor: int, index: int) -> None:
        """Divide what is left of the dimension at hand by the factor of number `index`."""
        self._taken[self._at].append(index)
        self.rest //= factor
        self._skip()

    def _skip(self) -> None:
        while self._at >= 0 and self.rest == 1:
            self._at -= 1
            self.rest = self._sizes[self._at] if self._at >= 0 else 1

    def shape(self, small: list[int]) -> Shape:
        """The shape with each factor replaced by its small size."""
        return tuple(math.prod(small[index] for index in taken) for taken in self._taken)
