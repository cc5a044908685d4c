"""Images of few channels, pools and reversed images, against what libtpu estimates for a v5e."""

from __future__ import annotations

import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.image_passes import PROBE, of_transposed, stem
from benchmarks.probes.programs import lowered
from tests.modules import analysed
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.passes.convolution_tiling import windows

V5E = "tpu-v5e"
RATE = 1.503e9
"""Cycles a second of a v5e."""
FARTHER = {
    "64 images of 64 pixels and 3 channels, 3 x 3 over 1": 0.45,
    "256 images of 28 pixels and 1 channels, 3 x 3 over 1": 0.45,
    "16 images of 112 pixels, 64 channels strided": 0.55,
    "32 images of 64 pixels, 128 channels pooled": 0.35,
    "128 images of 32 pixels, 64 channels pooled": 0.6,
    "16 images of 64 pixels, 64 to 3 channels": 0.45,
    "8 images of 64 pixels, 64 to 32 channels": 0.35,
}
"""What is farther off than 20 %: docs/compilers.md says what is not modelled."""


def priced(module: bytes) -> float:
    """Cycles, with all images on each device."""
    return Evaluator(analysed(module), Mesh.parse("all=8"), find(V5E)).cost(()).compute * RATE


@pytest.mark.parametrize("name", sorted(PROBE.cases))
def test_images_take_about_as_long_as_libtpu_estimates(name: str) -> None:
    """A first convolution of three channels was priced at a third to a half."""
    cycles = priced(PROBE.cases[name].module(V5E))
    error = FARTHER.get(name, 0.2)
    assert cycles == pytest.approx(golden("image_passes", name, V5E), rel=error)


def test_image_passes_are_contracted_with_the_whole_window() -> None:
    """With one channel a window of 7 x 7 takes no longer than one of 3 x 3, up to its bytes."""

    def cycles(side: int) -> float:
        shapes = (128, 32, 32, 1), (side, side, 1, 128), (3, 3, 128, 128)
        return priced(lowered(lambda x, a, b: stem(1, x, a, b), *shapes))

    assert cycles(7) == pytest.approx(cycles(3), rel=0.01)


@pytest.mark.parametrize("images", [0, 1])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [1, 3])
def test_the_fewest_images_have_a_price(images: int, channels: int, side: int) -> None:
    shapes = (images, 8, 8, channels), (side, side, channels, 4), (3, 3, 4, 4)
    assert 0.0 <= priced(lowered(lambda x, a, b: stem(1, x, a, b), *shapes)) < 1e5


def test_the_filter_of_a_transposed_convolution_reads_its_larger_image_backwards() -> None:
    rules = profile_of(find(V5E)).convolution_tiling
    program = analysed(
        lowered(of_transposed, (8, 16, 16, 32), (4, 4, 32, 8), (8, 32, 32, 8))
    ).program
    reverses = [window.reverses for window in windows(program, rules).values()]
    assert sorted(reverses) == [0, 1]
