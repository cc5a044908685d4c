"""The annotated form: without what it adds, the module is the one that came in."""

from __future__ import annotations

import re

import pytest

from tests.examples.variants import TINY, Variant, module_of
from tests.libraries.corpus import SET_GROUPS, kept
from tests.toast.forms.programs import BRANCH, BRANCH_CHOSEN, REGION, TWICE, UNREAD_REGION
from tests.toast.forms.stripped import stripped
from tests.toast.planned import gemma_text, request
from toast.pipeline.plan_module import make_plan


def modules(data: bytes, mesh: str = "data=2,model=4", **changes: object) -> tuple[str, str]:
    """A module and its annotated form, both stripped."""
    made = make_plan(data, request(mesh=mesh, form="annotated", rollouts=100, **changes))
    return stripped(data), stripped(made.module)


def without_places(text: str) -> str:
    """The text of a module without locations."""
    return re.sub(r"#?loc.*", "", text)


@pytest.mark.parametrize("mesh", ["data=2,model=4", "data=8", "x=2,y=2,z=2"])
def test_a_step_in_text_comes_back(mesh: str) -> None:
    before, after = modules(gemma_text(), mesh)
    assert before == after


@pytest.mark.parametrize("name", sorted(SET_GROUPS))
def test_a_module_of_a_library_comes_back(name: str) -> None:
    before, after = modules(kept(name))
    assert before == after


@pytest.mark.nightly
@pytest.mark.parametrize("variant", TINY)
def test_a_model_of_the_paper_comes_back(variant: Variant) -> None:
    before, after = modules(module_of(variant))
    assert before == after


def test_calls_stay() -> None:
    text = make_plan(gemma_text(), request(form="annotated", rollouts=100)).module.decode()
    assert text.count("func.call") + text.count(" call @") == gemma_text().decode().count("call @")


def test_a_function_is_copied_where_its_calls_are_laid_out_otherwise() -> None:
    pins = ("0=data,None", "1=None,model")
    made = make_plan(TWICE, request(form="annotated", rollouts=100, pins=pins, refine=True))
    assert stripped(TWICE) == stripped(made.module)


def test_of_branches_that_are_known_the_one_that_runs_stays() -> None:
    _, after = modules(BRANCH)
    assert without_places(after) == without_places(stripped(BRANCH_CHOSEN))


def test_functions_are_copied_once_for_each_layout() -> None:
    text = make_plan(kept("resnet"), request(form="annotated", rollouts=100)).module
    names = re.findall(r"@(\w+__layout\d+)", stripped_names(text))
    assert names
    assert len(names) == len(set(names))


def stripped_names(data: bytes) -> str:
    """The lines of a module that begin its functions."""
    from toast.analysis.forms import decode

    text = str(decode(data).module)
    return "\n".join(line for line in text.splitlines() if "func.func" in line)


def test_regions_and_constraints_of_the_module_come_back() -> None:
    before, after = map(without_places, modules(REGION))
    assert before == after
    assert "sdy.manual_computation" in after


def test_a_region_that_nothing_reads_goes() -> None:
    assert "stablehlo.case" in stripped(UNREAD_REGION)
    _, after = modules(UNREAD_REGION)
    assert "sdy.manual_computation" not in after
    assert "stablehlo.case" not in after
