"""What a program is scaled down to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.proof.cases import write_plan
from examples.forms import serialize
from examples.models import MODELS
from toast.verify.pair import load_pair
from toast.verify.scaling import SMALLEST
from toast.verify.stages import VerifyStages


@pytest.mark.parametrize(("name", "size"), [("wideresnet", 128), ("unet", 64)])
def test_pictures_that_are_halved_again_and_again(name: str, size: int, tmp_path: Path) -> None:
    model = MODELS[name]
    config = replace(model.config("tiny"), image=size)
    write_plan(serialize(model.make_step(config), "bytecode"), tmp_path, "data=2,model=2")
    pair = load_pair(tmp_path, SMALLEST, VerifyStages(lambda _: None))
    images = next(one for one in pair.plan.arguments if one.name == "batch['images']")
    _, height, width, _ = images.shape
    assert height == width <= size // 2
