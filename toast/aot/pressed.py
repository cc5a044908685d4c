"""The memory of a program as a curve: what the compiler lays out when it has less and less room.

A compiler uses the memory that it has. Told that some of it is taken, it schedules for memory and
computes again what it would have kept. So there are two figures that matter: what it lays out with
room, and the least that it comes down to, with the time that this costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from toast.aot.compile import judge
from toast.aot.target import Target
from toast.aot.verdict import Verdict
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh

SHARES = (0.85, 0.7, 0.5)
"""Parts of what is laid out with room that the compiler is then given."""
LEAST = 2**28
"""Bytes that it is given last, or half of what it was given before where that is less."""
SAME = 0.01
"""Two layouts that differ by less than this part are one point of the curve."""
_GPU_SHARE = 0.8 * 0.95
"""What the compiler of GPUs schedules for, as a part of the memory that it is told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PressedPoint:
    """One compilation. `given_bytes` is the room it had, `reserved_bytes` what was taken from it.

    `slower` is its step over the one with room, less 1; None where one of them has no time.
    """

    given_bytes: int
    reserved_bytes: int
    verdict: Verdict
    slower: float | None = None

    @property
    def laid_out(self) -> int | None:
        """Bytes of the program on one device."""
        return self.verdict.needed_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PressedCurve:
    """The compilations of one program, the one with room first, then with less and less."""

    target: str
    available_bytes: int
    points: tuple[PressedPoint, ...]

    @property
    def least(self) -> PressedPoint:
        """The compilation that lays out the least; of equal ones the one with the most room."""
        return min(self.points, key=lambda point: (point.laid_out or 2**63, -point.given_bytes))

    def to_dict(self) -> dict[str, Any]:
        """The curve as JSON values."""
        return {
            **asdict(self),
            "points": [
                {**asdict(point), "verdict": point.verdict.figures()} for point in self.points
            ],
        }


def press(
    module: bytes,
    target: Target,
    mesh: Mesh,
    *,
    memory_only: bool = False,
    on_level: Callable[[str], None] = lambda _: None,
) -> PressedCurve:
    """Compile `module` with room and with less and less of it; `on_level` hears what is compiled.

    Where the compiler can be asked for memory alone it is asked for that first, and only layouts
    that differ are compiled whole. Raises ToastError as `judge` does.
    """
    early = target.chip.platform == "tpu"

    def compiled(given: int, *, whole: bool) -> PressedPoint:
        reserved = reserved_for(given, target)
        on_level(f"compiling with {given / 2**30:.2f} GiB" + ("" if whole else ", memory alone"))
        verdict = judge(module, target, mesh, memory_only=not whole, reserved_bytes=reserved)
        return PressedPoint(given_bytes=given, reserved_bytes=reserved, verdict=verdict)

    available = find(target.chip.device).usable_bytes
    first = compiled(available, whole=not early and not memory_only)
    needed = min(first.laid_out or available, available)
    levels = [int(needed * share) for share in SHARES]
    levels.append(min(LEAST, levels[-1] // 2))
    points = [first, *(compiled(given, whole=not early) for given in levels)]
    if early and not memory_only:
        points = [
            point if point.verdict.refusal else compiled(point.given_bytes, whole=True)
            for point in _distinct(points)
        ]
    return PressedCurve(
        target=str(target), available_bytes=available, points=tuple(_beside_the_first(points))
    )


def reserved_for(given: int, target: Target) -> int:
    """What has to be taken from the memory for the compiler to work with `given` bytes."""
    device = find(target.chip.device)
    if target.chip.platform == "tpu":
        return device.usable_bytes - given
    return max(0, int(device.usable_bytes - given / _GPU_SHARE))


def _distinct(points: Iterable[PressedPoint]) -> list[PressedPoint]:
    """The points whose layouts differ from those before them; refusals are all kept."""
    kept: list[PressedPoint] = []
    for point in points:
        size = point.laid_out or 0
        if point.verdict.refusal or all(
            abs(size - (other.laid_out or 0)) > SAME * size for other in kept
        ):
            kept.append(point)
    return kept


def _beside_the_first(points: Sequence[PressedPoint]) -> Iterator[PressedPoint]:
    """The points with how much slower each is than the one with room."""
    base = points[0].verdict.step_seconds
    for point in points:
        seconds = point.verdict.step_seconds
        if base and seconds is not None:
            yield replace(point, slower=seconds / base - 1)
        else:
            yield point
