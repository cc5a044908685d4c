"""All rows of a program, made once: the tables are their columns, explanations ask what is behind.

Nothing here depends on a mesh beyond its layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from toast.analysis.program import Ints, Program
from toast.costmodel.hardware.devices import Device
from toast.costmodel.passes.algebraic_simplifier import parts
from toast.costmodel.passes.buffer_assignment import Buffered, buffer_ranges, positions_of_ops
from toast.costmodel.passes.cse import merge_identical_ops
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.layout_assignment import OtherLayouts, assign_layouts
from toast.costmodel.passes.row_layouts import RowLayouts, row_layouts
from toast.costmodel.passes.scatter_fusion import added_inside
from toast.costmodel.program.buffers import reusing_results
from toast.costmodel.program.contractions import contraction_seconds
from toast.costmodel.program.sharding_units import Layouts
from toast.costmodel.terms.reshards import Edges, Widths, edges
from toast.costmodel.terms.schedule import Schedule, schedule_of

if TYPE_CHECKING:
    from toast.costmodel.terms.manual_computations import RegionCost
    from toast.costmodel.terms.term import Term

R = TypeVar("R")
_FOR_ROWS = (
    "seconds",
    "widths",
    "_equal",
    "first_op",
    "buffers",
    "positions",
    "other_layouts",
    "row_layouts",
    "within",
)
_FOR_COLUMNS = ("copies",)
"""Terms whose rows nothing asks for once the columns are made of them."""


class Listing:
    """The rows of all terms, and what several of them are made of; each is made when asked for."""

    def __init__(
        self,
        program: Program,
        layouts: Layouts,
        fusion: Fusion,
        device: Device,
        terms: Sequence[Term[Any, Any]],
        regions: Sequence[RegionCost] = (),
    ) -> None:
        self.program = program
        self.layouts = layouts
        self.fusion = fusion
        self.device = device
        self.regions = regions
        self._terms = terms
        self._rows: dict[str, Any] = {}

    def of(self, term: Term[R, Any]) -> R:
        """The rows of a term."""
        if term.name not in self._rows:
            self._rows[term.name] = term.list_rows(self)
        rows: R = self._rows[term.name]
        return rows

    def release(self) -> None:
        """Let go of what only tables are made of; it is made again if it is asked for again."""
        for name in _FOR_ROWS:
            self.__dict__.pop(name, None)
        for name in _FOR_COLUMNS:
            self._rows.pop(name, None)

    @cached_property
    def seconds(self) -> dict[int, float]:
        """What each contraction takes on one device, as far as it is made."""
        seconds = contraction_seconds(self.program, self.device)
        return seconds | {
            op: part * seconds[op] for op, part in parts(self.program, self.fusion.cut).items()
        }

    @cached_property
    def wanted(self) -> Edges:
        """What the uses of values want."""
        return edges(self.program, self.layouts)

    @cached_property
    def widths(self) -> Widths:
        """In what width values travel to what is wanted."""
        return Widths(
            self.program, self.fusion.flow, self.wanted, self.fusion.profile.bf16_narrowing
        )

    @cached_property
    def sent(self) -> Edges:
        """What is wanted of values and of all that are equal to them, which is sent once."""
        return edges(self.program, self.layouts, self._equal[0])

    @cached_property
    def _equal(self) -> tuple[Ints, Ints]:
        return merge_identical_ops(self.program, self.layouts, self.fusion.profile.cse)

    @cached_property
    def first_op(self) -> Ints:
        """By op the first that is equal to it, as in `cse`."""
        return self._equal[1]

    @cached_property
    def other_layouts(self) -> OtherLayouts:
        """What lies otherwise in memory than it is made."""
        return assign_layouts(self.program, self.fusion)

    @cached_property
    def row_layouts(self) -> RowLayouts:
        """What lies row by row, and is copied to lie so."""
        return row_layouts(self.program, self.fusion)

    @cached_property
    def within(self) -> Ints:
        """For each value the sum of rows inside which it may be made, or -1."""
        return added_inside(self.program, self.fusion, self.device.tile[1])

    @cached_property
    def reused(self) -> dict[int, int]:
        """Results that take over the buffers of arguments."""
        return reusing_results(self.program)

    @cached_property
    def buffers(self) -> Buffered:
        """The live ranges of buffers."""
        return buffer_ranges(
            self.program,
            self.layouts,
            self.fusion,
            self.reused,
            self.other_layouts,
            self.row_layouts,
            self.within,
        )

    @cached_property
    def positions(self) -> tuple[Ints, Ints]:
        """By op the first and the last position of the fusions that compute it."""
        return positions_of_ops(self.program, self.fusion, self.fusion.position)

    @cached_property
    def schedule(self) -> Schedule:
        """The events at which something of any term begins to be alive."""
        begins = [term.begins(self.of(term)) for term in self._terms if term.begins is not None]
        return schedule_of(begins, self.program.ops + 1)
