"""Small sizes for ops with windows: convolution, reduce_window, select_and_scatter.

A window slides over a dimension in steps. A small window that takes many steps keeps its size and
gets a small dimension to slide over. One that covers most of its dimension (the gradient of a
filter, a global pool, a running sum) shrinks with it and goes on taking as many steps.
"""

from __future__ import annotations

from dataclasses import replace

from toast.analysis.windows import SlidingWindow

_LARGE = 9
_SMALL = 8
_LIMIT = 72


def shrink(window: SlidingWindow) -> SlidingWindow | None:
    """The same kind of window on few elements; None when there is none."""
    if window.size == 1 and window.width == 1:
        return window
    if window.width <= _LARGE and window.width <= window.steps:
        return _resized(window, _room(window), window.width, window.low, window.high)
    lost = (window.width - _SMALL) * window.window_dilation
    low, high = (pad - lost if pad >= max(lost, _SMALL) else pad for pad in window.pads)
    if (low, high) != window.pads:
        return _resized(window, _SMALL, _SMALL, low, high)
    gone, rest = divmod(lost, window.dilation)
    return _resized(window, window.size - gone, _SMALL, low, high) if rest == 0 else None


def _room(window: SlidingWindow) -> int:
    """A few windows' worth of elements, split evenly by two shards of whole strides."""
    if window.size == 1:
        return 1
    unit = 4 * window.stride
    wanted = max(_SMALL, 2 * window.reach)
    odd = window.size % 2 if window.stride > 1 else 0
    return -(-wanted // unit) * unit + odd


def _resized(
    window: SlidingWindow, size: int, width: int, low: int, high: int
) -> SlidingWindow | None:
    small = replace(window, size=size, width=width, low=low, high=high)
    return small if 0 < size <= _LIMIT and small.steps > 0 else None
