"""The body of a function as arrays that are copied wherever the function is called.

A template numbers ops and values from 0. What it takes from its caller it writes as numbers below
0: `passed(i)` is the i-th argument. A call puts a copy of the callee's template among the ops of
the caller: its numbers are moved by where the copy begins, and what is passed is put in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toast.analysis.facts import Sharding
from toast.analysis.program import Floats

Small = NDArray[np.int32]

VARIES = 0
"""The constancy of a value that holds more than constants; one that is constant where an argument
is has the constancy `passed(i)`."""
CONSTANT = 1
"""The constancy of a value that holds no more than constants."""

Place = tuple[Any, int]
"""A location, and the number of the place of the call that it is within, -1 for none."""


def passed(index: Any) -> Any:
    """How a template writes what it is passed as an argument."""
    return -1 - index


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The ops of a function's body, those of its callees in place.

    By op `prototype`, `content`, `place` (among `places`) and `trips` for each run of the body; by
    use its `source`; by value its `constancy`. `links` [n, 2] are pairs of ops whose factors are
    joined, `shardings` those that the module states of ops. `results` are the values returned.
    `asked` are the answers about arguments that the body depends on: other answers make another
    template.
    """

    prototype: Small
    content: Small
    place: Small
    trips: Floats
    source: Small
    constancy: Small
    links: Small
    places: tuple[Place, ...]
    shardings: tuple[tuple[int, Sharding], ...]
    warnings: tuple[str, ...]
    results: tuple[int, ...]
    asked: dict[int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A call: the template, and where its copy begins among all ops and values.

    `op`, `use`, `value` and `link` say how many of its own the caller had by then. The call passes
    `operands` of these kinds of `constancy`; `places` begin at `place` among those of all copies.
    """

    template: Template
    first_op: int
    first_value: int
    op: int
    use: int
    value: int
    link: int
    operands: Sequence[int]
    constancy: Sequence[int]
    place: int
    trips: float


@dataclass(slots=True)
class TemplateBuilder:
    """Collects the ops of a body in program order; `ops` and `values` count those of copies too."""

    ops: int = 0
    values: int = 0
    warnings: list[str] = field(default_factory=list)
    shardings: list[tuple[int, Sharding]] = field(default_factory=list)
    _prototype: list[int] = field(default_factory=list)
    _content: list[int] = field(default_factory=list)
    _place: list[int] = field(default_factory=list)
    _trips: list[float] = field(default_factory=list)
    _source: list[int] = field(default_factory=list)
    _constancy: list[int] = field(default_factory=list)
    _links: list[tuple[int, int]] = field(default_factory=list)
    _copies: list[_Copy] = field(default_factory=list)
    _known: dict[int, int] = field(default_factory=dict)
    _places: dict[Place, int] = field(default_factory=dict)
    _copied_places: list[int] = field(default_factory=list)
    _copied_from: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(
        self,
        read: tuple[int, int],
        location: Any,
        trips: float,
        operands: Sequence[int],
        results: int,
        constancy: int,
    ) -> int:
        """Append one op, `read` as a prototype and a content, that defines so many `results`.

        Returns its number.
        """
        self._prototype.append(read[0])
        self._content.append(read[1])
        self._place.append(self._placed((location, -1)))
        self._trips.append(trips)
        self._source.extend(operands)
        self._constancy.extend([constancy] * results)
        if constancy != VARIES:
            self._known.update(dict.fromkeys(range(self.values, self.values + results), constancy))
        self.values += results
        self.ops += 1
        return self.ops - 1

    def constancy(self, value: int) -> int:
        """The constancy of a value added before, or of an argument."""
        return value if value < 0 else self._known.get(value, VARIES)

    def link(self, op: int, other: int) -> None:
        """Join the factors of two ops one by one: the same tensors seen at two places."""
        self._links.append((op, other))

    def call(
        self, template: Template, operands: Sequence[int], location: Any, trips: float
    ) -> list[int]:
        """Append a copy of a template; returns the values that the call results in."""
        copy = _Copy(
            template=template,
            first_op=self.ops,
            first_value=self.values,
            op=len(self._prototype),
            use=len(self._source),
            value=len(self._constancy),
            link=len(self._links),
            operands=operands,
            constancy=[self.constancy(value) for value in operands],
            place=self._copy_places(template, self._placed((location, -1))),
            trips=trips,
        )
        self._copies.append(copy)
        self.warnings.extend(template.warnings)
        self.shardings.extend((self.ops + op, stated) for op, stated in template.shardings)
        self.ops += len(template.prototype)
        self.values += len(template.constancy)
        return [self._returned(copy, value) for value in template.results]

    def _returned(self, copy: _Copy, value: int) -> int:
        """The caller's number of a value of a copy; its constancy is noted."""
        if value < 0:
            return copy.operands[passed(value)]
        constancy = int(copy.template.constancy[value])
        if constancy < 0:
            constancy = copy.constancy[passed(constancy)]
        if constancy != VARIES:
            self._known[copy.first_value + value] = constancy
        return copy.first_value + value

    def _placed(self, place: Place) -> int:
        return self._places.setdefault(place, len(self._places))

    def _copy_places(self, template: Template, call: int) -> int:
        """Where the places of a copy begin among those of all copies, equal ones made once."""
        key = (id(template), call)
        if key not in self._copied_from:
            self._copied_from[key] = len(self._copied_places)
            made: list[int] = []
            for location, outer in template.places:
                made.append(self._placed((location, call if outer < 0 else made[outer])))
            self._copied_places.extend(made)
        return self._copied_from[key]

    def build(self, results: Sequence[int], asked: dict[int, int | None]) -> Template:
        """The finished template."""
        copies, templates = self._copies, [copy.template for copy in self._copies]
        passed_on = _Lists([copy.operands for copy in copies])

        ops = _Mixed(
            [copy.op for copy in copies],
            [each.prototype for each in templates],
            len(self._prototype),
        )
        place = ops.join(_small(self._place), [each.place for each in templates])
        starts = np.array([copy.place for copy in copies], dtype=np.int64)
        ops.replace(place, place >= 0, place, starts, np.array(self._copied_places, dtype=np.int32))
        trips = ops.join(np.array(self._trips, np.float64), [each.trips for each in templates])
        trips *= ops.spread([copy.trips for copy in copies], 1.0)

        uses = _Mixed(
            [copy.use for copy in copies], [each.source for each in templates], len(self._source)
        )
        source = uses.join(_small(self._source), [each.source for each in templates])
        given = source < 0
        source += np.where(given, 0, uses.spread([copy.first_value for copy in copies], 0))
        uses.replace(source, given, passed(source), passed_on.starts, passed_on.numbers)

        values = _Mixed(
            [copy.value for copy in copies],
            [each.constancy for each in templates],
            len(self._constancy),
        )
        constancy = values.join(_small(self._constancy), [each.constancy for each in templates])
        known = _Lists([copy.constancy for copy in copies])
        values.replace(constancy, constancy < 0, passed(constancy), known.starts, known.numbers)

        pairs = _Mixed(
            [copy.link for copy in copies], [each.links for each in templates], len(self._links)
        )
        links = pairs.join(_small(self._links).reshape(-1, 2), [each.links for each in templates])
        links += pairs.spread([copy.first_op for copy in copies], 0)[:, None]

        return Template(
            prototype=ops.join(_small(self._prototype), [each.prototype for each in templates]),
            content=ops.join(_small(self._content), [each.content for each in templates]),
            place=place,
            trips=trips,
            source=source,
            constancy=constancy,
            links=links,
            places=tuple(self._places),
            shardings=tuple(self.shardings),
            warnings=tuple(self.warnings),
            results=tuple(results),
            asked=asked,
        )


class _Mixed:
    """Rows of a body's own with those of copies among them.

    `begins` says how many of its own come before each copy, `parts` are the rows of the copies.
    """

    def __init__(self, begins: Sequence[int], parts: Sequence[NDArray[Any]], own: int) -> None:
        cuts = [0, *begins, own]
        lengths = np.zeros(2 * len(parts) + 1, dtype=np.int64)
        lengths[::2] = np.diff(cuts)
        lengths[1::2] = [len(part) for part in parts]
        numbers = np.full(len(lengths), -1, dtype=np.int32)
        numbers[1::2] = np.arange(len(parts))
        self._cuts = cuts
        self._copy = np.repeat(numbers, lengths)
        """By row the number of the copy that it is of, -1 for the body's own."""

    def join(self, own: NDArray[Any], parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """All rows, in order; an array that nobody else holds."""
        pieces = [own[: self._cuts[1]]]
        for part, begin, end in zip(parts, self._cuts[1:], self._cuts[2:], strict=False):
            pieces += (part, own[begin:end])
        return np.concatenate(pieces)

    def spread(self, of_copies: Sequence[float], otherwise: float) -> NDArray[Any]:
        """By row what its copy has; `otherwise` for the body's own."""
        return np.array([*of_copies, otherwise])[self._copy]

    def replace(
        self,
        rows: NDArray[Any],
        wanted: NDArray[np.bool_],
        index: NDArray[Any],
        starts: NDArray[np.int64],
        table: Small,
    ) -> None:
        """Replace the `wanted` rows of copies.

        In their place comes what `table` has at `index` from the start of their copy on.
        """
        found = np.flatnonzero(wanted & (self._copy >= 0))
        rows[found] = table[starts[self._copy[found]] + index[found]]


class _Lists:
    """Lists of numbers one after another, and where each starts."""

    def __init__(self, lists: Sequence[Sequence[int]]) -> None:
        lengths = np.array([len(one) for one in lists], dtype=np.int64)
        self.starts = np.cumsum(lengths) - lengths
        self.numbers = _small([number for one in lists for number in one])


def _small(numbers: Sequence[Any]) -> Small:
    return np.array(numbers, dtype=np.int32)
