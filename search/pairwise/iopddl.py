"""The format of the ASPLOS'25 / EuroSys'25 contest: problems in, solutions out.

`{"problem": {"name", "nodes": {"intervals", "costs", "usages"}, "edges": {"nodes", "costs"},
"usage_limit"}}`, as text or compressed with gzip. Intervals are half open; the cells of an edge are
row-major. A solution is a list of strategy numbers, one per node.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from toast.analysis.errors import InvalidRequest
from toast.analysis.gc_pause import collector_paused
from toast.search.pairwise.instance import FORBIDDEN, Instance, Piece
from toast.search.pairwise.number_kernels import read_rows

_HINT = "The format is described at https://github.com/google/iopddl."
_GZIP = b"\x1f\x8b"


def read(path: Path) -> Instance:
    """The problem in a file; raises InvalidRequest where it is not one."""
    return parse(path.read_bytes(), path.name)


def parse(data: bytes, name: str = "The problem") -> Instance:
    """The problem in the bytes of a file."""
    try:
        text = gzip.decompress(data) if data.startswith(_GZIP) else data
        with collector_paused():
            document = _load(text)
    except (OSError, EOFError, ValueError) as error:
        raise InvalidRequest(f"{name} is not JSON: {error}.", _HINT) from error
    with collector_paused():
        return _ContestReader(name).instance(document)


def _load(text: bytes) -> Any:
    """The document; its lists of lists of whole numbers, which are nearly all of it, as arrays."""
    signs = np.frombuffer(text, dtype=np.uint8)
    numbers, got = np.zeros(text.count(b",") + 1), np.zeros(2, dtype=np.int64)
    ends = np.zeros(text.count(b"]") + 1, dtype=np.int64)
    left: list[bytes] = []
    tables: list[list[Any]] = []
    done = 0
    while (begin := text.find(b"[[", done)) >= 0:
        end = read_rows(signs, begin, numbers, ends, got)
        if end < 0:
            return json.loads(text)
        found = numbers[: got[0]].copy()
        bounds = [0, *ends[: got[1]].tolist()]
        left += [text[done:begin], b'{"rows": %d}' % len(tables)]
        tables.append([found[a:b] for a, b in pairwise(bounds)])
        done = end

    def filled(record: dict[str, Any]) -> Any:
        return tables[record["rows"]] if list(record) == ["rows"] else record

    try:
        return json.loads(b"".join([*left, text[done:]]), object_hook=filled)
    except (ValueError, LookupError, TypeError):
        return json.loads(text)


def write(choice: Sequence[int], path: Path) -> None:
    """Write a solution as the contest wants it."""
    path.write_text(json.dumps([int(pick) for pick in choice]) + "\n")


def read_solution(path: Path) -> list[int]:
    """A solution from a file; raises InvalidRequest where it is no list of numbers."""
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise InvalidRequest(f"{path.name} is not JSON: {error}.", _HINT) from error
    if not isinstance(found, list) or not all(type(pick) is int for pick in found):
        raise InvalidRequest(f"{path.name} is not a list of whole numbers.", _HINT)
    return found


class _ContestReader:
    def __init__(self, name: str) -> None:
        self._name = name

    def instance(self, document: Any) -> Instance:
        problem = self._field(document, "problem", dict)
        nodes = self._field(problem, "nodes", dict)
        edges = self._field(problem, "edges", dict)
        costs = [self._numbers(row, "nodes.costs") for row in self._field(nodes, "costs", list)]
        limit = problem.get("usage_limit", np.inf)
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            raise self._wrong(f"usage_limit is {limit!r}")
        pairs = self._pairs(self._field(edges, "nodes", list), len(costs))
        return _without_loops(
            costs,
            self._pieces(nodes, costs),
            pairs,
            self._tables(self._field(edges, "costs", list), pairs, costs),
            float(limit),
        )

    def _pieces(self, nodes: dict[str, Any], costs: list[Any]) -> list[tuple[Piece, ...]]:
        spans = self._field(nodes, "intervals", list)
        usages = self._field(nodes, "usages", list)
        if not len(spans) == len(usages) == len(costs):
            raise self._wrong(
                f"there are {len(spans)} intervals, {len(costs)} costs and {len(usages)} usages"
            )
        found: list[tuple[Piece, ...]] = []
        for node, (span, row, values) in enumerate(zip(spans, usages, costs, strict=True)):
            usage = self._numbers(row, "nodes.usages")
            if not len(usage) == len(values) >= 1:
                raise self._wrong(f"node {node} has {len(values)} costs and {len(usage)} usages")
            low, high = self._pair(span, "interval", node)
            if low > high:
                raise self._wrong(f"the interval of node {node} ends before it begins")
            alive = low < high and bool(usage.any())
            found.append((Piece(low=low, high=high, usage=usage),) if alive else ())
        return found

    def _pairs(self, rows: list[Any], count: int) -> list[tuple[int, int]]:
        pairs = []
        for number, row in enumerate(rows):
            a, b = self._pair(row, "edge", number)
            if not (0 <= a < count and 0 <= b < count):
                raise self._wrong(f"edge {number} joins {a} and {b}, and there are {count} nodes")
            pairs.append((a, b))
        return pairs

    def _tables(self, rows: list[Any], pairs: list[tuple[int, int]], costs: list[Any]) -> list[Any]:
        if len(rows) != len(pairs):
            raise self._wrong(f"there are {len(pairs)} edges and {len(rows)} rows of edge costs")
        tables = []
        for number, (row, (a, b)) in enumerate(zip(rows, pairs, strict=True)):
            cells = self._numbers(row, "edges.costs")
            shape = (len(costs[a]), len(costs[b]))
            if cells.size != shape[0] * shape[1]:
                raise self._wrong(f"edge {number} has {cells.size} costs in place of {shape}")
            tables.append(cells.reshape(shape))
        return tables

    def _pair(self, row: Any, what: str, number: int) -> tuple[int, int]:
        if isinstance(row, np.ndarray):
            row = row.astype(np.int64).tolist()
        if not isinstance(row, list) or len(row) != 2 or not all(type(n) is int for n in row):
            raise self._wrong(f"{what} {number} is {row!r} and not two whole numbers")
        return row[0], row[1]

    def _numbers(self, row: Any, field: str) -> Any:
        try:
            numbers = np.asarray(row, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._wrong(f"{field} holds something else than numbers") from None
        if numbers.ndim != 1 or not np.isfinite(numbers).all() or (numbers < 0).any():
            raise self._wrong(f"{field} must hold lists of numbers that are 0 or more")
        numbers[numbers >= FORBIDDEN] = np.inf
        return numbers

    def _field(self, record: Any, key: str, kind: type) -> Any:
        if not isinstance(record, dict) or not isinstance(record.get(key), kind):
            raise self._wrong(f"there is no {kind.__name__} named {key!r}")
        return record[key]

    def _wrong(self, problem: str) -> InvalidRequest:
        return InvalidRequest(f"{self._name} is not a contest problem: {problem}.", _HINT)


def _without_loops(
    costs: list[Any],
    pieces: list[tuple[Piece, ...]],
    pairs: list[tuple[int, int]],
    tables: list[Any],
    limit: float,
) -> Instance:
    """An edge from a node to itself is a cost of that node."""
    kept = []
    for (a, b), table in zip(pairs, tables, strict=True):
        if a == b:
            costs[a] = costs[a] + np.diagonal(table)
        else:
            kept.append(((a, b), table))
    return Instance(
        costs=tuple(costs),
        pieces=tuple(pieces),
        edges=tuple(pair for pair, _ in kept),
        tables=tuple(table for _, table in kept),
        limit=limit,
    )
