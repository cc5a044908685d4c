"""What is said of two runs, by what rounding does to the program."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from toast.plans.plan import Tensor
from toast.verify.compare import deviation, judge, tolerance
from toast.verify.verification import Difference, Verdict

RESULT = Tensor(index=0, name="y", shape=[4], dtype="f32", spec=[[]])


def judged(expected: Any, own: Any, actual: Any, dtype: Any = np.float32) -> Difference:
    first, again, second = (np.array(one, dtype) for one in (expected, own, actual))
    return judge(RESULT, deviation(first, second), tolerance(first, [deviation(first, again)]))


def test_within_what_rounding_does_is_equal() -> None:
    found = judged([1.0, 2.0], [1.0, 2.001], [1.0, 1.999])
    assert found.verdict == "equal"
    assert found.relative == pytest.approx(0.0005, rel=0.01)
    assert 0 < found.excess < 1


def test_beyond_it_differs() -> None:
    assert judged([1.0, 2.0], [1.0, 2.0], [1.0, 2.01]).verdict == "differs"
    assert judged([1.0, 2.0], [1.0, 2.0], [1.0, 0.0]).verdict == "differs"


def test_a_little_beyond_it_cannot_be_told() -> None:
    found = judged([1.0, 2.0], [1.0, 2.0001], [1.0, 2.0032])
    assert found.verdict == "untold"
    assert "a little more" in found.why


def test_what_rounding_changes_beyond_recognition_cannot_be_told() -> None:
    assert judged([1.0, 2.0], [1.0, 1.0], [1.5, 2.0]).verdict == "untold"
    assert judged([1.0, 2.0], [1.0, 1.0], [1.0, 2.0]).verdict == "equal"


def test_many_small_differences_are_found_by_their_mean() -> None:
    """None of them is large beside the largest element."""
    expected = np.ones(10_000, np.float32)
    expected[0] = 1e6
    own, actual = expected.copy(), expected.copy()
    own[0] += 16
    actual[1:] = 0
    found = judge(
        RESULT, deviation(expected, actual), tolerance(expected, [deviation(expected, own)])
    )
    assert found.relative < found.tolerance
    assert deviation(expected, actual).rms == pytest.approx(1e-4, rel=0.01)
    assert found.verdict == "equal", "the root mean square is that of the one large element"


@pytest.mark.parametrize(
    ("expected", "own", "actual", "verdict"),
    [
        ([1, 2], [1, 2], [1, 2], "equal"),
        ([1, 2], [1, 2], [1, 3], "differs"),
        ([1, 2], [1, 3], [1, 3], "untold"),
        ([1, 2], [1, 3], [1, 2], "equal"),
    ],
)
def test_integers_are_equal_or_not(expected: Any, own: Any, actual: Any, verdict: Verdict) -> None:
    assert judged(expected, own, actual, np.int32).verdict == verdict


@pytest.mark.parametrize(
    ("actual", "verdict"),
    [([np.inf, 1.0], "equal"), ([1.0, 1.0], "differs"), ([np.nan, 1.0], "differs")],
)
def test_values_that_are_not_finite_are_so_in_the_same_places(
    actual: Any, verdict: Verdict
) -> None:
    found = judged([np.inf, 1.0], [np.inf, 1.0], actual)
    assert found.verdict == verdict
    assert not found.finite


def test_nothing_is_said_by_what_is_zero_in_both() -> None:
    found = judged([0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    assert (found.verdict, found.why) == ("equal", "zero in both")
    assert judged([0.0, 0.0], [0.0, 0.0], [0.0, 1e-20]).verdict == "differs"


def test_the_largest_floats_do_not_overflow_the_mean() -> None:
    found = judged([3e38, 3e38], [3e38, 3e38], [3e38, 0.0])
    assert found.rms == pytest.approx(0.5**0.5)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.complex64, np.float64])
def test_every_kind_of_float_is_compared(dtype: Any) -> None:
    assert judged([1.0, 2.0], [1.0, 2.0], [1.0, 2.0], dtype).verdict == "equal"
    assert judged([1.0, 2.0], [1.0, 2.0], [2.0, 1.0], dtype).verdict == "differs"


def test_empty_results_are_equal() -> None:
    assert judged([], [], []).verdict == "equal"
