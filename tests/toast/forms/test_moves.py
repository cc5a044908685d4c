"""Every move of a matrix over three axes: written as it is priced, and right."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from benchmarks.probes.reshards import Layout
from tests.laws.test_ways import moves
from tests.moves import SMALL, move
from tests.toast.forms.lowered import lower, run
from toast.analysis.load import load
from toast.costmodel.terms.journal import CollectiveReason

IN_ORDER = [
    (have, want)
    for have, want in moves()
    if all(list(axes) == sorted(axes) for axes in (*have, *want))
]
"""As colours have them: the axes of a dimension in one order wherever they are."""
GIVEN = np.arange(128, dtype=np.float32).reshape(8, 16)


def kinds(found: Counter[tuple[str, tuple[str, ...]]]) -> Counter[str]:
    counts = Counter[str]()
    for (kind, _), count in found.items():
        counts[kind] += count
    return counts


def check_count(have: Layout, want: Layout) -> None:
    resolved = move(have, want, "cpu", SMALL)
    found = lower(load(SMALL.encode()), resolved, "local")
    reasons = [one.reason for one in resolved.collectives]
    if CollectiveReason.REORDERED not in reasons:  # as only pinned layouts have it here
        assert kinds(found.written) == kinds(found.priced), (have, want)


def test_moves_are_written_as_they_are_priced() -> None:
    for have, want in IN_ORDER[::4]:
        check_count(have, want)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_every_move_is_written_as_it_is_priced() -> None:
    for have, want in IN_ORDER:
        check_count(have, want)


@pytest.mark.parametrize("form", ["local", "collectives"])
def test_moves_bring_every_device_what_it_is_to_hold(form: str) -> None:
    for have, want in IN_ORDER[1::12]:
        check(have, want, form)


def check(have: Layout, want: Layout, form: str) -> None:
    found = lower(load(SMALL.encode()), move(have, want, "cpu", SMALL), form)
    assert np.array_equal(run(found, [GIVEN])[0], GIVEN), (have, want, form)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_every_move_brings_every_device_what_it_is_to_hold() -> None:
    for (have, want), form in product(moves(), ("local", "collectives")):
        check(have, want, form)
