"""What a TPU's compiler writes to a folder as it goes, long before it is done.

Once memory is laid out and everything fits it writes the module again, after all that is read here;
then it generates the code, which takes most of the time. What does not fit never gets that far.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from toast.aot.verdict import Memory

DUMP = "dump"
"""The folder, in the directory of a compilation."""

_SPACE = re.compile(r"^Memory Space: (\w+) \(color=\d+\)\nTotal bytes: (\d+)", re.M)
_ALLOCATION = re.compile(r"^allocation \d+: size (\d+), (?!color )(.*)$", re.M)
_NUMBER = re.compile(r"^module_\d+\.")
_GIVEN = ".before_optimizations.txt"
_ASSIGNED = ".after_optimizations_after_buffer_assignment.txt"
_REPORT = "-memory-usage-report.txt"
_BUFFERS = "-buffer-assignment.txt"


class Report(NamedTuple):
    """Bytes of the chip's main memory and of its vector memory, None where there is no such."""

    main: int | None = None
    on_chip: int | None = None


def memory_report(dump: Path) -> Report:
    """The compiler's report on its largest module."""
    report = _largest(dump)
    spaces = {} if report is None else _spaces(report)
    return Report(main=spaces.get("default"), on_chip=spaces.get("vmem"))


def is_assigned(dump: Path) -> bool:
    """Whether memory is laid out for each module that the compiler took up, and they fit.

    It may go on with a copy of a module, of another number.
    """
    given = _named(dump, _GIVEN)
    return bool(given) and given <= _named(dump, _ASSIGNED)


def _named(dump: Path, suffix: str) -> Counter[str]:
    """How many modules of each name there is a file of a kind of."""
    names = (path.name.removesuffix(suffix) for path in dump.glob(f"*{suffix}"))
    return Counter(_NUMBER.sub("", name) for name in names)


def assigned(dump: Path) -> tuple[Memory, str]:
    """The memory of the largest module and its HLO; `is_assigned` has to hold.

    The HLO is final but for the code, and has no estimates.
    """
    report = _largest(dump)
    assert report is not None
    name, found = report.name.removesuffix(_REPORT), memory_report(dump)
    argument, output, alias = _boundary((dump / f"{name}{_BUFFERS}").read_text())
    memory = Memory(
        argument=argument,
        output=output,
        temp=(found.main or 0) - argument - output + alias,
        alias=alias,
        main=found.main,
        on_chip=found.on_chip,
    )
    return memory, (dump / f"{name}.txt").read_text()


def _largest(dump: Path) -> Path | None:
    reports = dump.glob(f"*{_REPORT}")
    return max(reports, key=lambda path: sum(_spaces(path).values()), default=None)


def _spaces(report: Path) -> dict[str, int]:
    return {name: int(size) for name, size in _SPACE.findall(report.read_text())}


def _boundary(buffers: str) -> tuple[int, int, int]:
    """Bytes of the arguments, of the results, and of results in arguments, in main memory."""
    argument = output = alias = 0
    for number, kind in _ALLOCATION.findall(buffers):
        size, given, left = int(number), kind.startswith("parameter "), "maybe-live-out" in kind
        argument += size * given
        output += size * left
        alias += size * (given and left)
    return argument, output, alias
