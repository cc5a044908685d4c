"""Files of compilers: the three that there are, and what is said of a bad one."""

from __future__ import annotations

import dataclasses
from importlib import resources

import pytest

from benchmarks.probes.registry import PROBES
from tests.costmodel.mistakes import refusal
from toast.analysis.errors import InvalidDevice
from toast.costmodel.compilers.profile import (
    CompilerFile,
    CompilerProfile,
    compiler,
    profile_of,
    read_compiler,
)
from toast.costmodel.hardware.devices import catalogue, find

NAMES = ("libtpu", "xla_cpu", "xla_gpu")
FILES = resources.files("toast.costmodel.compilers")
TEXT = FILES.joinpath("libtpu.toml").read_text()


def keys_of(profile: CompilerProfile) -> set[str]:
    """All keys of a profile, as `section.key`."""
    sections = [field.name for field in dataclasses.fields(profile) if field.name != "name"]
    return {
        f"{section}.{key.name}"
        for section in sections
        for key in dataclasses.fields(getattr(profile, section))
    }


def test_every_chip_names_a_compiler_that_has_a_file() -> None:
    assert {device.compiler for device in catalogue().values()} == set(NAMES)
    files = {file.name for file in FILES.iterdir() if file.name.endswith(".toml")}
    assert files == {f"{name}.toml" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_key_has_its_source_and_probe(name: str) -> None:
    found: CompilerFile = compiler(name)
    assert found.name == found.profile.name == name
    assert keys_of(found.profile) <= set(found.evidence)
    for key, evidence in found.evidence.items():
        assert len(evidence.source) > 10, key
        assert evidence.probe in {"accuracy", "none", *PROBES}, key
    assert set(found.chips) <= set(catalogue())


def test_a_generation_has_its_own_keys_and_all_others_of_its_compiler() -> None:
    old, new = profile_of(find("tpu-v3")), profile_of(find("tpu-v5e"))
    assert (old.fusion.stores_reduced, new.fusion.stores_reduced) == (False, True)
    one, other = dataclasses.asdict(old.fusion), dataclasses.asdict(new.fusion)
    differing = {key for key in one if one[key] != other[key]}
    assert differing == {"stores_reduced"}
    assert old.cse == new.cse
    # a device of another name that is of the generation
    mine = dataclasses.replace(find("tpu-v3"), name="mine")
    assert profile_of(mine) == old


def test_the_compiler_for_processors_is_taken_to_do_what_that_for_gpus_does() -> None:
    cpu, gpu = profile_of(find("cpu")), profile_of(find("h200"))
    assert dataclasses.replace(cpu, name="xla_gpu") == gpu


MISTAKES = {
    "section": ("[cse.merges_identical_ops]", "[csee.merges_identical_ops]", "csee is not known"),
    "key": ("[cse.merges_identical_ops]", "[cse.merges]", "cse.merges is not known; there are"),
    "bool": ("value = 2\n", "value = true\n", "fusion.reduced_readers has to be a whole number"),
    "zero": ("value = 2\n", "value = 0\n", "fusion.reduced_readers has to be above zero"),
    "part": (
        "value = 0.25",
        "value = 1.0",
        "memory_space_assignment.streamed_from is a part, below 1",
    ),
    "choice": ('value = "transposed_dots"', 'value = "dots"', "one of transposed_dots"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_by_its_key_and_line(name: str) -> None:
    before, *_ = MISTAKES[name]
    said = refusal(read_compiler, TEXT, MISTAKES[name], "libtpu.toml")
    above = TEXT[: TEXT.index(before) + len(before)].splitlines()
    header = max(n for n, line in enumerate(above, 1) if line.startswith("["))
    assert said.startswith(f"libtpu.toml, line {header}: ")


@pytest.mark.parametrize("missing", ["value", "source", "probe"])
def test_a_key_without_its_value_source_or_probe_is_refused(missing: str) -> None:
    start = TEXT.index("[cse.merges_identical_ops]")
    line = TEXT.index(f"\n{missing} = ", start)
    text = TEXT[:line] + TEXT[TEXT.index("\n", line + 1) :]
    message = rf"cse.merges_identical_ops.{missing} is missing"
    with pytest.raises(InvalidDevice, match=message):
        read_compiler(text, "libtpu.toml")


def test_a_key_of_a_chip_is_checked_as_well() -> None:
    header = '[chip."tpu-v3".fusion.stores_reduced]\n'
    broken = TEXT.replace(f"{header}value = false", f"{header}value = 3", 1)
    assert broken != TEXT
    with pytest.raises(
        InvalidDevice, match=r"line \d+: chip.tpu-v3.fusion.stores_reduced has to be true or false"
    ):
        read_compiler(broken, "libtpu.toml")


def test_a_profile_that_lacks_a_key_is_refused() -> None:
    start = TEXT.index("[cse.merges_identical_ops]")
    text = TEXT[:start] + TEXT[TEXT.index("\n[", start) + 1 :]
    with pytest.raises(InvalidDevice, match=r"cse.merges_identical_ops is missing"):
        read_compiler(text, "libtpu.toml")
