"""Memory over the schedule, drawn with characters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from toast.costmodel.hardware.quantities import format_bytes
from toast.plans.explanation import PeakMoment, TimelinePoint

HEIGHT = 5
_BLOCKS = " ▁▂▃▄▅▆▇█"
_PLAIN = "    #####"


class Timeline:
    """A bar for each stretch of the schedule, as wide as there is room; what is over in red."""

    def __init__(self, points: Sequence[TimelinePoint], peak: PeakMoment, memory: int) -> None:
        self._points = points
        self._peak = peak
        self._memory = memory

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The rows from the highest down, then where the peak is."""
        label = len(format_bytes(self._peak.bytes)) + 1
        room = max(options.max_width - label - 1, 8)
        bars = self.bars(room)
        top = max(max(bars, default=0), 1)
        blocks = _BLOCKS if options.encoding.startswith("utf") else _PLAIN
        yield Text("Memory over the schedule", style="bold")
        for row in range(HEIGHT - 1, -1, -1):
            line = Text(
                format_bytes(top).rjust(label - 1) + " " if row == HEIGHT - 1 else " " * label
            )
            for over, stretch in groupby(bars, lambda size: size > self._memory):
                cells = "".join(_cell(bar, top, row, blocks) for bar in stretch)
                line.append(cells, style="red" if over else "cyan")
            yield line
        yield Text(" " * label + self._foot(self._points_per_bar(room), room))

    def _points_per_bar(self, width: int) -> int:
        """How many points share a bar."""
        return -(-len(self._points) // width)

    def bars(self, width: int) -> list[int]:
        """The most bytes of each of at most `width` equal stretches."""
        per_bar = self._points_per_bar(width)
        sizes = [point.bytes for point in self._points]
        return [max(sizes[i : i + per_bar]) for i in range(0, len(sizes), per_bar)]

    def _foot(self, per_bar: int, width: int) -> str:
        """A mark below the bar of the peak, and its position."""
        starts = [point.position for point in self._points]
        place = (bisect_right(starts, self._peak.position) - 1) // per_bar
        text = f"^ peak, position {self._peak.position:,}"
        return " " * place + text if place + len(text) <= width else self._left(place)

    def _left(self, place: int) -> str:
        text = f"peak, position {self._peak.position:,} ^"
        return " " * max(place + 1 - len(text), 0) + text


def _cell(size: int, top: int, row: int, blocks: str) -> str:
    """The character of a bar at one of the rows, the lowest of which is 0."""
    eighths = round(size / top * HEIGHT * 8) - row * 8
    return blocks[min(max(eighths, 0), 8)]
