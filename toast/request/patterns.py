"""Arguments by pattern: `params/**/kernel`, `params/**`, a name as it stands, or an index."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache

from toast.analysis.errors import InvalidRequest

MAX_PATTERN = 1000
"""Characters of a pattern; what is longer is a mistake."""
LOOKS = 30_000_000
"""How often the patterns of one request are compared with a name: some minutes."""
NEAR_AMONG = 20_000
"""Names among which one near a pattern is looked for."""
_PARTS = re.compile(r"[^\[\]'\"./]+")
_INDEX = re.compile(
    r"""\[(?:<flat index )?(?P<quote>['"]?)\d+(?P=quote)>?\]"""  # [3], ['3']
    r"""|(?:(?<=[._/])|(?<=layer|block|stage))\d+(?=[._/'"\[\]]|$)""",  # .3, ['block_3'], layer3
    re.IGNORECASE,
)
"""What may be the number of a layer in a path."""
_NUMBER = re.compile(r"\d+")
_FLAT = re.compile(r"<flat index (\d+)>")
"""How JAX writes a step into a node that names none."""


@lru_cache(maxsize=1 << 15)
def path(name: str) -> str:
    """An argument's pytree path with slashes: `params['layers'][0]['w']` is `params/layers/0/w`."""
    return "/".join(_PARTS.findall(_FLAT.sub(r"\1", name)))


class ArgumentNames:
    """The names of a module's arguments, for all the patterns of a request.

    A name as it stands is looked up; a pattern with stars is compared with every name, and all
    patterns together only `LOOKS` times.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._exact: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            self._exact.setdefault(name, []).append(index)
        self._looks = 0

    def matching(self, pattern: str) -> list[int]:
        """The numbers of the arguments that a pattern means; raises `InvalidRequest` for none.

        `*` matches within one step of a path, `**` any number of steps and at the end at least one,
        so `p/**` is all that lies below `p`; a pattern may begin at any step.
        """
        pattern = pattern.strip()
        if len(pattern) > MAX_PATTERN:
            raise InvalidRequest(
                f"The pattern {pattern[:40]!r}... has {len(pattern):,} characters.",
                f"A pattern has at most {MAX_PATTERN:,}.",
            )
        if pattern.isdecimal():
            return [self._numbered(int(pattern))]
        found = self._exact.get(pattern) or self._search(pattern)
        if not found:
            raise InvalidRequest(f"No argument matches {pattern!r}.", self._near(pattern))
        return found

    def _numbered(self, number: int) -> int:
        if number >= len(self._names):
            raise InvalidRequest(
                f"There is no argument {number}.", f"The module has {len(self._names)} arguments."
            )
        return number

    def _search(self, pattern: str) -> list[int]:
        self._looks += len(self._names)
        if self._looks > LOOKS:
            raise InvalidRequest(
                f"So many patterns are too much for {len(self._names):,} arguments.",
                "Give fewer with more stars, or the names as `toast inspect` lists them.",
            )
        return matches(pattern, self._names)

    def _near(self, pattern: str) -> str:
        known = dict.fromkeys(path(unnumbered(name)) for name in self._names[:NEAR_AMONG])
        near = difflib.get_close_matches(path(pattern)[:100], list(known)[:1000], 3, 0.3)
        return f"Near it: {', '.join(near)}." if near else "`toast inspect` lists the arguments."


def matches(pattern: str, names: Sequence[str]) -> list[int]:
    """The numbers of the names that a pattern matches; a name as it stands matches itself alone."""
    exact = [index for index, name in enumerate(names) if name == pattern]
    steps = _steps(path(pattern))
    return exact or [i for i, name in enumerate(names) if _matches(steps, path(name).split("/"))]


def unnumbered(name: str) -> str:
    """A path with all that may be numbers of layers starred, of one layer too."""
    return _INDEX.sub(lambda match: _starred_number(match[0]), name)


def layer_patterns(names: Sequence[str], kinds: Sequence[Hashable]) -> list[str]:
    """Each path with the numbers of repeated layers starred, however a library writes those.

    A number is that of a layer where another path of the same kind (shape and type) has another
    number in its place and is else the same: `Dense_0` and `Dense_1` of one block, which differ in
    shape, are no layers, and the blocks that they are in are. A pattern never stands for paths of
    two kinds: where every second layer is of another shape, all keep their numbers.
    """
    pieces = [_pieces(name) for name in names]
    for place in range(max(map(len, pieces), default=0) - 2, 0, -2):  # the inner numbers first
        alike: dict[Hashable, list[int]] = {}
        for number, (found, kind) in enumerate(zip(pieces, kinds, strict=True)):
            if place < len(found):
                key = (kind, tuple(found[:place]), tuple(found[place + 1 :]))
                alike.setdefault(key, []).append(number)
        for members in alike.values():
            if len({pieces[number][place] for number in members}) > 1:
                for number in members:
                    pieces[number][place] = _starred_number(pieces[number][place])
    patterns = ["".join(found) for found in pieces]
    kinds_of: dict[str, set[Hashable]] = {}
    for pattern, kind in zip(patterns, kinds, strict=True):
        kinds_of.setdefault(pattern, set()).add(kind)
    return [
        pattern if len(kinds_of[pattern]) == 1 else name
        for pattern, name in zip(patterns, names, strict=True)
    ]


def _pieces(name: str) -> list[str]:
    """A path as text, number, text, number, ..., text."""
    found, end = [], 0
    for match in _INDEX.finditer(name):
        found += [name[end : match.start()], match[0]]
        end = match.end()
    return [*found, name[end:]]


def _starred_number(number: str) -> str:
    return "[*]" if number.startswith("[") else "*"


def starred(names: Sequence[str], *, listed: bool = False) -> str:
    """Names of one pattern as one: a number that they share stays, one that varies is starred.

    With `listed`, the numbers that vary are listed instead: `['layers'][0,2-5]['gate']`.
    """
    columns = list(zip(*(_pieces(name)[1::2] for name in names), strict=True))
    place = iter(columns)

    def replaced(match: re.Match[str]) -> str:
        column = next(place)
        if len(set(column)) == 1:
            return match[0]
        text = _ranges({int(_NUMBER.findall(item)[0]) for item in column}) if listed else "*"
        return f"[{text}]" if match[0].startswith("[") else text

    return _INDEX.sub(replaced, names[0])


def _ranges(numbers: set[int]) -> str:
    """`{0, 2, 3, 4}` as `0,2-4`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in runs)


def _steps(pattern: str) -> list[str]:
    """The steps of a pattern that may begin anywhere; a last `**` takes at least one step."""
    steps = ["**", *pattern.split("/")]
    if steps[-1] == "**":
        steps.append("*")
    return steps


def _matches(pattern: Sequence[str], steps: Sequence[str]) -> bool:
    """Whether the steps of a path are those of a pattern, where `**` is any number of them."""
    return _wild(pattern, steps, "**", _step_matches)


def _step_matches(pattern: str, step: str) -> bool:
    """Whether one step is as one of a pattern, where `*` is any number of characters."""
    if "*" not in pattern:
        return pattern == step
    return _wild(pattern, step, "*", str.__eq__)


def _wild(
    pattern: Sequence[str], items: Sequence[str], star: str, same: Callable[[str, str], bool]
) -> bool:
    """Whether `items` are as `pattern`, in which a star stands for any number of items.

    Only the last star ever takes one item more: an earlier one could give nothing new. So this
    takes at most as many comparisons as the pattern has items for each of the path.
    """
    at = item = 0
    resume: tuple[int, int] | None = None
    while item < len(items):
        if at < len(pattern) and pattern[at] == star:
            resume = (at + 1, item)
            at += 1
        elif at < len(pattern) and same(pattern[at], items[item]):
            at, item = at + 1, item + 1
        elif resume is not None:
            resume = (resume[0], resume[1] + 1)
            at, item = resume
        else:
            return False
    return all(rest == star for rest in pattern[at:])
