"""Names of compile targets."""

from __future__ import annotations

import pytest

from toast.analysis.errors import InvalidRequest
from toast.aot.target import CHIPS, Target
from toast.costmodel.hardware.devices import catalogue


@pytest.mark.parametrize(
    ("name", "devices", "topology"),
    [
        ("tpu-v5e:2x4", 8, "v5e:2x4"),
        ("tpu-v3:2x2", 8, "v3:2x2"),
        ("tpu-v5p:2x2x1", 4, "v5p:2x2x1"),
        ("tpu-v7x:2x2x1", 8, "tpu7x:2x2x1"),
        ("a100:8", 8, "a100:8"),
    ],
)
def test_targets(name: str, devices: int, topology: str) -> None:
    target = Target.parse(name)
    assert (target.devices, target.topology, str(target)) == (devices, topology, name)


@pytest.mark.parametrize(
    "name", ["", "tpu-v5e", "tpu-v5e:", "tpu-v5e:2x", "tpu-v2:2x2", "a100:2x4", "tpu-v5e:0x4"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Target.parse(name)
    assert caught.value.hint or caught.value.message


@pytest.mark.parametrize("name", sorted(CHIPS))
def test_every_chip_is_in_the_catalogue_with_the_clock_of_its_peak(name: str) -> None:
    chip = CHIPS[name]
    device = catalogue()[chip.device]
    assert device.platform == chip.platform
    if chip.clock is not None:
        units = device.flops["bf16"] / chip.clock / 32768
        assert round(units) in (1, 2, 4, 8, 16)
        assert 0.9e9 < chip.clock < 2.3e9


def test_the_description_of_the_gpu_comes_with_the_package() -> None:
    assert "core_count: 108" in Target.parse("a100:8").gpu_config()


def test_reserved_memory_is_missing_from_the_gpu() -> None:
    whole, less = Target.parse("a100:8").gpu_config(), Target.parse("a100:8").gpu_config(2**30)
    changed = [(a, b) for a, b in zip(whole.splitlines(), less.splitlines(), strict=True) if a != b]
    [(before, after)] = changed
    assert int(before.split()[1]) - int(after.split()[1]) == 2**30
