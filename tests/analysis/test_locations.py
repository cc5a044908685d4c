"""What locations say, and that equal ones are read once."""

from __future__ import annotations

from examples import gemma
from toast.analysis.load import load
from toast.analysis.locations import Location, Locations

STACK = 'loc("jit(step)/jvp(bsd,dnh->bsnh)/dot_general"(callsite('
FRAMES = (
    '"attention"("/a/b.py":9:4 to :8) at callsite("layer"("/a/c.py":7:1) at "f"("d.py":1:0)))))'
)


def test_a_location_has_a_label_and_the_innermost_frame() -> None:
    found = Location.parse(STACK + FRAMES)
    assert found.label == "jit(step)/jvp(bsd,dnh->bsnh)/dot_general"
    assert found.line == "/a/b.py:9"
    assert found.function == "attention"


def test_what_a_location_does_not_say_is_empty() -> None:
    assert Location.parse("loc(unknown)") == Location(label="", line="", function="")
    line = Location.parse('loc("module.mlir":3:5)')
    assert (line.label, line.line, line.function) == ("", "module.mlir:3", "")


def test_layers_have_equal_locations() -> None:
    source = load(gemma.lower(gemma.PRESETS["tiny"]).as_text(debug_info=True).encode())
    locations = Locations(source)
    each = [locations[op] for op in range(source.program.ops)]
    distinct = {id(location) for location in each}
    assert len(distinct) < source.program.ops / 2
    for op in range(0, source.program.ops, 7):
        own = Location.parse(str(source.handles[op].location))
        is_called = source.locations[source.places[op]][1] >= 0
        assert each[op].label.endswith(own.label) if is_called else each[op] == own
