"""Bands of made-up cases hold what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.zoo.bands import band, bands_text, ratios
from tests.benchmarks.accuracy_samples import GIB, MIB, record
from toast.costmodel.bands.spreads import read_spreads
from toast.costmodel.hardware.devices import find

V5E, A100 = "tpu-v5e:2x4", "a100:8"


def case(
    name: str, kind: str, words: str = "", target: str = V5E, **changes: Any
) -> dict[str, Any]:
    """A case of one program of its own."""
    made = record(f"{name}/{kind}-adam data=8 mcts {target}", **changes)
    made["predicted"]["room_bytes"] = made["predicted"]["peak_bytes"]
    key = f"{name}/{kind}-adam data=8 mcts {words}{' ' * bool(words)}{target}"
    return made | {"key": key}


@pytest.mark.parametrize("programs", [19, 40, 100])
def test_a_band_holds_its_share_of_programs_that_are_not_seen(programs: int) -> None:
    drawn = np.random.default_rng(programs)
    inside, trials = 0.0, 1000
    for _ in range(trials):
        seen = drawn.lognormal(sigma=0.3, size=programs)
        low, high = band((str(number), float(one)) for number, one in enumerate(seen))
        fresh = drawn.lognormal(sigma=0.3, size=20)
        inside += float(np.mean((fresh >= low) & (fresh <= high))) / trials
    assert 0.89 <= inside <= 0.935


def test_of_few_programs_the_band_is_all_that_was_seen() -> None:
    assert band((str(number), 1.0 + number) for number in range(8)) == (1.0, 8.0)


def test_the_cases_of_one_program_count_as_one() -> None:
    many = [("one", 5.0 + number / 100) for number in range(50)]
    others = [(f"p{number}", 1.0 + number / 1000) for number in range(59)]
    low, high = band([*many, *others])
    assert low == pytest.approx(1.002)
    assert high == pytest.approx(1.057)
    assert band([*others, ("one", 5.0)]) == (low, high)


def test_a_group_of_few_is_left_to_the_wider_one() -> None:
    rows = [case(f"m{n}", "train", peak=100 * MIB, main=120 * MIB) for n in range(12)]
    rows += [case(f"d{n}", "decode", peak=100 * MIB, main=400 * MIB) for n in range(3)]
    table = read_spreads(bands_text(rows))
    train = table.find("room", find("tpu-v5e"), "train")
    decode = table.find("room", find("tpu-v5e"), "decode")
    assert train is not None
    assert decode is not None
    assert (train.kind, train.cases, train.low, train.high) == ("train", 12, 1.2, 1.2)
    assert (decode.kind, decode.cases, decode.high) == ("all", 15, 4.0)


def _of(rows: list[dict[str, Any]], figure: str) -> list[float]:
    return [row.value for row in ratios(rows) if row.figure == figure]


def test_pressed_is_the_least_of_all_levels_over_what_was_predicted_of_it() -> None:
    room = case("m", "train", peak=GIB, main=GIB)
    room["predicted"]["pressed_bytes"] = GIB / 2
    squeezed = case("m", "train", "pressed=0.1", main=GIB * 3 // 4)
    del squeezed["predicted"]
    assert _of([room, squeezed], "pressed") == [1.5]
    assert _of([room, squeezed], "room") == [1.0]
    assert _of([room], "pressed") == []


def test_tiny_and_stale_cases_and_those_at_other_batches_say_nothing() -> None:
    tiny = case("m", "train", peak=MIB, main=2 * MIB)
    stale = case("n", "train", peak=GIB, main=2 * GIB) | {"stale": True}
    sized = case("o", "train", "sized=0.5", peak=GIB, main=2 * GIB) | {"batch": 3}
    assert _of([tiny, stale, sized], "room") == []


def test_times_are_the_compiler_s_over_the_predicted() -> None:
    row = case("m", "train", seconds=(0.2, 0.3), wire=(0, 0))
    assert _of([row], "step") == [pytest.approx(0.3 / 0.21)]
    assert _of([row], "compute") == [pytest.approx(1.5)]
    assert _of([row], "communication") == []
