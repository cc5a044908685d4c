"""The report, word by word for a small plan, and its special cases."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from tests.toast.samples import MIB, cost, make_plan
from toast.plans.argument_groups import merge_argument_groups
from toast.plans.plan import Group, Plan, Spec
from toast.plans.report import headline, partition_spec, render
from toast.verify.report import render_verification
from toast.verify.verification import Difference, ScaledSize, Verification

GOLDEN = Path(__file__).parent / "golden_report.txt"


def text_of(plan: Plan) -> str:
    console = Console(file=io.StringIO(), width=110)
    console.print(render(plan))
    file = console.file
    assert isinstance(file, io.StringIO)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def test_the_whole_report() -> None:
    assert text_of(make_plan()) == GOLDEN.read_text()


def test_a_decision_of_an_older_plan_has_its_cost_in_steps_of_one_device() -> None:
    row = {"colour": "batch", "axis": "data", "resolution": "", "cost_after": 0.5}
    assert "3 ms at most" in text_of(make_plan(decisions=[row]))


def test_a_plan_prints_as_its_report() -> None:
    plan = make_plan()
    text = str(plan)
    assert text.split()[:20] == str(headline(plan)).split()[:20]
    assert all(f"\n{table}" in text for table in ("Layout of the", "Predicted cost", "Decisions"))
    assert "\x1b" not in text


def test_the_headline_says_which_networks_the_axes_lie_over() -> None:
    plan = make_plan()
    axes = [
        axis.model_copy(update={"places": places})
        for axis, places in zip(plan.mesh.axes, (["nvlink:8", "infiniband:2"], []), strict=True)
    ]
    plan = plan.model_copy(update={"mesh": plan.mesh.model_copy(update={"axes": axes})})
    assert "mesh data=2 over nvlink:8, infiniband:2 x model=2;" in headline(plan).plain


def test_a_plan_that_does_not_fit_says_by_how_much() -> None:
    plan = make_plan(predicted=cost(0.002, 20 * MIB, fits=False))
    text = " ".join(text_of(plan).split())
    assert "DOES NOT FIT: 20.00 MiB of 16.00 MiB per device, 4.00 MiB too much." in text


def test_empty_parts_are_said_or_left_out() -> None:
    plan = make_plan(collectives=[], decisions=[], stages={}, unpriced=[], warnings=[])
    text = text_of(plan)
    assert "Communication: none." in text
    assert "Decisions: none" in text
    assert "Time by stage" not in text
    assert "without a rule" not in text


def test_meshes_that_were_tried_are_shown() -> None:
    assert "Meshes" not in text_of(make_plan())
    meshes = [
        {"mesh": "d0=4", "predicted": cost(0.003, 2 * MIB), "chosen": False},
        {"mesh": "d0=2,d1=2", "predicted": cost(0.002, 4 * MIB), "chosen": True},
        {"mesh": "d0=2,d1=1", "reason": "not reached within the budget", "chosen": False},
    ]
    lines = text_of(make_plan(meshes=meshes)).splitlines()
    rows = [line.split() for line in lines if line.startswith("d0=")]
    assert rows[0][:3] == ["d0=4", "3", "ms"]
    assert rows[1][-2:] == ["yes", "chosen"]
    assert " ".join(rows[2]) == "d0=2,d1=1 not reached within the budget"


def test_choices_are_shown_where_there_is_more_than_one() -> None:
    one = {**cost(0.002, 4 * MIB), "decisions": ["batch=data", "hidden=model:01"], "chosen": True}
    other = {**cost(0.004, 2 * MIB), "decisions": [], "chosen": False}
    assert "Choices" not in text_of(make_plan(choices=[one]))
    lines = text_of(make_plan(choices=[other, one])).splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("Choices")) + 2
    assert lines[first].split() == [
        "1",
        "4",
        "ms",
        "2.67",
        "ms",
        "1.33",
        "ms",
        "2.00",
        "MiB",
        "12%",
        "yes",
        "0",
    ]
    assert lines[first + 1].split()[-3:] == ["2", "this", "plan"]


def test_a_proof_is_reported_where_there_is_one() -> None:
    assert "Proof" not in text_of(make_plan())
    plan = make_plan(lower_bound=0.2, gap=0.2, relaxation="linear relaxation")
    text = " ".join(text_of(plan).split())
    assert "no state of this search costs less than 1.2 ms a step (linear relaxation)" in text
    assert "this plan costs 1.5 ms: a gap of 20.0%" in text


def test_names_are_not_read_as_markup() -> None:
    group = {
        "name": "state['[/bold]']['[red]'] :smile:",
        "shape": [4],
        "dtype": "f32",
        "spec": [[]],
        "arguments": [0],
    }
    text = text_of(make_plan(groups=[group]))
    assert "bold" in text
    assert "red" in text
    assert ":smile:" in text


def test_a_dimension_that_no_axis_divides_is_rounded_up() -> None:
    group = {
        "name": "vocab",
        "shape": [50257, 8],
        "dtype": "f32",
        "spec": [["data", "model"], []],
        "arguments": [0],
    }
    assert "12565 x 8" in text_of(make_plan(groups=[group]))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ([], "P()"),
        ([[], []], "P()"),
        ([["data"], []], "P('data')"),
        ([[], ["model"]], "P(None, 'model')"),
        ([["data", "model"], [], ["x"]], "P(('data', 'model'), None, 'x')"),
    ],
)
def test_specs_read_as_in_jax(spec: Spec, text: str) -> None:
    assert partition_spec(spec) == text


def difference(index: int, relative: float, *, mismatched: int = 0, untold: str = "") -> Difference:
    wrong = relative > 1e-5 or mismatched
    return Difference(
        index=index,
        name=f"result{index}",
        shape=[2, 3],
        dtype="f32",
        largest=relative * 2,
        scale=2.0,
        relative=relative,
        tolerance=1e-5,
        rms=relative / 2,
        rms_tolerance=1e-5,
        mismatched=mismatched,
        finite=mismatched == 0,
        verdict="untold" if untold else "differs" if wrong else "equal",
        why=untold or (f"in {mismatched} values" if mismatched else ""),
    )


def verification_text(
    *differences: Difference, rows: int = 10, scaled: Sequence[ScaledSize] = (), wide: bool = False
) -> str:
    verification = Verification(
        devices=8,
        seed=0,
        input_scale=1.0,
        wide=wide,
        scaled=list(scaled),
        differences=list(differences),
        collectives={},
        seconds={"run": 1.5},
    )
    console = Console(file=io.StringIO(), width=200)
    console.print(render_verification(verification, rows=rows))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_equal_results_show_the_largest_difference() -> None:
    text = verification_text(difference(0, 1e-7), difference(1, 3e-7))
    assert "Equal on 8 virtual devices, seed 0, in 1.5 s" in text
    assert "largest difference is 6.00e-07 (3.0e-07 of its scale), in result1" in text


def test_the_worst_results_come_first() -> None:
    rows = [difference(0, 1e-7), difference(1, 0.5), difference(2, 0.0, mismatched=3)]
    text = verification_text(*rows, rows=2)
    assert "the 2 largest of 3 results" in text
    assert text.index("result1") < text.index("result2")
    assert "result0" not in text
    assert "differs in 3 values" in text
    assert "NOT EQUAL on 8 virtual devices" in text
    assert "2 of 3 results differ, most in result1" in text


def test_a_run_that_cannot_tell_says_why() -> None:
    rows = [difference(0, 1e-7), *(difference(n, 0.0, untold="it is not finite") for n in (1, 2))]
    text = verification_text(*rows, wide=True)
    assert "Cannot be told on 8 virtual devices, seed 0, in 1.5 s, in 64-bit floats" in text
    assert "2 of 3 results say nothing, such as result1: it is not finite" in text


def test_a_few_results_that_say_nothing_are_counted() -> None:
    rows = [difference(0, 1e-7), difference(1, 1e-7), difference(2, 0.0, untold="noise")]
    assert "Equal on 8" in verification_text(*rows)
    assert "1 of 3 results say nothing of it" in verification_text(*rows)


def test_sizes_that_were_scaled_down_are_named() -> None:
    sizes = [
        ScaledSize(old=4096, new=128, of="w dim 0", dimensions=3),
        ScaledSize(old=18, new=18, of="w dim 1", dimensions=1, kept="a loop runs over it"),
    ]
    assert "Scaled down: w dim 0 4096 -> 128." in verification_text(
        difference(0, 0.0), scaled=sizes
    )
    assert "no dimension can be made smaller" in verification_text(
        difference(0, 0.0), scaled=sizes[1:]
    )


def group(name: str, *arguments: int, dtype: str = "f32", spec: Spec | None = None) -> Group:
    return Group(name=name, shape=[4], dtype=dtype, spec=spec or [[]], arguments=list(arguments))


def test_a_weight_and_its_moments_are_one_row() -> None:
    groups = [
        group("state['mu']['w']", 1),
        group("state['mu']['b']", 2, spec=[["data"]]),
        group("state['nu']['w']", 3),
        group("state['nu']['b']", 4, spec=[["model"]]),
        group("state['params']['w']", 5, 6),
        group("state['params']['b']", 7, dtype="bf16", spec=[["data"]]),
        group("x", 8),
        group("y", 9),
    ]
    merged = merge_argument_groups(groups)
    assert [(row.name, row.arguments) for row in merged] == [
        ("state['mu','nu','params']['w']", [1, 3, 5, 6]),
        ("state['mu']['b']", [2]),
        ("state['nu']['b']", [4]),
        ("state['params']['b']", [7]),
        ("x", [8]),
        ("y", [9]),
    ]


def test_rows_that_differ_twice_stay_apart() -> None:
    groups = [group("a['x']['p']"), group("a['y']['p']"), group("a['x']['q']")]
    assert [row.name for row in merge_argument_groups(groups)] == ["a['x','y']['p']", "a['x']['q']"]


def test_joined_rows_join_again() -> None:
    names = [f"s['{a}']['{b}']" for a in ("mu", "nu") for b in ("key", "value")]
    (row,) = merge_argument_groups(group(name, index) for index, name in enumerate(names))
    assert row.name == "s['mu','nu']['key','value']"
    assert row.arguments == [0, 1, 2, 3]


def test_attributes_join_as_keys_do() -> None:
    names = [f"opt.state[0].{kind}['h'][*].w" for kind in ("mu", "nu")]
    (row,) = merge_argument_groups(group(name, index) for index, name in enumerate(names))
    assert row.name == "opt.state[0].mu,nu['h'][*].w"
