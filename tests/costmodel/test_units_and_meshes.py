"""Sizes and meshes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.errors import InvalidMesh, InvalidRequest
from toast.costmodel.hardware.quantities import (
    bytes_between,
    format_bytes,
    format_seconds,
    parse_bytes,
    parse_seconds,
    seconds_between,
)
from toast.costmodel.network.mesh import Mesh


@pytest.mark.parametrize(
    ("text", "size"),
    [("16GiB", 16 * 2**30), ("40GB", 40 * 10**9), ("1024", 1024), ("1.5 KiB", 1536), ("1e3", 1000)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "0", "5x", "nan", "1e999"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10), ("500ms", 0.5), ("2min", 120), ("3", 3), ("1h", 3600)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


def test_formats_for_people() -> None:
    assert format_bytes(1536) == "1.50 KiB"
    assert format_bytes(3) == "3 B"
    assert format_bytes(2**41) == "2.00 TiB"
    assert format_seconds(0.0123) == "12.3 ms"
    assert format_seconds(0) == "0 s"


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


@given(
    st.lists(st.tuples(NAMES, st.integers(1, 64)), min_size=1, max_size=4, unique_by=lambda p: p[0])
)
def test_a_mesh_prints_as_it_parses(axes: list[tuple[str, int]]) -> None:
    text = ",".join(f"{name}={size}" for name, size in axes)
    if all(size == 1 for _, size in axes):
        with pytest.raises(InvalidMesh, match="one device"):
            Mesh.parse(text)
        return
    mesh = Mesh.parse(text)
    assert str(mesh) == text
    product = 1
    for _, size in axes:
        product *= size
    assert mesh.devices == product


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("data", "not a mesh axis"),
        ("data=", "not a mesh axis"),
        ("data=x", "not a mesh axis"),
        ("data=-2", "not a mesh axis"),
        ("data=0", "size 0"),
        ("a=2,a=4", "named twice"),
        ("a=1,b=1", "one device"),
        ("a=2,b=2,c=2,d=2,e=2,f=2,g=2", "7 axes"),
        ("a=" + "9" * 5000, "not a mesh axis"),
    ],
)
def test_what_is_no_mesh(text: str, message: str) -> None:
    with pytest.raises(InvalidMesh, match=message) as caught:
        Mesh.parse(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ((0.0123, 0.0111, 0.0154), "12.3 ms (11 to 15)"),
        ((0.382, 0.118, 1.036), "382 ms (120 ms to 1 s)"),
        ((5e-4, 4e-4, 1.2e-3), "500 us (400 us to 1.2 ms)"),
        ((1500.0, 1234.0, 2000.0), "1500 s (1200 to 2000)"),
    ],
)
def test_a_band_names_its_units_where_they_differ(
    figures: tuple[float, float, float], said: str
) -> None:
    assert seconds_between(*figures) == said


def test_a_band_of_bytes_has_two_digits() -> None:
    gib = 2.0**30
    assert bytes_between(2.02 * gib, 1.88 * gib, 2.44 * gib) == "2.02 GiB (1.9 to 2.4)"
    assert bytes_between(0.9 * gib, 0.8 * gib, 1.3 * gib) == "921.60 MiB (820 MiB to 1.3 GiB)"
