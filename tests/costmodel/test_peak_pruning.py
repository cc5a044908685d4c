"""Folded memory rows: the same peak to the last bit in every state, and no more rows for depth."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import gemma
from tests.costmodel.texts import GPU, TPU
from tests.laws.states import every_action
from tests.modules import evaluator_of
from toast.analysis.program import Ints
from toast.costmodel.evaluator import Action, Evaluator, State, measure
from toast.costmodel.kernels.evaluate import Measured
from toast.costmodel.peak_pruning import fold, halfway, peak_events
from toast.costmodel.tables import Tables, new_scratch
from toast.costmodel.terms.journal import AGAIN, BRIEF, LASTING
from toast.costmodel.terms.live_ranges import LiveRangeColumns
from toast.costmodel.terms.sum_buffers import SumColumns
from toast.costmodel.terms.tables import connected

DEVICES = st.sampled_from([TPU, GPU])
PICKS = st.lists(st.integers(0, 10_000), max_size=8).map(tuple)


@cache
def step_of(device: str, layers: int = 4) -> Evaluator:
    """Eight devices on an axis: sums are scattered block by block, and operands kept whole."""
    config = replace(gemma.PRESETS["tiny"], batch=16, layers=layers)
    return evaluator_of(gemma.lower(config).as_text().encode(), "data=2,model=8", device)


@cache
def actions_of(device: str) -> list[Action]:
    return every_action(step_of(device))


def state_of(device: str, picks: tuple[int, ...]) -> State:
    actions = actions_of(device)
    return tuple(actions[pick % len(actions)] for pick in picks)


def priced(tables: Tables, state: State) -> Measured:
    """Seconds, bytes and the key of a state by tables, folded or not."""
    return measure(tables, new_scratch(tables), *columns_of(state))


def columns_of(state: State) -> list[Ints]:
    """A state as kernels take it."""
    names = ("group", "axis", "bits")
    columns = [np.array([getattr(a, name) for a in state], dtype=np.int64) for name in names]
    return [np.array([0, len(state)]), *columns]


def peaks(tables: Tables, state: State) -> list[float]:
    """The most bytes of a state with room, and where all that can be let go of is."""
    scratch = new_scratch(tables)
    measure(tables, scratch, *columns_of(state))
    return scratch.schedule.peaks.tolist()


def sizes(tables: Tables) -> list[int]:
    copies = tables.copies
    columns = (tables.live_ranges.tensor, tables.sums.row, copies.kind, copies.tensor)
    return [len(column) for column in (*columns, tables.schedule.position)]


@given(DEVICES, PICKS)
def test_folded_rows_give_the_same_price(device: str, picks: tuple[int, ...]) -> None:
    evaluator = step_of(device)
    state = state_of(device, picks)
    assert priced(evaluator.folded, state) == priced(evaluator.tables, state)
    assert peaks(evaluator.folded, state) == peaks(evaluator.tables, state)


@pytest.mark.parametrize("device", [TPU, GPU])
def test_deeper_programs_fold_to_as_many_rows(device: str) -> None:
    few, many = step_of(device, 4), step_of(device, 7)
    assert sizes(few.folded) == sizes(many.folded)
    assert all(a < b for a, b in zip(sizes(few.tables), sizes(many.tables), strict=True) if a)


@given(
    live=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 11), st.integers(0, 4)), max_size=9),
    sums=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 11)), max_size=4),
    copies=st.lists(
        st.tuples(st.integers(0, 99), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 4)))),
        max_size=5,
    ),
    times=st.integers(1, 4),
    picks=PICKS,
    chip=st.tuples(
        st.sampled_from([0.0, 2.0**12, 2.0**27]), st.sampled_from([0.0, 1e-6, 1e-5, 1.0])
    ),
)
def test_any_rows_give_the_same_peak(
    live: list[tuple[int, int, int]],
    sums: list[tuple[int, int]],
    copies: list[tuple[int, list[tuple[int, int]]]],
    times: int,
    picks: tuple[int, ...],
    chip: tuple[float, float],
) -> None:
    """Rows at random events, repeated `times` as layers are, each with its successors' memory.

    A chip keeps some of them, and of those that last a part.
    """
    tables = repeated(step_of(TPU).tables, live, sums, copies, times)
    tables = tables._replace(
        chip=tables.chip._replace(on_chip_buffers=chip[0], on_chip_seconds=chip[1])
    )
    state = state_of(TPU, picks)
    assert peaks(fold(tables), state) == peaks(tables, state)


def repeated(
    t: Tables,
    live: list[tuple[int, int, int]],
    sums: list[tuple[int, int]],
    copies: list[tuple[int, list[tuple[int, int]]]],
    times: int,
) -> Tables:
    """Tables with these memory rows in each of `times` periods of 12 events.

    Of buffers every other one lives to the end, as what a backward pass reads does.
    """
    end = 12 * times - 1
    buffers, moments, kinds, spans, counts = [], [], [], [], [0]
    for turn in range(times):
        for tensor, first, length in live:
            at = turn * 12 + first
            buffers.append((tensor, at, end if tensor % 2 else min(at + length, end)))
        moments += [(row % len(t.partial_sums.weight), turn * 12 + at) for row, at in sums]
        for pick, some in copies:
            kind = pick % len(t.copies.kind_source)
            width = int(t.copies.kind_start[kind + 1] - t.copies.kind_start[kind])
            wanted = (some + [(0, 0)] * width)[:width]
            ats = [(turn * 12 + at, min(turn * 12 + at + n, end)) for at, n in wanted]
            tensors = t.copies.kind_tensor[
                t.copies.kind_start[kind] : t.copies.kind_start[kind + 1]
            ].tolist()
            kinds.append(kind)
            spans += [(tensor, *span) for tensor, span in zip(tensors, ats, strict=True)]
            counts.append(counts[-1] + width)
    held, added, copied = (
        np.array(rows, dtype=np.int64).reshape(-1, width).T
        for rows, width in ((buffers, 3), (moments, 2), (spans, 3))
    )
    weights = len(t.partial_sums.weight)
    unsummed = np.where(held[0] % 7 == 2, held[0] % weights, -1)
    mate = np.where((unsummed >= 0) & (unsummed % 3 == 0), (unsummed + 1) % weights, -1)
    ranges = LiveRangeColumns(
        tensor=held[0].copy(),
        first=held[1].copy(),
        last=held[2].copy(),
        width=np.where(held[0] % 3 == 0, 0.5, 1.0),
        part=np.where(held[0] % 8 == 3, 0.5, 1.0),
        lies=held[0] % 3,
        stay=np.array([0, BRIEF, LASTING, AGAIN])[held[0] % 4],
        times=np.ones(len(held[0])),
        unsummed=unsummed,
        mate=mate,
        scattered_mate=np.full(len(held[0]), -1),
        within=np.full(len(held[0]), -1),
    )
    gaps = np.minimum(copied[1:] + np.array([[1], [-1]]), end)
    gaps[:, copied[0] % 2 == 0] = copied[2, copied[0] % 2 == 0] + np.array([[1], [0]])
    many = t.copies._replace(
        kind=np.array(kinds, dtype=np.int64),
        times=np.ones(len(kinds)),
        there=np.array(kinds, dtype=np.int64) % 2 == 0,
        start=np.array(counts, dtype=np.int64),
        tensor=copied[0].copy(),
        first=copied[1].copy(),
        last=copied[2].copy(),
        gap_first=gaps[0],
        gap_last=gaps[1],
        narrow=copied[0] % 3,
    )
    return connected(
        t._replace(
            chip=t.chip._replace(recomputed_piece=2.0**12),
            live_ranges=ranges,
            sums=summed(t, added[0], added[1], end),
            copies=many,
            schedule=t.schedule._replace(position=np.arange(end + 2)),
        )
    )


def summed(t: Tables, rows: Ints, at: Ints, end: int) -> SumColumns:
    """Partial sums of these rows of partials, made at these events."""
    return SumColumns(
        row=rows.copy(),
        mate=np.where(rows % 3 == 0, (rows + 1) % len(t.partial_sums.weight), -1),
        tensor=t.partial_sums.computed[t.partial_sums.result_start[rows]],
        updates=np.where(rows % 3 == 1, 0, -1),
        first=at.copy(),
        last=at.copy(),
        until=np.minimum(at + rows % 5, end),
        scattered_mate=np.where(rows % 4 == 1, rows % len(t.partial_sums.weight), -1),
        wait_first=np.minimum(at + rows % 2, end),
        wait_last=np.minimum(at + rows % 2 + rows % 7, end),
        late_first=np.minimum(at + rows % 6, end),
        late_last=np.full(len(rows), end),
        times=np.ones(len(rows)),
        stored=rows % 2,
    )


def test_what_never_ends_is_counted_at_the_last_event() -> None:
    """Each buffer comes to the others: the only peak is where all are there."""
    tables = repeated(step_of(TPU).tables, [(1, at, 9) for at in range(6)], [], [], 1)
    assert peak_events(tables).tolist() == [11]


def test_the_ends_of_a_line_are_kept_and_what_lies_between_is_not() -> None:
    """Five periods hold one, two and so on buffers of one size while another comes and goes."""
    tables = repeated(step_of(TPU).tables, [(1, 2, 9), (2, 4, 1)], [], [], 5)
    assert peak_events(tables).tolist() == [5, 53, 59]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_halfway_is_what_two_others_mirror_in_both_words(rows: list[tuple[int, int]]) -> None:
    """One word that lies on a line is not enough."""
    alive = np.array(rows, dtype=np.uint64)
    pairs = [(here, other) for here in range(len(rows)) for other in range(len(rows))]
    here, other = np.array(pairs, dtype=np.int64).T
    expected = [
        one
        for one, next_one in pairs
        if 0 <= (mirrored := 2 * one - next_one) < len(rows)
        and all(
            a + b == 2 * c
            for a, b, c in zip(rows[mirrored], rows[next_one], rows[one], strict=True)
        )
        and rows[next_one] != rows[one]
    ]
    assert halfway(alive, here, other).tolist() == expected
