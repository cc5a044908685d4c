"""Laws of collectives over two networks: what crosses slices, and what stays inside."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.costmodel.hardware.devices import Device, Link, catalogue, find
from toast.costmodel.network.collectives import Kind, collective_tables
from toast.costmodel.network.mesh import Mesh

GATHERING = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER)
EXCHANGING = (*GATHERING, Kind.ALL_TO_ALL)
SWITCH = Link(name="fast", topology="switch", link_bandwidth=1e11, latency=1e-6, span=64)
SLOW = replace(SWITCH, name="slow", link_bandwidth=1e10, latency=1e-5, span=1 << 16)
TORUS = replace(SWITCH, topology="torus", links=4, dims=(8, 8))
TWO_NETWORKS = sorted(name for name, chip in catalogue().items() if len(chip.links) > 1)
ROUNDING = 1 + 1e-9

BYTES = st.floats(1, 1e11)
INSIDE = st.sampled_from([2, 4, 8])
SLICES = st.integers(2, 64)
FAST = st.sampled_from([SWITCH, TORUS])


def of(*links: Link) -> Device:
    """A chip that has these networks."""
    return replace(find("cpu"), links=links)


def seconds(device: Device, kind: Kind, inside: int, slices: int, size: float) -> float:
    """One collective over an axis of which the major part crosses the last network."""
    crossing = f"@{device.links[-1].name}:{slices}" if len(device.links) > 1 else ""
    mesh = Mesh.parse(f"a={inside * slices}{crossing}")
    return collective_tables(mesh, device).seconds(kind, 1, size)


def test_an_all_reduce_scatters_inside_reduces_across_and_gathers_inside() -> None:
    inside, slices, size = 8, 4, 1e9
    device = find("tpu-v5e")
    whole = seconds(device, Kind.ALL_REDUCE, inside, slices, size)
    ici = collective_tables(Mesh.parse("a=8"), device)
    dcn = collective_tables(Mesh.parse("a=4@dcn"), device)
    steps = (
        ici.seconds(Kind.REDUCE_SCATTER, 1, size),
        dcn.seconds(Kind.ALL_REDUCE, 1, size / inside),
        ici.seconds(Kind.ALL_GATHER, 1, size),
    )
    assert whole == pytest.approx(sum(steps))
    gathered = dcn.seconds(Kind.ALL_GATHER, 1, size / inside) + steps[2]
    assert seconds(device, Kind.ALL_GATHER, inside, slices, size) == pytest.approx(gathered)


@given(FAST, INSIDE, SLICES, BYTES, st.floats(1, 100), st.floats(1, 100))
def test_a_slower_network_between_slices_never_makes_anything_cheaper(
    fast: Link, inside: int, slices: int, size: float, rate: float, latency: float
) -> None:
    slower = replace(
        SLOW, link_bandwidth=SLOW.link_bandwidth / rate, latency=SLOW.latency * latency
    )
    for kind in Kind:
        one, other = (
            seconds(of(fast, link), kind, inside, slices, size) for link in (SLOW, slower)
        )
        assert one <= other * ROUNDING


@given(FAST, INSIDE, SLICES, BYTES, st.floats(0.01, 1), st.floats(1, 100))
def test_it_is_never_cheaper_than_the_least_on_the_fast_network_alone(
    fast: Link, inside: int, slices: int, size: float, rate: float, latency: float
) -> None:
    slow = replace(
        SLOW,
        link_bandwidth=min(fast.bandwidth, SWITCH.link_bandwidth) * rate,
        latency=fast.latency * latency,
    )
    n = inside * slices
    for kind in EXCHANGING:
        times = 2 if kind is Kind.ALL_REDUCE else 1
        least = times * (n - 1) / n * size / fast.bandwidth
        if kind is Kind.ALL_TO_ALL:  # what crosses is an equal part of the messages
            least = (slices - 1) / slices * size / fast.bandwidth
        assert seconds(of(fast, slow), kind, inside, slices, size) * ROUNDING >= least


@given(INSIDE, SLICES, BYTES)
def test_two_equal_networks_take_what_one_takes_within_the_bounds_of_its_algorithms(
    inside: int, slices: int, size: float
) -> None:
    """The same bytes, at a latency between that of a tree and that of a ring."""
    n, lane = inside * slices, SWITCH.bandwidth
    twin = replace(SWITCH, name="slow", span=1 << 16)
    alone = replace(SWITCH, span=1 << 16)
    for kind in GATHERING:
        times = 2 if kind is Kind.ALL_REDUCE else 1
        least = times * (math.ceil(math.log2(n)) * 1e-6 + (n - 1) / n * size / lane)
        ring = times * ((n - 1) * 1e-6 + (n - 1) / n * size / lane)
        found = seconds(of(SWITCH, twin), kind, inside, slices, size)
        flat = seconds(of(alone), kind, inside, slices, size)
        assert least <= found * ROUNDING
        assert found <= ring * ROUNDING
        assert least <= flat * ROUNDING
        assert flat <= ring * ROUNDING


@given(st.sampled_from(TWO_NETWORKS), INSIDE, st.sampled_from([2, 3, 4, 8, 16, 64]), BYTES)
def test_slices_are_never_slower_than_the_slow_network_alone(
    name: str, inside: int, slices: int, size: float
) -> None:
    chip = find(name)
    alone = of(chip.links[-1])
    for kind in Kind:
        one = seconds(chip, kind, inside, slices, size)
        assert one <= seconds(alone, kind, inside, slices, size) * ROUNDING, kind


@given(st.sampled_from(TWO_NETWORKS), INSIDE, st.integers(2, 63), BYTES)
def test_more_slices_take_longer(name: str, inside: int, slices: int, size: float) -> None:
    chip = find(name)
    for kind in Kind:
        few, many = (seconds(chip, kind, inside, n, size) for n in (slices, slices + 1))
        assert few <= many * ROUNDING, kind


@given(st.sampled_from(TWO_NETWORKS), INSIDE, SLICES, BYTES, st.floats(1, 100))
def test_more_bytes_take_longer(
    name: str, inside: int, slices: int, size: float, times: float
) -> None:
    chip = find(name)
    for kind in Kind:
        one, more = (seconds(chip, kind, inside, slices, n) for n in (size, times * size))
        assert one <= more * ROUNDING
        assert more <= times * one * ROUNDING


@given(st.sampled_from(TWO_NETWORKS), SLICES)
def test_a_wider_slice_brings_more_of_the_slow_network(name: str, slices: int) -> None:
    """Each device sends its share of what crosses, so large sums cross sooner from wide slices."""
    chip = find(name)
    narrow, wide = (
        collective_tables(Mesh.parse(f"a={n * slices}@{chip.links[-1].name}:{slices}"), chip)
        for n in (2, 8)
    )
    slow = chip.links[-1].bandwidth
    assert max(wide.beta[Kind.ALL_GATHER, 1]) < max(narrow.beta[Kind.ALL_GATHER, 1])
    assert min(narrow.beta[Kind.ALL_GATHER, 1]) >= (slices - 1) / slices / 2 / slow


def test_an_all_to_all_between_tpu_slices_goes_over_the_slow_network_whole() -> None:
    for name in TWO_NETWORKS:
        chip = find(name)
        slow = chip.links[-1]
        share = 15 / 16 if chip.kind == "tpu" else 1 / 2
        found = collective_tables(Mesh.parse(f"a=16@{slow.name}:2"), chip)
        beta = float(found.beta[Kind.ALL_TO_ALL, 1, 0])
        assert beta == pytest.approx(share / slow.bandwidth), name


@given(st.sampled_from(TWO_NETWORKS), INSIDE, SLICES, BYTES)
def test_a_permute_that_crosses_takes_what_the_slow_network_takes(
    name: str, inside: int, slices: int, size: float
) -> None:
    slow = find(name).links[-1]
    found = seconds(find(name), Kind.COLLECTIVE_PERMUTE, inside, slices, size)
    assert found == pytest.approx(slow.latency + size / slow.bandwidth)
