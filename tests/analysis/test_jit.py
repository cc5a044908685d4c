"""Kernels are compiled once for each set of types, and as part of what Python calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numba import njit

from toast.analysis.jit import counted, entry, inner
from toast.analysis.program import Ints


@pytest.fixture(autouse=True)
def _cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test compiles its kernels."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))


@inner
def _lowest(number: int, factor: int) -> int:
    return number * factor


@inner
def _middle(number: int) -> int:
    return _lowest(number, 2) + _lowest(number, number) + _lowest(3, number)


def _run(numbers: Ints) -> int:
    total = 0
    for number in numbers:
        total += _middle(number)
    return total


def test_one_version_serves_known_and_unknown_numbers() -> None:
    assert entry(_run)(np.arange(4)) == sum(2 * n + n * n + 3 * n for n in range(4))
    assert len(_lowest.overloads) == 1  # type: ignore[attr-defined]


def test_what_numba_compiles_by_itself_may_call_kernels() -> None:
    assert njit(_run)(np.arange(4)) == entry(_run)(np.arange(4))


def test_a_kernel_may_call_an_entry() -> None:
    below = entry(_run)

    @entry
    def above(numbers: Ints) -> int:
        return below(numbers) + below(numbers[1:])

    assert above(np.arange(3)) == 2 * below(np.arange(3))


def test_what_is_kept_gives_what_was_compiled(tmp_path: Path) -> None:
    first = entry(_run)(np.arange(5))
    assert len(list(tmp_path.rglob("*.kernel"))) == 1
    again = entry(_run)
    assert again(np.arange(5)) == first
    assert again.stats.cache_hits


def test_an_error_in_a_kernel_is_one_in_python() -> None:
    @inner
    def divide(one: int, other: int) -> int:
        return one // other

    @entry
    def share(one: int, other: int) -> int:
        return divide(one, other)

    assert share(7, 2) == 3
    with pytest.raises(ZeroDivisionError):
        share(7, 0)


def test_the_share_that_is_compiled_grows() -> None:
    @inner
    def below(number: int) -> int:
        return number + 1

    @entry
    def above(number: int) -> int:
        return below(number)

    told: list[float] = []
    with counted(told.append):
        assert above(1) == 2
        assert above(2) == 3
    assert len(told) == 2
    assert 0.0 <= told[0] < told[1] <= 1.0
    above(1)


@pytest.mark.parametrize("torn", [b"", b"half of a", b"cno.such.module\nName\n."])
def test_a_kept_kernel_that_cannot_be_read_is_compiled_anew(tmp_path: Path, torn: bytes) -> None:
    expected = entry(_run)(np.arange(5))
    (kept,) = tmp_path.rglob("*.kernel")
    kept.write_bytes(torn)
    assert entry(_run)(np.arange(5)) == expected
    assert kept.read_bytes() != torn
