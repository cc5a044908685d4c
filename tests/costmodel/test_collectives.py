"""What collectives cost: closed formulas on one network, laws on all of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.costmodel.hardware.devices import Device, Link, catalogue, find
from toast.costmodel.network.collectives import (
    CollectiveTables,
    Kind,
    collective_tables,
    wire_factor,
)
from toast.costmodel.network.mesh import Axis, Mesh

GATHERING = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER)


def tables(mesh: str, device: str | Device) -> CollectiveTables:
    found = find(device) if isinstance(device, str) else device
    return collective_tables(Mesh.parse(mesh), found)


def of(link: Link) -> Device:
    """A device that has one network."""
    return replace(find("cpu"), links=(link,))


def torus(*, dims: int = 2, wrap: int = 0) -> Device:
    return of(
        Link(
            name="ici",
            topology="torus",
            link_bandwidth=1e9,
            latency=1e-6,
            span=4096,
            links=2 * dims,
            dims=(64,) * dims,
            wrap=wrap,
        )
    )


SWITCH = of(Link(name="switch", topology="switch", link_bandwidth=1e9, latency=1e-6, span=4096))


@pytest.mark.parametrize("size", [1e3, 1e5, 1e9])
@pytest.mark.parametrize("n", [2, 4, 6, 32])
def test_a_switch_runs_a_ring_or_a_tree(n: int, size: float) -> None:
    found = tables(f"a={n}", SWITCH)
    ring = (n - 1) * 1e-6 + (n - 1) / n * size / 1e9
    tree = math.ceil(math.log2(n)) * 1e-6 + size / 1e9
    assert found.seconds(Kind.ALL_GATHER, 1, size) == pytest.approx(min(ring, tree))
    assert found.seconds(Kind.ALL_REDUCE, 1, size) == pytest.approx(2 * min(ring, tree))
    direct = math.ceil(math.log2(n)) * 1e-6 + (n - 1) / n * size / 1e9
    assert found.seconds(Kind.ALL_TO_ALL, 1, size) == pytest.approx(direct)
    assert found.seconds(Kind.COLLECTIVE_PERMUTE, 1, size) == pytest.approx(1e-6 + size / 1e9)


@pytest.mark.parametrize("n", [2, 3, 8, 16])
def test_a_ring_has_twice_the_bandwidth_of_a_line_and_half_the_steps(n: int) -> None:
    line, ring = tables(f"a={n}@ici.x", torus()), tables(f"a={n}@ici.x", torus(wrap=n))
    share = (n - 1) / n
    assert line.seconds(Kind.ALL_GATHER, 1, 1e6) == pytest.approx((n - 1) * 1e-6 + share * 1e-3)
    steps = math.ceil((n - 1) / 2)
    assert ring.seconds(Kind.ALL_GATHER, 1, 1e6) == pytest.approx(steps * 1e-6 + share * 5e-4)
    # the middle of a line carries n/2 * n/2 of the n^2 parts
    crossing = (n * n // 4) / n * 1e-3
    assert line.beta[Kind.ALL_TO_ALL, 1, 0] * 1e6 == pytest.approx(crossing)
    assert ring.beta[Kind.ALL_TO_ALL, 1, 0] * 1e6 == pytest.approx(crossing / 2)


def test_several_axes_use_all_their_links_at_once() -> None:
    found = tables("a=16,b=16", torus(wrap=16))
    one, both = (float(found.beta[Kind.ALL_GATHER, axes, 0]) for axes in (1, 3))
    assert one == pytest.approx(15 / 16 / 2e9)
    assert both == pytest.approx(255 / 256 / 4e9)


def test_a_short_dimension_cannot_carry_more_than_it_is_given() -> None:
    # 64 x 2: ideally both links carry half, but x alone moves 63 of 128 parts at the least.
    found = tables("a=64@ici.x,b=2@ici.y", torus())
    assert float(found.beta[Kind.ALL_GATHER, 3, 0]) == pytest.approx(127 / 128 / 2e9)
    slow = tables("a=64@ici.x,b=2@ici.x,c=2@ici.y", torus())
    # a steps over b, so its links are shared by two groups
    assert float(slow.beta[Kind.ALL_GATHER, 1, 0]) == pytest.approx(63 / 64 / 5e8)
    assert float(slow.beta[Kind.ALL_GATHER, 3, 0]) == pytest.approx(127 / 128 / 1e9)
    assert float(slow.beta[Kind.ALL_GATHER, 5, 0]) == pytest.approx(63 / 128 / 5e8)


def test_a_node_without_a_switch_gives_a_group_its_share_of_the_links() -> None:
    link = Link(name="nvlink", topology="ring", link_bandwidth=1e9, latency=1e-6, span=8, links=6)
    rates = {}
    for n in (2, 4, 8):
        beta = float(tables(f"a={n}", of(link)).beta[Kind.ALL_GATHER, 1, 0])
        rates[n] = (n - 1) / n / beta
    assert rates == {2: pytest.approx(1e9), 4: pytest.approx(3e9), 8: pytest.approx(6e9)}


def test_two_networks_are_crossed_one_after_the_other_or_by_rails() -> None:
    device = find("a100-40gb")
    inside, between = device.links
    found = tables("data=2,model=8", device)
    nested = 7 / 8 / inside.bandwidth + 1 / 2 / 8 / between.bandwidth
    rails = 15 / 16 / min(inside.bandwidth, 8 * between.bandwidth)
    betas = found.beta[Kind.ALL_GATHER, 3]
    assert any(beta == pytest.approx(rails) for beta in betas)
    latency = 3 * inside.latency + between.latency
    small = found.seconds(Kind.ALL_GATHER, 3, 8.0)
    assert small == pytest.approx(latency, rel=1e-3)
    assert min(betas) == pytest.approx(min(nested, rails))
    assert found.seconds(Kind.ALL_REDUCE, 1, 1e8) > 5 * found.seconds(Kind.ALL_REDUCE, 2, 1e8)


def test_small_messages_are_bound_by_latency() -> None:
    for name, device in catalogue().items():
        found = tables("a=8", device)
        for kind in Kind:
            one, other = (found.seconds(kind, 1, size) for size in (1.0, 100.0))
            assert other < 1.01 * one, (name, kind)


def test_the_measured_slowdown_of_a_kind_is_its_alone() -> None:
    link = replace(SWITCH.links[0], slowdown={"all_to_all": 3.0, "all_reduce": 2.0})
    plain, slow = tables("a=4", SWITCH), tables("a=4", of(link))
    ratio = {kind: slow.seconds(kind, 1, 1e6) / plain.seconds(kind, 1, 1e6) for kind in Kind}
    expected = {Kind.ALL_TO_ALL: 3.0, Kind.ALL_REDUCE: 2.0}
    assert ratio == {kind: pytest.approx(expected.get(kind, 1.0)) for kind in Kind}


def test_bytes_on_the_wire_are_those_of_a_ring() -> None:
    factors = [wire_factor(kind, 4) for kind in Kind]
    assert factors == [1.5, 0.75, 0.75, 0.75, 1.0]
    assert [wire_factor(kind, 1) for kind in Kind] == [0, 0, 0, 0, 1.0]
    found = tables("a=2,b=4", "tpu-v5e")
    assert found.shards.tolist() == [1, 2, 4, 8]
    assert found.wire[Kind.ALL_REDUCE].tolist() == [0, 1.0, 1.5, 1.75]


def test_nothing_costs_nothing() -> None:
    found = tables("a=1,b=4", "tpu-v5e")
    assert all(found.seconds(kind, axes, 1e9) == 0 for kind in Kind for axes in (0, 1))
    assert all(found.seconds(kind, 2, 1e9) == found.seconds(kind, 3, 1e9) > 0 for kind in Kind)


DEVICES = st.sampled_from(sorted(catalogue()))
SIZES = st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), min_size=1, max_size=4)
BYTES = st.floats(1, 1e10)


def lattice(sizes: list[int]) -> Mesh:
    return Mesh(axes=tuple(Axis(name=f"a{n}", size=size) for n, size in enumerate(sizes)))


@given(DEVICES, SIZES, BYTES, st.floats(1, 100))
def test_more_bytes_take_longer(device: str, sizes: list[int], size: float, times: float) -> None:
    found = collective_tables(lattice(sizes), find(device))
    for axes in range(len(found.shards)):
        for kind in Kind:
            one, more = (found.seconds(kind, axes, n) for n in (size, size * times))
            assert 0 <= one <= more <= times * one * (1 + 1e-9) + 1e-30


@given(DEVICES, SIZES, BYTES)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(
    device: str, sizes: list[int], size: float
) -> None:
    found = collective_tables(lattice(sizes), find(device))
    for axes in range(len(found.shards)):
        whole, gather, scatter = (found.seconds(kind, axes, size) for kind in GATHERING)
        assert gather == scatter
        assert whole == pytest.approx(gather + scatter)


@given(st.integers(2, 64), st.integers(1, 64), BYTES)
def test_more_devices_on_a_switch_take_longer(n: int, more: int, size: float) -> None:
    few, many = (tables(f"a={count}", SWITCH) for count in (n, n + more))
    for kind in (*GATHERING, Kind.ALL_TO_ALL):
        assert few.seconds(kind, 1, size) <= many.seconds(kind, 1, size) * (1 + 1e-9)
    permutes = (found.seconds(Kind.COLLECTIVE_PERMUTE, 1, size) for found in (few, many))
    assert len(set(permutes)) == 1


@given(st.integers(2, 63), BYTES)
def test_a_longer_line_of_a_torus_takes_longer(n: int, size: float) -> None:
    few, many = (tables(f"a={count}@ici.x", torus()) for count in (n, n + 1))
    for kind in (*GATHERING, Kind.ALL_TO_ALL):
        assert few.seconds(kind, 1, size) < many.seconds(kind, 1, size)


@given(
    st.sampled_from(["a100-40gb", "h200", "v100-16gb", "p100-16gb"]),
    st.sampled_from([2, 4, 8]),
    st.integers(2, 64),
    BYTES,
)
def test_two_networks_are_never_slower_than_the_slow_one_alone(
    name: str, inner: int, outer: int, size: float
) -> None:
    device = find(name)
    flat = of(replace(device.links[1]))
    mesh = f"a={inner * outer}"
    for kind in GATHERING:
        nested = tables(f"{mesh}@nvlink:{inner}/infiniband", device).seconds(kind, 1, size)
        alone = tables(mesh, flat)
        n = inner * outer
        ring = (n - 1) * flat.links[0].latency + (n - 1) / n * size / flat.links[0].bandwidth
        times = 2 if kind is Kind.ALL_REDUCE else 1
        assert nested <= times * ring * (1 + 1e-9)
        assert alone.seconds(kind, 1, size) <= times * ring * (1 + 1e-9)


@given(SIZES, BYTES)
def test_the_order_of_axes_on_one_network_does_not_matter_to_all_of_them(
    sizes: list[int], size: float
) -> None:
    whole = (1 << len(sizes)) - 1
    one, other = (collective_tables(lattice(order), SWITCH) for order in (sizes, sizes[::-1]))
    for kind in Kind:
        assert one.seconds(kind, whole, size) == pytest.approx(other.seconds(kind, whole, size))
