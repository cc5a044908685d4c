"""Collectives and cycles of compiled modules: each once, times its loops."""

from __future__ import annotations

import pytest

from tests.toast.aot.texts import module, text
from toast.aot.collectives import FoundCollective, find_collectives, wire_bytes
from toast.aot.compile import totals
from toast.aot.cycles import cycles_by_category, unestimated
from toast.aot.hlo import parse
from toast.costmodel.network.mesh import Mesh

MESH = Mesh.parse("data=2,model=4")


def found(name: str) -> dict[str, FoundCollective]:
    return {one.kind: one for one in find_collectives(module(name), MESH)}


def test_an_all_reduce_whose_slice_alone_is_kept_is_a_reduce_scatter() -> None:
    one = found("loop")["reduce_scatter"]
    assert (one.axes, one.group_size, one.trips) == (("model",), 4, 5.0)
    assert one.size == 2 * 256 * 1024
    assert one.wire == one.size * 3 / 4
    assert one.op_name == "jit(f)/while/body/dot_general"


def test_an_all_reduce_whose_whole_is_used_stays_one() -> None:
    changed = text("loop").replace(
        "dynamic-slice(%all-reduce.7, %con", "dynamic-slice(%input.2, %con"
    )
    kinds = [(one.kind, one.axes) for one in find_collectives(parse(changed), MESH)]
    assert kinds == [("all_reduce", ("data", "model")), ("all_reduce", ("model",))]


def test_tensors_that_are_scattered_together_are_one_reduce_scatter() -> None:
    """And what is sliced, but used whole as well, is an all-reduce."""
    rows = found("together")
    assert {kind: one.axes for kind, one in rows.items()} == {
        "reduce_scatter": ("data", "model"),
        "all_reduce": ("model",),
    }
    one = rows["reduce_scatter"]
    assert one.size == 2 * 4 * 1024 * 1024
    assert one.wire == one.size * 7 / 8
    assert one.op_name == "jit(step)/transpose(jvp())/dot_general"


@pytest.mark.parametrize(
    ("kept", "changed"),
    [
        ("tuple(%dynamic-slice.245, %dynamic-slice.246)", "tuple(%dynamic-slice.245, %input_1)"),
        ("tuple(%dynamic-slice.245, %dynamic-slice.246)", "tuple(%get-tuple-element.989)"),
        ("(%get-tuple-element.990, %constant.1035", "(%input_1, %constant.1035"),
    ],
)
def test_tensors_of_which_not_all_are_sliced_are_reduced_whole(kept: str, changed: str) -> None:
    found = find_collectives(parse(text("together").replace(kept, changed)), MESH)
    assert [one.kind for one in found] == ["all_reduce", "all_reduce"]


def test_the_pieces_of_an_asynchronous_collective_are_one() -> None:
    everything = find_collectives(module("pieces"), MESH)
    assert [one.kind for one in everything] == ["collective_permute", "all_gather"]
    permute, gather = everything
    assert (gather.axes, gather.size, gather.wire) == (("model",), 2 * 16 * 2048, 49152.0)
    assert (permute.axes, permute.wire) == (("model",), 2.0 * 16 * 512)


def test_asynchronous_pairs_and_wrapped_collectives() -> None:
    rows = found("gpu")
    assert list(rows) == ["all_gather", "all_reduce", "reduce_scatter"]
    assert (rows["all_gather"].axes, rows["all_gather"].size) == (("data", "model"), 4 * 64 * 64)
    assert (rows["all_reduce"].axes, rows["all_reduce"].trips) == (("data",), 7.0)
    assert rows["reduce_scatter"].size == 4 * 64 * 64
    assert rows["reduce_scatter"].wire == 4 * 64 * 64 * 7 / 8


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("all_reduce", 150.0),
        ("all_gather", 75.0),
        ("reduce_scatter", 75.0),
        ("all_to_all", 75.0),
        ("collective_permute", 100.0),
    ],
)
def test_ring_formulas(kind: str, expected: float) -> None:
    assert wire_bytes(kind, 100, 4) == expected  # type: ignore[arg-type]


def test_totals_are_by_kind_and_axes_and_count_trips() -> None:
    rows = totals(find_collectives(module("loop"), MESH))
    assert [(row.kind, row.axes, row.count) for row in rows] == [
        ("reduce_scatter", ("model",), 5.0),
        ("all_reduce", ("data", "model"), 1.0),
    ]
    assert rows[0].wire_bytes == 5 * 2 * 256 * 1024 * 3 / 4


def test_groups_that_are_no_axes_are_kept_with_their_size() -> None:
    changed = text("loop").replace("{{0,1,2,3},{4,5,6,7}}", "{{0,1},{2,3},{4,5},{6,7}}")
    row = totals(find_collectives(parse(changed), MESH))[0]
    assert (row.axes, row.group_size) == (None, 2)


def test_a_collective_of_one_device_is_none() -> None:
    changed = text("loop").replace("{{0,1,2,3},{4,5,6,7}}", "{{0},{1},{2},{3},{4},{5},{6},{7}}")
    assert [one.kind for one in find_collectives(parse(changed), MESH)] == ["all_reduce"]


def test_cycles_by_category_and_trips() -> None:
    assert cycles_by_category(module("loop")) == {"contraction": 5000.0, "reduce": 70.0}
    # A matrix product with a piece of a collective in it is a matrix product.
    assert cycles_by_category(module("pieces")) == {"contraction": 500.0, "copy": 40.0}
    assert cycles_by_category(module("gpu")) == {}


def test_cycles_that_the_compiler_does_not_know_are_left_out() -> None:
    changed = text("loop").replace('"1000"', f'"{2**63 - 1}"')
    assert cycles_by_category(parse(changed)) == {"reduce": 70.0}


def test_what_the_compiler_gives_no_time_is_counted() -> None:
    """A kernel and a sort take time, which no estimate has; a tuple takes none."""
    assert unestimated(module("loop")) == {}
    lines = text("loop").splitlines()
    last = max(n for n, line in enumerate(lines) if line.lstrip().startswith("ROOT"))
    kernel = '  %k = f32[8]{0} custom-call(), custom_call_target="tpu_custom_call"'
    added = [kernel, "  %s = f32[8]{0} sort(%k), dimensions={0}, to_apply=%less"]
    added.append("  %w = f32[4]{0} reduce-window(%s, %s), window={size=2 stride=2}, to_apply=%max")
    added.append("  %g = f32[8]{0} select-and-scatter(%s, %w, %s), window={size=2 stride=2}")
    changed = "\n".join([*lines[:last], *added, *lines[last:]])
    counts = dict.fromkeys(("kernel", "sort", "reduce-window", "select-and-scatter"), 1.0)
    assert unestimated(parse(changed)) == counts
    assert unestimated(module("gpu")) == {}
