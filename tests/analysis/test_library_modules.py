"""Modules of public libraries, kept as bytecode: the analysis and a plan, without the libraries."""

from __future__ import annotations

import pytest

from tests.libraries.corpus import KEPT, SET_GROUPS, kept, moments
from tests.modules import colours_of
from toast.analysis.analyse import Analysis, analyse
from toast.analysis.forms import Form, detect
from toast.analysis.load import load
from toast.analysis.program import Program
from toast.pipeline.plan_module import make_plan
from toast.request.request import PlanRequest

REQUEST = PlanRequest(mesh="data=2,model=4", device="tpu-v5e", rollouts=500, threads=1)
LARGEST = 150_000
_analysed: dict[str, Analysis] = {}


def of(name: str) -> Analysis:
    if name not in _analysed:
        _analysed[name] = analyse(load(kept(name)).program)
    return _analysed[name]


def argument(program: Program, part: str) -> int:
    """The first argument whose name has `part` in it."""
    return next(i for i, found in enumerate(program.arguments) if part in found.name)


def colours(analysis: Analysis, part: str) -> list[int]:
    return colours_of(analysis, analysis.program.arguments[argument(analysis.program, part)].value)


def groups(analysis: Analysis, part: str, dim: int) -> set[int]:
    """The colour groups of a dimension of all arguments whose names have `part` in them."""
    found = (a for a in analysis.program.arguments if part in a.name)
    return {int(analysis.groups.of_colour[colours_of(analysis, a.value)[dim]]) for a in found}


def test_all_that_is_kept_is_known_and_small() -> None:
    assert {path.name.split(".")[0] for path in KEPT.iterdir()} == set(SET_GROUPS)
    assert all(path.stat().st_size < LARGEST for path in KEPT.iterdir())
    assert all(detect(kept(name)) is Form.BYTECODE for name in SET_GROUPS)


@pytest.mark.parametrize("name", SET_GROUPS)
def test_every_op_has_a_rule(name: str) -> None:
    program = of(name).program
    assert program.no_rule == {}
    assert program.warnings == ()


@pytest.mark.parametrize("name", SET_GROUPS)
def test_layers_share_their_choices(name: str) -> None:
    analysis = of(name)
    assert analysis.groups.sets == SET_GROUPS[name]
    assert analysis.conflicts.sets >= analysis.groups.sets


@pytest.mark.parametrize("name", SET_GROUPS)
def test_moments_have_the_colours_of_their_parameters(name: str) -> None:
    analysis = of(name)
    arguments = analysis.program.arguments
    pairs = moments(analysis.program)
    assert len(pairs) > 20
    wrong = [
        arguments[left].name
        for left, right in pairs
        if colours_of(analysis, arguments[left].value)
        != colours_of(analysis, arguments[right].value)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", SET_GROUPS)
def test_a_plan_keeps_moments_with_their_parameters(name: str) -> None:
    module = kept(name)
    result = make_plan(module, REQUEST)
    assert detect(result.module) is detect(module)
    assert 0.0 < result.plan.search.cost <= 1.0
    assert result.plan.unpriced == []
    specs = [tensor.spec for tensor in result.plan.arguments]
    assert all(specs[left] == specs[right] for left, right in moments(of(name).program))


def test_heads_are_neither_the_model_nor_the_sequence() -> None:
    analysis = of("bert")
    model, heads = colours(analysis, "['self']['key']['kernel']")
    batch, sequence = colours(analysis, "batch['input_ids']")
    hidden = colours(analysis, "['intermediate']['dense']['kernel']")[1]
    assert len({model, heads, batch, sequence, hidden}) == 5
    assert min(model, heads, batch, sequence, hidden) >= 0


def test_layers_with_a_mask_for_each_are_in_one_group() -> None:
    analysis = of("bert")
    for part in ("['params']", ".mu"):
        found = groups(analysis, f"{part}['bert']['encoder']['layer']", 0)
        assert len(found) == 3, "the model dimension, heads, and the hidden dimension"


def test_rows_of_patches_are_not_rows_of_their_kernel() -> None:
    analysis = of("vit")
    kernel = colours(analysis, "['patch_embeddings']['projection']['kernel']")
    image = colours(analysis, "batch['pixel_values']")
    assert not set(kernel[:2]) & set(image[1:3])


def test_channels_of_a_stage_are_one_dimension() -> None:
    analysis = of("resnet")
    stage = "['params']['resnet']['encoder']['stages']['1']['layers']['%d']['layer']['2']"
    first, second = (colours(analysis, stage % i + "['convolution']['kernel']")[3] for i in (0, 1))
    assert first == second
    assert first != colours(analysis, "batch['pixel_values']")[0]
