"""What of the zoo is compiled, in which order, and how it is named."""

from __future__ import annotations

import pytest

from benchmarks.zoo.cases import OTHERS, V5E, Case, all_cases, in_turn, room_cases, targets_of
from benchmarks.zoo.registry import architectures
from benchmarks.zoo.variant import Variant

PROGRAMS = [name for row in architectures().values() for name in row.programs()]


def test_every_program_has_one_name() -> None:
    assert len(PROGRAMS) == len(set(PROGRAMS))


@pytest.mark.parametrize("text", ["train-lion-bf16", "infer", "train-adam-nothing_saveable-deep"])
def test_a_variant_is_what_its_name_says(text: str) -> None:
    variant = Variant.parse(text)
    assert str(variant) == text
    assert variant.deep == text.endswith("deep")
    assert variant.bf16 == ("bf16" in text)


@pytest.mark.parametrize("text", ["guess", "train-bf16-adam", "infer-twice"])
def test_no_variant_has_another_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"variant|kind"):
        Variant.parse(text)


def test_every_kind_and_optimizer_and_policy_is_used() -> None:
    words = {word for name in PROGRAMS for word in name.partition("/")[2].split("-")}
    assert {"train", "infer", "prefill", "decode", "bf16", "deep"} <= words
    assert {"sgd", "momentum", "adam", "adamw", "adafactor", "lion"} <= words
    assert {"nothing_saveable", "dots_with_no_batch_dims_saveable"} <= words


def test_a_key_says_all_of_a_case() -> None:
    for group in all_cases(PROGRAMS[:20], (V5E, *OTHERS), memory_only=True):
        for case in group:
            assert Case.parse(case.key) == case
            assert case.key.rpartition(" ")[2] == case.target


def test_held_out_architectures_have_files_of_their_own() -> None:
    held = Case(program="bart/infer", mesh="data=8", plan="mcts", target=V5E)
    tuned = Case(program="albert/infer", mesh="data=8", plan="mcts", target="a100:8")
    assert held.file == "heldout-tpu-v5e-2x4.jsonl"
    assert tuned.file == "tuning-a100-8.jsonl"


def test_about_a_third_goes_to_each_other_target() -> None:
    counts = dict.fromkeys(OTHERS, 0)
    for name in PROGRAMS:
        first, other = targets_of(name)
        assert first == V5E
        counts[other] += 1
    assert all(0.25 < count / len(PROGRAMS) < 0.42 for count in counts.values())


def test_a_run_sees_every_program_once_before_any_twice() -> None:
    groups = all_cases(PROGRAMS, (V5E,), memory_only=True)
    assert {case.program for group in groups[: len(PROGRAMS)] for case in group} == set(PROGRAMS)


def test_what_is_pressed_or_sized_comes_after_the_same_with_room() -> None:
    seen: set[str] = set()
    for group in all_cases(PROGRAMS[:5], (V5E,), memory_only=True):
        for case in group:
            assert case == case.room or case.room.key in seen
            seen.add(case.key)


def test_each_program_is_sized_three_times_and_all_shares_are_tried() -> None:
    groups = all_cases(PROGRAMS, (V5E,), memory_only=True)
    shares = [(case.program, case.share) for group in groups for case in group if case.share]
    assert len(shares) == len(set(shares)) == 3 * len(PROGRAMS)
    assert {share for _, share in shares} == {0.5, 0.7, 0.85, 0.95, 1.05, 1.15, 1.3, 1.6, 2.0}


def test_the_first_program_of_each_architecture_comes_first_and_deep_ones_last() -> None:
    names = ("a/train-sgd", "a/infer", "b/train-adamw-deep", "b/infer")
    facts = [
        {"key": name, "architecture": name[0], "digest": "x", "ops": 100 - number}
        for number, name in enumerate(names)
    ]
    failed = {"key": "c/infer", "architecture": "c", "error": "no"}
    found = in_turn([*facts, failed])
    assert found == ["a/train-sgd", "b/infer", "a/infer", "b/train-adamw-deep"]


def test_plans_that_are_asked_for_are_compiled_with_room_a_program_at_a_time() -> None:
    groups = room_cases(PROGRAMS[:3], (V5E,), ("data_parallel", "near-5"))
    assert [{case.program for case in group} for group in groups] == [{p} for p in PROGRAMS[:3]]
    assert all([case.plan for case in group] == ["data_parallel", "near-5"] for group in groups)
    assert all(case == case.room for group in groups for case in group)
