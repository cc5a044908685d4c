"""What is known of a value: when there is all of it, and what a microbatch has of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from toast.microbatch.tree import OpNode


class Dependence(IntEnum):
    """How a value depends on the batch that runs in parts."""

    ZERO = 0
    """Zeros, whatever the batch."""
    FREE = 1
    """The same for all microbatches."""
    CUT = 2
    """A microbatch has its elements of it."""
    SUM = 3
    """The whole is the sum of what the microbatches make."""
    AFTER = 4
    """There is none before all microbatches have run."""


FREE = (Dependence.ZERO, Dependence.FREE)


@dataclass(slots=True, kw_only=True)
class Kinds:
    """The kind of every value; `looped` are free values that only the loop makes.

    `divisible` loops make free values, and can make just the elements of a microbatch of them.
    """

    of: dict[Any, Dependence] = field(default_factory=dict)
    looped: set[Any] = field(default_factory=set)
    divisible: set[OpNode] = field(default_factory=set)

    def clear(self) -> None:
        """Forget all."""
        self.of.clear()
        self.looped.clear()
        self.divisible.clear()

    def is_free(self, value: Any) -> bool:
        """Whether a value is the same for all microbatches."""
        return self.of[value] in FREE
