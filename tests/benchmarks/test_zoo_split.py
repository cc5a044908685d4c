"""Which half an architecture belongs to is decided by its name alone, for all there are."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from benchmarks.accuracy.records import read_records
from benchmarks.zoo.lowering import PROGRAMS
from benchmarks.zoo.registry import architectures
from benchmarks.zoo.split import SPLIT, read_split, write_split


def test_the_kept_halves_are_those_of_the_hashes() -> None:
    for name, half in json.loads(SPLIT.read_text()).items():
        first = int(hashlib.sha256(name.encode()).hexdigest()[:16], 16)
        assert half == ("held-out" if first % 100 < 60 else "tuning"), name


def test_every_architecture_has_a_half_and_two_in_five_are_held_out() -> None:
    halves = read_split()
    assert set(halves) == set(architectures())
    assert len(halves) >= 60
    assert sum(half == "held-out" for half in halves.values()) >= 0.4 * len(halves)


def test_all_programs_of_an_architecture_are_in_its_half() -> None:
    halves = read_split()
    records = read_records(PROGRAMS)
    assert len(records) >= 200
    for record in records:
        assert record["key"].split("/")[0] == record["architecture"]
        assert record["half"] == halves[record["architecture"]]


def test_every_program_was_lowered_or_says_why_not() -> None:
    programs = {name for row in architectures().values() for name in row.programs()}
    records = {record["key"]: record for record in read_records(PROGRAMS)}
    assert set(records) == programs
    assert all(("digest" in record) != ("error" in record) for record in records.values())


def test_no_architecture_is_one_that_others_were_tuned_on() -> None:
    tuned = {"bert", "gpt2", "llama", "t5", "vit", "whisper", "resnet", "diffusers_unet"}
    assert not tuned & set(architectures())


def test_writing_keeps_the_names_in_order(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    write_split(["b", "a"], path)
    assert list(read_split(path)) == ["a", "b"]
