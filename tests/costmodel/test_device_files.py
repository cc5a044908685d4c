"""Device files: the catalogue's, and what is said of a bad one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.costmodel.mistakes import refusal
from tests.ground.repository import ROOT
from toast.analysis.errors import InvalidDevice, UnknownDevice
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.hardware.device_files import FLOPS, read_profile, write_profile
from toast.costmodel.hardware.devices import Device, catalogue, find, known
from toast.costmodel.hardware.quantities import format_bytes

CHIPS = sorted(catalogue())
TEXT = write_profile(find("tpu-v5e"))


def test_the_chips_that_are_asked_for_are_there() -> None:
    gpus = {"a100-40gb", "a100-80gb", "h100-80gb", "h200", "p100-16gb", "v100-16gb"}
    tpus = {"tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7x"}
    assert set(CHIPS) == gpus | tpus | {"cpu"}


@pytest.mark.parametrize("name", CHIPS)
def test_every_chip_is_complete_and_each_figure_has_its_source(name: str) -> None:
    device = find(name)
    assert device.name == name
    assert 0 < device.usable_bytes <= device.memory_bytes
    assert set(FLOPS) <= set(device.flops)
    figures = {"memory_bytes", "reserved_bytes", "bandwidth", "flops", "matmul_efficiency"}
    figures |= {"stream_efficiency", "element_rate", "op_overhead", "tile"}
    figures |= {f"links.{link.name}" for link in device.links}
    figures |= {"on_chip_bytes"} if device.on_chip_bytes else set()
    assert figures <= set(device.sources)
    assert set(device.sources) - figures <= {f"flops.{dtype}" for dtype in device.flops}
    assert device.overrides == {}
    assert all(len(text) > 10 for text in device.sources.values())
    assert device.device_kinds
    assert all(0 < link.latency < 1e-4 for link in device.links)


@pytest.mark.parametrize("name", CHIPS)
def test_the_documented_table_says_what_the_files_say(name: str) -> None:
    device = find(name)
    text = (ROOT / "docs/devices.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
    _, memory, bandwidth, *peaks, networks = (cell.strip() for cell in row.split("|")[1:-1])
    assert memory == format_bytes(device.usable_bytes)
    assert bandwidth == f"{device.bandwidth / 1e9:,.0f} GB/s"
    assert peaks == [f"{device.flops[key] / 1e12:,.4g}" for key in ("bf16", "f32", "i8")]
    assert networks.split("; ") == [
        f"{link.name} {link.topology}"
        + (f" {'x'.join(map(str, link.dims))}" if link.dims else "")
        + f": {link.span}, {link.bandwidth / 1e9:.4g} GB/s"
        for link in device.links
    ]


def test_jax_calls_no_two_chips_the_same() -> None:
    kinds = [kind for device in catalogue().values() for kind in device.device_kinds]
    assert len(kinds) == len(set(kinds))


@pytest.mark.parametrize("name", CHIPS)
def test_a_profile_reads_as_it_was_written(name: str) -> None:
    device = find(name)
    again = read_profile(write_profile(device, ["a note"]), "file")
    assert dataclasses.replace(again, flops=device.flops) == device
    assert again.flops == pytest.approx(device.flops, rel=1e-5)


def test_text_with_quotes_survives() -> None:
    device = dataclasses.replace(find("cpu"), description='a "quoted" \\ name\nof two lines')
    again = read_profile(write_profile(device), "file")
    assert again.description == 'a "quoted" \\ name of two lines'


MISTAKES = {
    "text": ("bandwidth = 8.19e+11", 'bandwidth = "fast"', "bandwidth has to be a number"),
    "fraction": ("memory_bytes = 17179869184", "memory_bytes = 1.5", "has to be a whole number"),
    "bool": ("op_overhead = 1.2e-06", "op_overhead = true", "op_overhead has to be a number"),
    "negative": ("op_overhead = 1.2e-06", "op_overhead = -1.0", "has to be zero or more"),
    "zero": ("element_rate = 1.07e+11", "element_rate = 0", "element_rate has to be above zero"),
    "infinite": ("element_rate = 1.07e+11", "element_rate = inf", "has to be above zero"),
    "nan": ("element_rate = 1.07e+11", "element_rate = nan", "has to be above zero"),
    "share": ("stream_efficiency = 0.81", "stream_efficiency = 81", "at most 1"),
    "unknown": ('kind = "tpu"', 'kind = "tpu"\ncolour = "red"', "colour is not known"),
    "name": ('name = "tpu-v5e"', "name = 5", "name has to be text"),
    "list": ("tile = [8, 128]", "tile = 8", "tile has to be a list"),
    "tile": ("tile = [8, 128]", "tile = [8]", "two numbers"),
    "peak": ("bf16 = 1.97e+14", "bf16 = -1", "flops.bf16 has to be above zero"),
    "peaks": ("bf16 = 1.97e+14", "", "flops has no peak for bf16"),
    "reserved": (
        "reserved_bytes = 268435456",
        "reserved_bytes = 17179869184",
        "less than memory_bytes",
    ),
    "chip": (
        "on_chip_bytes = 134217728",
        "on_chip_bytes = 134217728\non_chip_buffers = 134217729",
        "has to be at most on_chip_bytes",
    ),
    "old flag": ('kind = "tpu"', 'kind = "tpu"\nearly = 1', "early has to be true or false"),
    "compiler": ('compiler = "libtpu"', 'compiler = "gcc"', "one of libtpu, xla_cpu, xla_gpu"),
    "section": (
        'name = "tpu-v5e"',
        'name = "tpu-v5e"\noverrides = 3',
        "overrides has to be a table",
    ),
    "topology": ('topology = "torus"', 'topology = "star"', "one of torus, switch, ring"),
    "dims": ("dims = [16, 16]", "dims = []", "one to three lengths"),
    "links": ("links = 4", "links = 5", "two for each of dims"),
    "wraps": ("wrap_all = false", "wrap_all = 1", "has to be true or false"),
    "latency": ("latency = 1e-05", "latency = -1e-05", r"links\[1\].latency has to be zero"),
    "order": ("span = 65536", "span = 16", "the smallest comes first"),
    "speed": ("link_bandwidth = 3.125e+09", "link_bandwidth = 1e+12", "the fastest comes first"),
    "twice": ('name = "dcn"', 'name = "ici"', "is that of another network"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_by_its_key_and_line(name: str) -> None:
    before, after, _ = MISTAKES[name]
    source = TEXT.replace("wrap = 16\n", "wrap = 16\nwrap_all = false\n")
    said = refusal(read_profile, source, MISTAKES[name], "my.toml")
    text = source.replace(before, after, 1)
    place = "[flops]" if name == "peaks" else after.splitlines()[-1]
    last = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith(place)][-1]
    assert said.startswith(f"my.toml, line {last}: ")


def test_a_missing_figure_is_named() -> None:
    with pytest.raises(InvalidDevice, match=r"^my.toml: memory_bytes is missing"):
        read_profile(TEXT.replace("memory_bytes = 17179869184\n", ""), "my.toml")
    network = 1 + TEXT.splitlines().index("[[links]]")
    with pytest.raises(InvalidDevice, match=rf"line {network}: links\[0\].span is missing"):
        read_profile(TEXT.replace("span = 256\n", ""), "my.toml")


def test_a_slowdown_of_an_unknown_kind_is_named() -> None:
    text = TEXT + "slowdown = { broadcast = 2.0 }\n"
    with pytest.raises(InvalidDevice, match=r"slowdown knows no 'broadcast', only all_reduce"):
        read_profile(text, "my.toml")


@pytest.mark.parametrize("text", ["links = 3", "links = []", "links = [1]", ""])
def test_a_device_has_networks(text: str) -> None:
    with pytest.raises(InvalidDevice, match=r"links has to be one table \[\[links\]\]"):
        read_profile(text, "my.toml")


def test_what_is_no_toml_is_said_with_its_line() -> None:
    with pytest.raises(InvalidDevice, match=r"my.toml is no TOML: .*line 2"):
        read_profile('name = "x"\nkind = \n', "my.toml")


def test_a_device_is_found_by_name_or_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    mine = dataclasses.replace(find("h200"), name="mine", bandwidth=1e12)
    file.write_text(write_profile(mine))
    found: Device = find(str(file))
    assert (found.name, found.bandwidth, found.links) == ("mine", 1e12, mine.links)
    with pytest.raises(UnknownDevice, match="There is no device"):
        known(str(file))


def test_a_file_that_cannot_be_read_is_an_unknown_device(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none.toml", tmp_path, binary):
        with pytest.raises(UnknownDevice, match="cannot be read") as caught:
            find(f"{path}/" if path.is_dir() else str(path))
        assert "toast calibrate" in caught.value.hint


def test_an_unknown_chip_lists_the_known_ones() -> None:
    with pytest.raises(UnknownDevice, match="tpu-v5e"):
        find("tpu-v99")


OLD_FORM = """
early = true
sums_whole = true
in_blocks = false
on_chip_buffers = 1048576
on_chip_sent = true
"""
"""What files said of the compiler before it had a profile of its own."""


def test_what_older_files_say_of_the_compiler_counts_for_their_device() -> None:
    text = "\n".join(
        line for line in TEXT.splitlines() if not line.startswith(("compiler =", "generation ="))
    )
    device = read_profile(OLD_FORM + text, "mine.toml")
    assert (device.compiler, device.generation) == ("libtpu", "tpu-v5e")
    mine, known_to_do = profile_of(device), profile_of(find("tpu-v5e"))
    assert not mine.fusion.stores_reduced
    assert mine.reduce_scatter_creator.keeps_sums_over_all_whole
    assert not mine.space_to_batch.convolves_in_blocks
    assert mine.memory_space_assignment.scoped_bytes == 2**27 - 2**20
    assert mine.memory_space_assignment.collectives_on_chip
    assert mine.layout_assignment == known_to_do.layout_assignment
    # it is written in the new form, and reads as it was written
    again = read_profile(write_profile(device), "again.toml")
    assert again.overrides == device.overrides
    assert profile_of(again) == mine


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"fuson": {"fuses": False}},
            "overrides.fuson is not known; there are algebraic_sim",
        ),
        ({"fusion": {"fuse": False}}, "overrides.fusion.fuse is not known; there are"),
        ({"fusion": {"fuses": 1}}, "overrides.fusion.fuses has to be true or false"),
        ({"fusion": {"reduced_readers": 0}}, "fusion.reduced_readers has to be above zero"),
        (
            {"layout_assignment": {"copied_for": "all"}},
            "overrides.layout_assignment.copied_for has to be one of transposed_dots, convolutions",
        ),
        (
            {"memory_space_assignment": {"scoped_bytes": -1}},
            "scoped_bytes has to be zero or more",
        ),
    ],
)
def test_an_override_that_no_compiler_knows_is_refused(
    overrides: dict[str, dict[str, bool | int | float | str]], message: str
) -> None:
    device = dataclasses.replace(find("tpu-v5e"), name="mine", overrides=overrides)
    with pytest.raises(InvalidDevice, match=message) as caught:
        profile_of(device)
    assert caught.value.message.startswith("The device mine: overrides.")
    assert "costmodel/compilers/rules.py" in caught.value.hint
