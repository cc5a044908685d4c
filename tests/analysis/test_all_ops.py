"""Every op of StableHLO and CHLO is handled as docs/ops.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.analysis.op_handling import MODULES, handling, installed_ops
from tests.analysis.op_modules_special import (
    ASYNC,
    BOUNDED,
    COLLECTIVE,
    CONTROL,
    OPAQUE,
    SHARDING_CALL,
)
from toast.analysis.analyse import analyse
from toast.analysis.errors import ToastError, UnsupportedModule
from toast.analysis.load import load
from toast.costmodel.evaluator import Evaluator
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.plan_module import make_plan
from toast.plans.result import PlanResult
from toast.request.request import PlanRequest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `((?:stablehlo|chlo)\.[^`]+)` \| ([^|]+?) \|", re.MULTILINE)
PLANNED = CONTROL | OPAQUE | COLLECTIVE | {"async": ASYNC, "@Sharding": SHARDING_CALL}


def documented() -> dict[str, str]:
    """The table of docs/ops.md: op -> how it is handled."""
    return dict(ROW.findall((ROOT / "docs" / "ops.md").read_text()))


def planned(text: str) -> PlanResult:
    request = PlanRequest(mesh="x=2,y=2", device="cpu", rollouts=50, seed=0)
    return make_plan(text.encode(), request)


def test_the_table_names_every_installed_op() -> None:
    assert documented().keys() == installed_ops()


def test_every_op_of_the_table_has_a_module() -> None:
    without = documented().keys() - MODULES.keys()
    assert without == {"stablehlo.return"}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_ops_are_handled_as_the_table_says(name: str) -> None:
    assert handling(name, MODULES[name]) == documented()[name]


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_op_is_priced_or_refused(name: str) -> None:
    if documented()[name] == "refused":
        with pytest.raises(ToastError):
            load(MODULES[name].encode())
        return
    evaluator = Evaluator(
        analyse(load(MODULES[name].encode()).program), Mesh.parse("x=2,y=2"), find("cpu")
    )
    assert evaluator.cost(()).seconds >= 0


@pytest.mark.parametrize("name", sorted(PLANNED))
def test_ops_with_effects_regions_or_calls_are_planned(name: str) -> None:
    result = planned(PLANNED[name])
    assert load(result.module).program.arguments


@pytest.mark.parametrize(
    "name",
    sorted(name for name, how in documented().items() if how != "refused" and name in MODULES),
)
@pytest.mark.nightly
def test_every_op_is_planned(name: str) -> None:
    assert planned(MODULES[name]).plan.arguments


def test_a_dynamic_shape_in_the_middle_is_refused() -> None:
    with pytest.raises(UnsupportedModule, match="dynamic shape"):
        planned(BOUNDED)


def test_what_asks_for_a_size_leaves_its_operand_free() -> None:
    program = load(MODULES["stablehlo.get_dimension_size"].encode()).program
    assert program.no_rule == {}
    analysis = analyse(program)
    value = program.arguments[0].value
    assert (analysis.colours.colour[program.def_names(value)] >= 0).all()


def test_what_no_rule_is_known_for_is_reported() -> None:
    program = load(OPAQUE["stablehlo.custom_call"].encode()).program
    assert program.no_rule == {"custom_call my_kernel": 1}
