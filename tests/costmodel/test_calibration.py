"""The regression behind `toast calibrate`: laws, and devices that are known beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.analysis.errors import InvalidRequest
from toast.costmodel.calibration import Sample, fit_device, measured_link, non_negative, predict
from toast.costmodel.hardware.devices import Device, find
from toast.costmodel.network.collectives import Kind

KINDS = [kind.name.lower() for kind in Kind]


def plan(devices: int = 8) -> list[Sample]:
    """What a calibration measures, with no times yet."""
    rows = [
        Sample(bench="matmul", what=what, work=2.0 * size**3, seconds=1.0, starts=0.125)
        for what in ("bf16", "f32")
        for size in (128, 512, 2048)
    ]
    for power in (14, 18, 22, 26):
        work = float(1 << power)
        rows += [
            Sample(bench="copy", what="f32", work=8 * work, seconds=1.0, starts=0.125),
            Sample(bench="elementwise", what="i8", work=work, seconds=1.0, starts=0.125),
        ]
    rows += [
        Sample(bench="ops", what="f32", work=float(count), seconds=1.0, starts=1.0)
        for count in (4, 16, 64, 256)
    ]
    return rows + [
        Sample(
            bench="collective",
            what=what,
            work=float(1 << power),
            seconds=1.0,
            devices=devices,
            group=group,
            starts=0.125,
        )
        for what in KINDS
        for group in (2, devices)
        for power in (10, 16, 20, 24, 28)
    ]


def timed(device: Device, start: float = 0.0, noise: float = 0.0) -> list[Sample]:
    """The samples with the times that a device would show."""
    random = np.random.default_rng(0)
    return [
        replace(
            sample,
            seconds=(predict(sample, device) + start * sample.starts)
            * float(np.exp(noise * random.standard_normal())),
        )
        for sample in plan()
    ]


def figures(device: Device) -> dict[str, float]:
    link = device.links[measured_link(device, 8)]
    return {
        "bandwidth": device.bandwidth * device.stream_efficiency,
        "bf16": device.flops["bf16"] * device.matmul_efficiency,
        "f32": device.flops["f32"] * device.matmul_efficiency,
        "element_rate": device.element_rate,
        "op_overhead": device.op_overhead,
        "link": link.bandwidth,
        "latency": link.latency,
    }


@pytest.mark.parametrize("name", ["cpu", "a100-40gb", "h200", "tpu-v5e", "v100-16gb"])
def test_a_known_device_is_found_again(name: str) -> None:
    device = find(name)
    fit = fit_device(timed(device, start=3e-5), device, "a test")
    assert figures(fit.device) == pytest.approx(figures(device), rel=1e-3)
    assert np.abs(fit.errors).max() < 1e-3
    (slow,) = {round(v, 3) for v in fit.device.links[measured_link(device, 8)].slowdown.values()}
    assert slow == 1.0


def test_noise_moves_the_figures_little() -> None:
    device = find("a100-40gb")
    fit = fit_device(timed(device, start=3e-5, noise=0.1), device, "a test")
    assert figures(fit.device) == pytest.approx(figures(device), rel=0.3)


def test_one_disturbed_measurement_moves_the_figures_little() -> None:
    device = find("a100-40gb")
    samples = timed(device)
    for at in (2, 8, 30):
        samples[at] = replace(samples[at], seconds=20 * samples[at].seconds)
    fit = fit_device(samples, device, "a test")
    assert figures(fit.device) == pytest.approx(figures(device), rel=0.2)


def test_a_kind_that_is_slower_than_its_formula_gets_a_factor() -> None:
    device = find("a100-40gb")
    link = replace(device.links[0], slowdown={"all_to_all": 4.0})
    fit = fit_device(timed(replace(device, links=(link,))), device, "a test")
    slowdown = fit.device.links[0].slowdown
    others = [factor for kind, factor in slowdown.items() if kind != "all_to_all"]
    assert max(others) == pytest.approx(min(others), rel=1e-3)
    assert slowdown["all_to_all"] / others[0] == pytest.approx(4.0, rel=1e-3)
    assert np.abs(fit.errors).max() < 1e-3


def test_what_is_not_measured_stays_and_says_where_it_is_from() -> None:
    device = find("a100-40gb")
    fit = fit_device(timed(device), device, "a test")
    assert fit.device.memory_bytes == device.memory_bytes
    assert fit.device.flops["i8"] == device.flops["i8"]
    assert fit.device.links[1] == device.links[1]
    changed = {key for key, text in fit.device.sources.items() if text == "a test"}
    assert {"bandwidth", "flops.bf16", "links.nvlink", "op_overhead"} <= changed
    assert not changed & {"memory_bytes", "flops", "links.infiniband", "tile"}


def test_one_device_keeps_the_networks_of_its_base() -> None:
    device = find("h200")
    alone = [sample for sample in timed(device) if sample.bench != "collective"]
    fit = fit_device(alone, device, "a test")
    assert fit.device.links == device.links


def test_a_network_that_is_slower_than_the_next_makes_it_vanish() -> None:
    device = find("a100-40gb")
    slow = replace(device, links=(replace(device.links[0], link_bandwidth=1e6), device.links[1]))
    fit = fit_device(timed(slow), device, "a test")
    assert [link.name for link in fit.device.links] == ["nvlink"]


def test_times_that_do_not_grow_give_a_rate_no_worse_than_the_best_seen() -> None:
    device = find("cpu")
    samples = [
        replace(sample, seconds=sample.work**-0.5) if sample.bench == "copy" else sample
        for sample in timed(device)
    ]
    fit = fit_device(samples, device, "a test")
    assert 0.9 * (8 * 2**26) ** 1.5 < fit.device.bandwidth < float("inf")


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_time_is_refused(seconds: float) -> None:
    samples = timed(find("cpu"))
    samples[0] = replace(samples[0], seconds=seconds)
    with pytest.raises(InvalidRequest, match="which is no time"):
        fit_device(samples, find("cpu"), "a test")


@pytest.mark.parametrize("bench", ["matmul", "copy", "elementwise", "ops"])
def test_a_measurement_that_is_missing_is_named(bench: str) -> None:
    samples = [sample for sample in timed(find("cpu")) if sample.bench != bench]
    with pytest.raises(InvalidRequest, match=f"No {bench} was measured"):
        fit_device(samples, find("cpu"), "a test")


TERMS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4)


@given(TERMS, st.integers(0, 2**32 - 1))
def test_exact_times_give_their_coefficients(terms: list[float], seed: int) -> None:
    columns = np.random.default_rng(seed).uniform(0.1, 10, (12, len(terms)))
    assert non_negative(columns, columns @ np.array(terms)) == pytest.approx(terms, rel=1e-3)


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_no_coefficient_is_negative_and_none_is_better_zero(terms: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    columns, seconds = random.uniform(-5, 5, (10, terms)), random.uniform(0.1, 5, 10)
    assert (non_negative(columns, seconds) >= 0).all()


def test_how_devices_share_a_host_is_found() -> None:
    """All work on each of four at once; one that works alone is three times as fast."""
    known = replace(
        find("cpu"), shared_by=4, alone=3.0, program_start=2e-4, buffer_start=1e-5, op_overhead=1e-6
    )
    rows = [replace(row, devices=4) if row.bench != "collective" else row for row in plan()]
    rows += [replace(row, devices=1) for row in rows if row.bench == "matmul"]
    rows += [
        Sample(bench="buffers", what="f32", work=work, seconds=1.0, devices=4, starts=1.0)
        for work in (2.0, 16.0, 128.0)
    ]
    timed_rows = [
        replace(
            row,
            seconds=predict(row, known)
            + row.starts
            * known.program_start
            * (row.bench != "collective")
            / known.pace(row.devices),
        )
        for row in rows
    ]
    found = fit_device(timed_rows, find("cpu"), "here").device
    assert found.shared_by == 4
    assert found.alone == pytest.approx(3.0, rel=0.01)
    assert found.program_start == pytest.approx(2e-4, rel=0.05)
    assert found.buffer_start == pytest.approx(1e-5, rel=0.05)
    assert found.flops["f32"] == pytest.approx(
        known.flops["f32"] * known.matmul_efficiency, rel=0.05
    )


@pytest.mark.parametrize(("working", "pace"), [(1, 3.0), (2, 2.0), (4, 1.0), (8, 0.5)])
def test_devices_slow_each_other_down(working: int, pace: float) -> None:
    assert replace(find("cpu"), shared_by=4, alone=3.0).pace(working) == pace
    assert find("cpu").pace(working) == 1.0
