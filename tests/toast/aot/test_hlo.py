"""The parser of HLO text, on texts of the TPU's and the GPU's compiler."""

from __future__ import annotations

import re

import pytest

from tests.toast.aot.texts import module, text
from toast.analysis.errors import InvalidModule
from toast.aot.hlo import Shape, parse, split_top
from toast.aot.run_counts import runs, trip_count


def test_computations_and_the_entry() -> None:
    found = module("loop")
    assert found.entry.name == "main.6_spmd"
    assert list(found.computations) == [
        "region_2.3",
        "all-reduce-scatter.clone.1",
        "fused_computation.11",
        "body.4",
        "condition.1",
        "main.6_spmd",
    ]
    assert found.entry.root.opcode == "all-reduce"


def test_types_are_their_array_leaves() -> None:
    loop = module("loop").entry.by_name["while.30"]
    assert loop.opcode == "while"
    assert loop.shapes == (
        Shape(dtype="s32", dims=()),
        Shape(dtype="bf16", dims=(256, 256)),
        Shape(dtype="bf16", dims=(5, 256, 1024)),
    )
    assert loop.bytes == 4 + 2 * 256 * 256 + 2 * 5 * 256 * 1024


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("pred", 1), ("s4", 0), ("u8", 1), ("bf16", 2), ("f8e4m3fn", 1), ("c64", 8), ("token", 0)],
)
def test_bytes_of_element_types(dtype: str, size: int) -> None:
    assert Shape(dtype=dtype, dims=()).bytes == size


def test_half_bytes_add_up() -> None:
    assert Shape(dtype="s4", dims=(10,)).bytes == 5


def test_operands_with_and_without_their_types() -> None:
    entry = module("gpu").entry
    assert entry.by_name["t"].operands == ("zero", "gather-done")
    assert entry.by_name["w"].operands == ("t",)
    body = module("loop").computations["body.4"]
    assert body.root.operands == ("add.27", "fusion.27", "get-tuple-element.307")
    assert body.operand_bytes(body.by_name["fusion.27"]) == 2 * 256 * 1024


def test_constants_and_parameters_have_no_operands() -> None:
    scatter = module("loop").computations["all-reduce-scatter.clone.1"]
    table = scatter.by_name["constant.shard_id_table.2"]
    assert table.operands == ()
    assert table.inside == "{0, 1, 2, 3, 0, 1, 2, 3}"


def test_attributes_keep_what_is_in_brackets_and_quotes() -> None:
    found = module("loop")
    root = found.computations["condition.1"].root
    assert root.attributes() == {
        "direction": "LT",
        "metadata": r'{op_name="jit(f)/while/cond/lt, \"quoted\""}',
    }
    reduced = found.computations["all-reduce-scatter.clone.1"].by_name["all-reduce.7"]
    assert reduced.attributes()["replica_groups"] == "{{0,1,2,3},{4,5,6,7}}"


def test_called_computations() -> None:
    entry = module("loop").entry
    assert entry.by_name["while.30"].called("condition", "body") == ("condition.1", "body.4")
    assert entry.by_name["copy.4"].called("calls") == ()


def test_split_at_the_top() -> None:
    assert list(split_top('a={1,2}, b="x,}", c=[1,2]T(0,1)')) == [
        "a={1,2}",
        ' b="x,}"',
        " c=[1,2]T(0,1)",
    ]


def test_branches_are_a_list() -> None:
    line = "  ROOT %c = f32[] conditional(%i, %a, %b), branch_computations={%one, %two}"
    entry = parse(f"ENTRY %main (i: s32[]) -> f32[] {{\n{line}\n}}\n").entry
    assert entry.root.called("branch_computations") == ("one", "two")


def test_a_text_without_an_entry_is_refused() -> None:
    with pytest.raises(InvalidModule, match="no entry computation"):
        parse(text("loop").partition("ENTRY")[0])


def test_every_computation_runs_as_often_as_its_loops() -> None:
    trips = {run.computation.name: (run.trips, run.fused) for run in runs(module("loop"))}
    assert trips == {
        "main.6_spmd": (1.0, False),
        "body.4": (5.0, False),
        "fused_computation.11": (5.0, True),
        "all-reduce-scatter.clone.1": (5.0, True),
    }


def test_a_noted_trip_count_needs_no_condition() -> None:
    found = module("gpu")
    assert trip_count(found, found.entry, found.entry.by_name["w"]) == 7.0


@pytest.mark.parametrize(
    ("first", "step", "limit", "direction", "trips"),
    [(0, 1, 5, "LT", 5), (0, 2, 5, "LT", 3), (1, 1, 5, "LE", 5), (5, -1, 0, "GT", 5),
     (0, 1, 0, "LT", 1), (0, 2, 4, "LT", 2)],
)  # fmt: skip
def test_trips_are_read_off_the_condition(
    first: int, step: int, limit: int, direction: str, trips: int
) -> None:
    changed = text("loop").replace("direction=LT", f"direction={direction}")
    for name, value in (("constant.60", first), ("constant.52", step), ("constant.55", limit)):
        changed = re.sub(rf"(%{name} = .*constant)\(\d+\)", rf"\1({value})", changed)
    found = parse(changed)
    assert trip_count(found, found.entry, found.entry.by_name["while.30"]) == trips


def test_a_loop_that_cannot_be_read_counts_once() -> None:
    changed = text("gpu").replace(', backend_config={"known_trip_count":{"n":"7"}}', "")
    found = parse(changed)
    assert trip_count(found, found.entry, found.entry.by_name["w"]) == 1.0
