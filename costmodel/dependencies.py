"""Which rows of the tables depend on which units, so that a change of layout re-prices only those.

Rows of all tables have one numbering, *terms*: those of the first table, then of the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from toast.analysis.program import Ints

ROOTS, PARTIALS, EDGES, HALOS, LIVES, KINDS, SUMS = range(7)

Columns = dict[str, Any]


def dependency_columns(columns: Columns) -> Columns:
    """Columns of `Tables` from those of the tables and layouts.

    `term_first[table]`; the terms of each unit (`unit_term`) and its tensors (`unit_tensor`).
    """
    units = len(columns["unit_start"]) - 1
    item_unit = np.repeat(np.arange(units), np.diff(columns["unit_start"]))
    tensor_unit = _tensor_units(columns, item_unit)
    tables = _tables(columns, item_unit, tensor_unit)
    first = np.concatenate([[0], np.cumsum([rows for rows, _ in tables])])
    pairs = np.concatenate(
        [found + np.array([start, 0]) for start, (_, found) in zip(first, tables, strict=False)]
    )
    tensors = np.stack([np.arange(len(tensor_unit)), tensor_unit], axis=1)
    unit_term_start, unit_term = _by_unit(pairs, units)
    unit_tensor_start, unit_tensor = _by_unit(tensors, units)
    return {
        "term_first": first.astype(np.int64),
        "unit_term_start": unit_term_start,
        "unit_term": unit_term,
        "unit_tensor_start": unit_tensor_start,
        "unit_tensor": unit_tensor,
    }


def _tables(c: Columns, item_unit: Ints, tensor_unit: Ints) -> list[tuple[int, Ints]]:
    """For each table how many rows it has, and its pairs (row, unit); unit -1 is none."""
    cut = c["part_cut"]
    partials = _pairs(
        (np.arange(len(cut)), np.where(cut >= 0, tensor_unit[cut], -1)),
        (_rows(c["part_item_start"]), item_unit[c["part_item"]]),
        (_rows(c["part_result_start"]), tensor_unit[c["part_computed"]]),
        (_rows(c["part_result_start"]), tensor_unit[c["part_defined"]]),
    )
    edge_rows, kind_rows = _rows(c["edge_to_start"]), _rows(c["kind_start"])
    numbered = [np.arange(len(c[name])) for name in _SINGLE]
    edge, halo, live, kind, added = numbered
    edges = _pairs((edge, tensor_unit[c["edge_from"]]), (edge_rows, tensor_unit[c["edge_to"]]))
    return [
        (len(c["root_weight"]), _of_roots(c, tensor_unit)),
        (
            len(c["part_weight"]),
            np.concatenate([partials, _through(c["part_before"], partials)]),
        ),
        (len(edge), edges),
        (
            len(halo),
            _pairs((halo, item_unit[c["halo_item"]]), (halo, tensor_unit[c["halo_tensor"]])),
        ),
        (len(live), _of_live(c, partials, tensor_unit)),
        (
            len(kind),
            _pairs(
                (kind, tensor_unit[c["kind_source"]]), (kind_rows, tensor_unit[c["kind_tensor"]])
            ),
        ),
        (len(added), _summed(c["sum_row"], c["sum_tensor"], partials, tensor_unit)),
    ]


def _of_live(c: Columns, partials: Ints, tensor_unit: Ints) -> Ints:
    """The pairs of buffers; of what waits also those of the gradient and what it is made of."""
    guards = np.arange(len(c["guard_row"]))
    waiting = np.concatenate(
        [
            _pairs(
                (guards, tensor_unit[c["guard_tensor"]]),
                (_rows(c["guard_start"]), tensor_unit[c["guard_kept"]]),
            ),
            _through(c["guard_row"], partials),
        ]
    )
    own = _pairs((np.arange(len(c["live_tensor"])), tensor_unit[c["live_tensor"]]))
    guard = np.where(c["live_guard"] >= 0, c["live_guard"] // 2, -1)
    return np.concatenate([own, _through(guard, waiting)])


def _of_roots(c: Columns, tensor_unit: Ints) -> Ints:
    """The pairs of the kernels of computation: what they read, write and multiply."""
    dots = _rows(c["root_dot_start"])
    return _pairs(
        (_rows(c["root_tensor_start"]), tensor_unit[c["root_tensor"]]),
        (_rows(c["root_tensor_start"]), tensor_unit[c["root_whole"]]),
        (_beside_rows(c), tensor_unit[c["beside_tensor"]]),
        (_rows(c["root_copied_start"]), tensor_unit[c["root_copied"]]),
        (_rows(c["root_spread_start"]), tensor_unit[c["spread_tensor"]]),
        (dots, c["dot_unit"]),
        (dots, tensor_unit[c["dot_sums"]]),
        (np.repeat(dots, 4), tensor_unit[c["dot_operand"].ravel()]),
    )


_SINGLE = ("edge_weight", "halo_weight", "live_tensor", "kind_source", "sum_row")


def _tensor_units(columns: Columns, item_unit: Ints) -> Ints:
    """The unit whose items a tensor's dimensions take their axes from; -1 where there is none."""
    found = np.full(len(columns["tensor_itemsize"]), -1, dtype=np.int64)
    items = columns["dim_item"]
    laid = items >= 0
    found[_rows(columns["tensor_start"])[laid]] = item_unit[items[laid]]
    return found


def _rows(starts: Ints) -> Ints:
    """The row of each entry of a flat column with these starts."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _beside_rows(c: Columns) -> Ints:
    """The root of each tensor that a reduction beside a product may read."""
    return _rows(c["root_beside_start"])[_rows(c["beside_start"])]


def _pairs(*columns: tuple[Ints, Ints]) -> Ints:
    return np.concatenate([np.stack(column, axis=1) for column in columns]).astype(np.int64)


def _summed(rows: Ints, tensors: Ints, partials: Ints, tensor_unit: Ints) -> Ints:
    """Pairs of memory that is held where a row of partials has sums."""
    own = np.stack([np.arange(len(rows)), tensor_unit[tensors]], axis=1)
    return np.concatenate([own, _through(rows, partials)])


def _through(others: Ints, pairs: Ints) -> Ints:
    """The pairs of the row that each row looks at, as its own; -1 looks at none."""
    order = np.argsort(pairs[:, 0], kind="stable")
    bounds = np.searchsorted(pairs[order, 0], [others, others + 1])
    counts = np.where(others >= 0, bounds[1] - bounds[0], 0)
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    entries = order[np.repeat(bounds[0], counts) + offsets]
    return np.stack([np.repeat(np.arange(len(others)), counts), pairs[entries, 1]], axis=1)


def _by_unit(pairs: Ints, units: int) -> tuple[Ints, Ints]:
    """(starts, numbers): for each unit the numbers that are paired with it, each once."""
    width = int(pairs[:, 0].max(initial=0)) + 1
    kept = pairs[pairs[:, 1] >= 0]
    of, numbers = np.divmod(np.unique(kept[:, 1] * width + kept[:, 0]), width)
    return np.searchsorted(of, np.arange(units + 1)).astype(np.int64), numbers
