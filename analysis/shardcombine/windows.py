"""Small sizes for ops with windows: convolution, reduce_window, select_and_scatter.

A window slides over a dimension in steps; shrinking has to leave the number of steps a number of
rows that can be split, and large windows have to shrink with what they slide over.
"""

from __future__ import annotations

from dataclasses import dataclass

_LARGE = 9
_SMALL = 8
_LIMIT = 72


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One dimension that a window slides over. Sizes in elements before dilation."""

    size: int
    window: int
    stride: int = 1
    low: int = 0
    high: int = 0
    size_dilation: int = 1
    window_dilation: int = 1

    @property
    def steps(self) -> int:
        """How many places the window takes: the size of the result."""
        room = _dilated(self.size, self.size_dilation) + self.low + self.high
        return (room - _dilated(self.window, self.window_dilation)) // self.stride + 1


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1


def shrink(window: Window) -> Window | None:
    """The same kind of window on few elements; None when there is none."""
    if window.size == 1 and window.window == 1:
        return window
    if window.window <= _LARGE:
        return _resized(window, _room(window), window.window, window.low, window.high)
    lost = (window.window - _SMALL) * window.window_dilation
    low = window.low - lost if window.low >= lost else window.low
    high = window.high - lost if window.high >= lost else window.high
    if (low, high) != (window.low, window.high):
        return _resized(window, _SMALL, _SMALL, low, high)
    gone, rest = divmod(lost, window.size_dilation)
    return _resized(window, window.size - gone, _SMALL, low, high) if rest == 0 else None


def _room(window: Window) -> int:
    """A few windows' worth of elements, split evenly by two shards of whole strides."""
    if window.size == 1:
        return 1
    unit = 4 * window.stride
    wanted = max(_SMALL, 2 * _dilated(window.window, window.window_dilation))
    odd = window.size % 2 if window.stride > 1 else 0
    return -(-wanted // unit) * unit + odd


def _resized(window: Window, size: int, width: int, low: int, high: int) -> Window | None:
    small = Window(
        size=size,
        window=width,
        stride=window.stride,
        low=low,
        high=high,
        size_dilation=window.size_dilation,
        window_dilation=window.window_dilation,
    )
    return small if 0 < size <= _LIMIT and small.steps > 0 else None
