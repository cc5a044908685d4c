"""Prototypes: what equal ops have in common, kept once.

An op of a program is the number of its prototype and the values that it uses. Names, types and
factors of all ops are looked up for all of them together, when the program is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from toast.analysis.program import Ints
from toast.analysis.rules import Dims, Rule, major
from toast.analysis.types import TensorType

Numbers = dict[Any, int]
"""Numbers of things in the order in which they come up first."""


class Traits(NamedTuple):
    """What the cost model asks of an op besides: see the columns of `Program` of these names."""

    strided: int = 0
    padded: float = 1.0
    splits: int = 0
    placed: int = 0
    transformed: int = 0
    folds: str = ""
    literal: bool = False


_NO_TRAITS = Traits()


class Rows:
    """Numbers in rows of different lengths, one row for each prototype."""

    def __init__(self) -> None:
        self._data: list[int] = []
        self._ends: list[int] = []

    def add(self, row: Sequence[int]) -> None:
        """Append a row."""
        self._data.extend(row)
        self._ends.append(len(self._data))

    @property
    def counts(self) -> Ints:
        """The length of each row."""
        ends = np.array([0, *self._ends], dtype=np.int64)
        return ends[1:] - ends[:-1]

    def read(self, places: Ints) -> Ints:
        """The data at places that `at` gave."""
        return np.array(self._data, dtype=np.int64)[places]

    def at(self, rows: Ints) -> Ints:
        """The places of the data of these rows, one row after another."""
        counts = self.counts
        lengths = counts[rows]
        ends = np.cumsum(lengths)
        starts = np.cumsum(counts) - counts
        places: Ints = np.repeat(starts[rows] - ends + lengths, lengths)
        places += np.arange(len(places))
        return places

    def of(self, rows: Ints) -> Ints:
        """The data of these rows, one row after another."""
        return self.read(self.at(rows))


@dataclass(slots=True, kw_only=True)
class Prototypes:
    """All prototypes, and the numbers of the names, types and shapes that they hold.

    By prototype `name`, `signature`, `strided`, `padded`, `splits`, `placed`, `transformed`,
    `folds` and `literal` (as the columns of `Program`), and if it is `unknown` because nobody had a
    rule. In rows: for each operand how many dimensions it has (`use_ranks`) and the factor of each
    (`use_factor`); for each result its `value_type`, `value_shape` and the factor of each of its
    dimensions (`value_factor`), which have the sizes `value_size`; for each factor `factor_size`,
    `factor_kind`, `factor_halo`. Factors are numbered within their op, -1 where there is none.
    """

    names: Numbers = field(default_factory=dict)
    dtypes: Numbers = field(default_factory=dict)
    shapes: Numbers = field(default_factory=dict)
    signatures: Numbers = field(default_factory=dict)
    contents: Numbers = field(default_factory=dict)
    name: list[int] = field(default_factory=list)
    signature: list[int] = field(default_factory=list)
    strided: list[int] = field(default_factory=list)
    padded: list[float] = field(default_factory=list)
    splits: list[int] = field(default_factory=list)
    placed: list[int] = field(default_factory=list)
    transformed: list[int] = field(default_factory=list)
    folds: list[int] = field(default_factory=list)
    literal: list[bool] = field(default_factory=list)
    unknown: list[bool] = field(default_factory=list)
    use_ranks: Rows = field(default_factory=Rows)
    use_factor: Rows = field(default_factory=Rows)
    value_type: Rows = field(default_factory=Rows)
    value_shape: Rows = field(default_factory=Rows)
    value_factor: Rows = field(default_factory=Rows)
    value_size: Rows = field(default_factory=Rows)
    factor_size: Rows = field(default_factory=Rows)
    factor_kind: Rows = field(default_factory=Rows)
    factor_halo: Rows = field(default_factory=Rows)
    _known: Numbers = field(default_factory=dict)

    def add(
        self,
        name: str,
        rule: Rule,
        results: Sequence[TensorType],
        key: Any,
        halos: tuple[int, ...] | None = None,
        traits: Traits = _NO_TRAITS,
    ) -> int:
        """The number of a prototype, which is made if there is no equal one.

        `key` is equal for equal ops of one name; `halos` has a width for each factor.
        """
        number = self.names.setdefault(name, len(self.names))
        signature = self.signatures.setdefault((name, key), len(self.signatures))
        whole = (signature, rule, halos)
        found = self._known.get(whole)
        if found is not None:
            return found
        self._known[whole] = len(self.name)
        self.name.append(number)
        self.signature.append(signature)
        self.strided.append(traits.strided)
        self.padded.append(traits.padded)
        self.splits.append(traits.splits)
        self.placed.append(traits.placed)
        self.transformed.append(traits.transformed)
        folds = traits.folds
        self.folds.append(self.names.setdefault(folds, len(self.names)) if folds else -1)
        self.literal.append(traits.literal)
        self.unknown.append(not rule.known)
        self._add_tensors(rule, results)
        self.factor_size.add(rule.sizes)
        self.factor_kind.add(rule.kinds)
        self.factor_halo.add(halos or (0,) * len(rule.sizes))
        return self._known[whole]

    def content(self, prototype: int, content: Any) -> int:
        """A number that is equal for ops that make the same of the same operands.

        -1 where `content` is None, which means that nobody knows.
        """
        known = (self.signature[prototype], content)
        number = self.contents.setdefault(known, len(self.contents))
        return number if content is not None else -1

    def _add_tensors(self, rule: Rule, results: Sequence[TensorType]) -> None:
        self.use_ranks.add([len(dims) for dims in rule.operands])
        self.use_factor.add(_factors(rule, rule.operands))
        self.value_type.add(
            [self.dtypes.setdefault(tensor.dtype, len(self.dtypes)) for tensor in results]
        )
        self.value_shape.add(
            [self.shapes.setdefault(tensor.shape, len(self.shapes)) for tensor in results]
        )
        self.value_factor.add(_factors(rule, rule.results))
        self.value_size.add([size for tensor in results for size in tensor.shape])


def _factors(rule: Rule, tensors: Sequence[Dims]) -> list[int]:
    """The factor that each dimension can be split by: its major-most above 1, or -1."""
    return [major(rule.sizes, factors) for dims in tensors for factors in dims]
