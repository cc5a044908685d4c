"""Small sizes for ops with windows: convolution, reduce_window, select_and_scatter.

A window slides over a dimension in steps. A small window that takes many steps keeps its size and
gets a small dimension to slide over. One that covers most of its dimension (the gradient of a
filter, a global pool, a running sum) shrinks with it and goes on taking as many steps.
"""

from __future__ import annotations

from dataclasses import dataclass

_LARGE = 9
_SMALL = 8
_LIMIT = 72


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAttributes:
    """One dimension that a window slides over. Sizes in elements before dilation."""

    size: int
    window: int
    stride: int = 1
    low: int = 0
    high: int = 0
    size_dilation: int = 1
    window_dilation: int = 1

    @property
    def pads(self) -> tuple[int, int]:
        """Padding before and after."""
        return self.low, self.high

    @property
    def steps(self) -> int:
        """How many places the window takes: the size of the result."""
        room = _dilated(self.size, self.size_dilation) + self.low + self.high
        return (room - _dilated(self.window, self.window_dilation)) // self.stride + 1


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1


def shrink(window: WindowAttributes) -> WindowAttributes | None:
    """The same kind of window on few elements; None when there is none."""
    if window.size == 1 and window.window == 1:
        return window
    if window.window <= _LARGE and window.window <= window.steps:
        return _resized(window, _room(window), window.window, window.low, window.high)
    lost = (window.window - _SMALL) * window.window_dilation
    low, high = (pad - lost if pad >= max(lost, _SMALL) else pad for pad in window.pads)
    if (low, high) != window.pads:
        return _resized(window, _SMALL, _SMALL, low, high)
    gone, rest = divmod(lost, window.size_dilation)
    return _resized(window, window.size - gone, _SMALL, low, high) if rest == 0 else None


def _room(window: WindowAttributes) -> int:
    """A few windows' worth of elements, split evenly by two shards of whole strides."""
    if window.size == 1:
        return 1
    unit = 4 * window.stride
    wanted = max(_SMALL, 2 * _dilated(window.window, window.window_dilation))
    odd = window.size % 2 if window.stride > 1 else 0
    return -(-wanted // unit) * unit + odd


def _resized(
    window: WindowAttributes, size: int, width: int, low: int, high: int
) -> WindowAttributes | None:
    small = WindowAttributes(
        size=size,
        window=width,
        stride=window.stride,
        low=low,
        high=high,
        size_dilation=window.size_dilation,
        window_dilation=window.window_dilation,
    )
    return small if 0 < size <= _LIMIT and small.steps > 0 else None
