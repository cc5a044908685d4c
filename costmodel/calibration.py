"""A device profile from microbenchmarks, by regression as in DistIR section 4.

Each op is run alone at several sizes, and its time fitted as a sum of terms whose coefficients are
figures of the hardware: seconds per flop, per byte, per message. No coefficient is negative, errors
are relative, and those that stand out weigh less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from toast.analysis.errors import InvalidRequest
from toast.analysis.program import Floats
from toast.costmodel.hardware.devices import Device, Link
from toast.costmodel.network.collectives import Kind, Line, collective_tables
from toast.costmodel.network.mesh import Axis, Mesh

Bench = Literal["matmul", "copy", "elementwise", "ops", "buffers", "collective"]

_OUTLYING = 0.25
"""Relative errors above this weigh less: a measurement that something else disturbed."""
_ROUNDS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One microbenchmark.

    `work` is flops of a `matmul`, bytes read and written of a `copy`, elements of an `elementwise`
    op, how many small `ops` ran in a row, how many `buffers` a program was given and made, or bytes
    of the larger side of a `collective`. `what` is the element type, or which collective; that ran
    in each `group` of `devices` at once. `starts` is the share of one program's start that is in
    `seconds`. Where devices share a host, all but `matmul` run on all `devices` at once, and
    `matmul` both so and on one while the others rest.
    """

    bench: Bench
    what: str
    work: float
    seconds: float
    devices: int = 1
    group: int = 1
    starts: float = 0.0

    def __str__(self) -> str:
        over = f" over {self.group} of {self.devices}" if self.bench == "collective" else ""
        if self.bench != "collective" and self.devices > 1:
            over = f" on each of {self.devices}"
        return f"{self.bench} {self.what}{over}, {self.work:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted device, with each microbenchmark and the seconds that the device says it takes."""

    device: Device
    samples: tuple[Sample, ...]
    predicted: tuple[float, ...]

    @property
    def errors(self) -> Floats:
        """(predicted - measured) / measured."""
        measured = np.array([sample.seconds for sample in self.samples])
        return np.asarray(np.array(self.predicted) / measured - 1.0, dtype=np.float64)


def fit_device(samples: Sequence[Sample], base: Device, source: str) -> Fit:
    """`base` with every figure that the samples speak of replaced; `source` says where from.

    Raises `InvalidRequest` where a measurement is missing or is no time.
    """
    _check(samples)
    working = max(sample.devices for sample in samples if sample.bench != "collective")
    single = [
        sample for sample in samples if sample.bench != "collective" and sample.devices == working
    ]
    several = [sample for sample in samples if sample.bench == "collective"]
    device, start = _chip(single, base)
    device = replace(device, program_start=start, shared_by=working, alone=_alone(samples, working))
    starts = {"single": start, "several": 0.0}
    names = ["bandwidth", "element_rate", "op_overhead", "matmul_efficiency", "stream_efficiency"]
    names += ["program_start", "buffer_start", "shared_by", "alone"]
    names += sorted({f"flops.{sample.what}" for sample in single if sample.bench == "matmul"})
    if several:
        number = measured_link(base, max(sample.devices for sample in several))
        links, starts["several"] = _links(device, number, several)
        device = replace(device, links=links)
        names.append(f"links.{base.links[number].name}")
    device = replace(device, sources=device.sources | dict.fromkeys(names, source))
    predicted = tuple(
        predict(sample, device) + sample.starts * starts["several"]
        if sample.bench == "collective"
        else predict(sample, device)
        + sample.starts * starts["single"] / device.pace(sample.devices)
        for sample in samples
    )
    return Fit(device=device, samples=tuple(samples), predicted=predicted)


def predict(sample: Sample, device: Device) -> float:
    """Seconds that a device's figures give for a microbenchmark."""
    match sample.bench:
        case "matmul":
            seconds = sample.work / (device.flops[sample.what] * device.matmul_efficiency)
        case "copy":
            seconds = sample.work / (device.bandwidth * device.stream_efficiency)
        case "buffers":
            seconds = sample.work * device.buffer_start
        case "elementwise":
            seconds = sample.work / device.element_rate
        case "ops":
            return sample.work * device.op_overhead / device.pace(sample.devices)
        case "collective":
            link = device.links[measured_link(device, sample.devices)]
            lines = _lines(device, link, sample)
            return float(min(line.alpha + line.beta * sample.work for line in lines))
    return (seconds + device.op_overhead) / device.pace(sample.devices)


def _alone(samples: Sequence[Sample], working: int) -> float:
    """How many times as fast a device is while the others rest as while all of them work."""
    ratios = [
        one.seconds / other.seconds
        for one in samples
        for other in samples
        if one.bench == other.bench == "matmul"
        and (one.what, one.work) == (other.what, other.work)
        and one.devices == working
        and other.devices == 1
    ]
    return float(np.clip(np.median(ratios), 1.0, working)) if ratios else 1.0


def measured_link(device: Device, devices: int) -> int:
    """The network that collectives among this many devices of one machine run over."""
    fitting = (n for n, link in enumerate(device.links) if link.span >= devices)
    return next(fitting, len(device.links) - 1)


def non_negative(columns: Floats, seconds: Floats) -> Floats:
    """Coefficients of `columns` [rows, terms], none negative, for the least relative error.

    An error counts relative to the geometric mean of what is measured and what is fitted, so that
    half and twice are equally wrong; rows that are off by much weigh less, with the square of how
    much. With so few terms every choice of those that are zero is tried.
    """
    weights = 1.0 / seconds
    found = np.zeros(columns.shape[1])
    for _ in range(_ROUNDS):
        found = _best(columns * weights[:, None], seconds * weights)
        fitted = np.maximum(columns @ found, 1e-3 * seconds)
        middle = np.sqrt(seconds * fitted)
        off = np.abs(fitted - seconds) / middle
        weights = np.minimum(1.0, _OUTLYING / np.maximum(off, 1e-12)) / middle
    return found


def _best(rows: Floats, target: Floats) -> Floats:
    terms = rows.shape[1]
    best, least = np.zeros(terms), float(target @ target)
    for count in range(1, terms + 1):
        for chosen in map(list, combinations(range(terms), count)):
            part, *_ = np.linalg.lstsq(rows[:, chosen], target, rcond=None)
            error = float(np.sum((rows[:, chosen] @ part - target) ** 2))
            if (part >= 0).all() and error < least * (1 - 1e-9):
                best, least = np.zeros(terms), error
                best[chosen] = part
    return best


def _check(samples: Sequence[Sample]) -> None:
    for bench in ("matmul", "copy", "elementwise", "ops"):
        if not any(sample.bench == bench for sample in samples):
            raise InvalidRequest(
                f"No {bench} was measured, so no profile can be fitted.", "Measure again."
            )
    for sample in samples:
        if not (math.isfinite(sample.seconds) and sample.seconds > 0 and sample.work > 0):
            raise InvalidRequest(
                f"The time of {sample} is {sample.seconds}, which is no time.", "Measure again."
            )


def _chip(samples: Sequence[Sample], base: Device) -> tuple[Device, float]:
    """All figures of one device in one regression, and the seconds that a program's start takes.

    Every op but the small ones in a row takes its work at some rate, and an op's overhead.
    """
    terms = sorted({(sample.bench, sample.what) for sample in samples if sample.bench != "ops"})
    columns = np.zeros((len(samples), 2 + len(terms)))
    for row, sample in enumerate(samples):
        columns[row, 0] = sample.starts
        columns[row, 1] = sample.work if sample.bench == "ops" else 1.0
        if sample.bench != "ops":
            columns[row, 2 + terms.index((sample.bench, sample.what))] = sample.work
    seconds = np.array([sample.seconds for sample in samples])
    start, overhead, *slopes = non_negative(columns, seconds).tolist()
    rates = {
        term: 1.0 / slope if slope > 0 else _quickest(samples, term)
        for term, slope in zip(terms, slopes, strict=True)
    }
    device = replace(
        base,
        bandwidth=next(rate for (bench, _), rate in rates.items() if bench == "copy"),
        flops=base.flops
        | {what: rate for (bench, what), rate in rates.items() if bench == "matmul"},
        matmul_efficiency=1.0,
        stream_efficiency=1.0,
        element_rate=next(rate for (bench, _), rate in rates.items() if bench == "elementwise"),
        op_overhead=overhead,
        buffer_start=next(
            (1.0 / rate for (bench, _), rate in rates.items() if bench == "buffers"), 0.0
        ),
    )
    return device, start


def _quickest(samples: Sequence[Sample], term: tuple[str, str]) -> float:
    """The best rate seen, where the times do not grow with the work."""
    return max(s.work / s.seconds for s in samples if (s.bench, s.what) == term)


def _links(
    device: Device, number: int, samples: Sequence[Sample]
) -> tuple[tuple[Link, ...], float]:
    """The device's networks with the measured one fitted, and the seconds of a program's start.

    Latency and bandwidth belong to the network, a factor of time to each kind of collective.
    Networks behind it stay while they are slower.
    """
    plain = replace(
        device.links[number], link_bandwidth=1.0, latency=1.0, efficiency=1.0, slowdown={}
    )
    units = [_lines(device, plain, sample) for sample in samples]
    slow = dict.fromkeys(sorted({sample.what for sample in samples}), 1.0)
    latency, per_byte, start = _network(samples, [lines[0] for lines in units], slow)
    for _ in range(_ROUNDS):
        chosen = [
            min(lines, key=lambda line: line.alpha * latency + line.beta * per_byte * sample.work)
            for lines, sample in zip(units, samples, strict=True)
        ]
        slow = _slowdown(samples, chosen, (latency, per_byte, start))
        latency, per_byte, start = _network(samples, chosen, slow)
    fitted = replace(plain, link_bandwidth=1.0 / per_byte, latency=latency, slowdown=slow)
    kept = [*device.links[:number], fitted]
    for link in device.links[number + 1 :]:
        if link.bandwidth <= kept[-1].bandwidth:
            kept.append(link)
    return tuple(kept), start


def _network(
    samples: Sequence[Sample], lines: Sequence[Line], slow: dict[str, float]
) -> tuple[float, float, float]:
    """Seconds per hop, per byte of one link, and of a program's start."""
    factors = np.array([slow[sample.what] for sample in samples])
    work = np.array([sample.work for sample in samples])
    seconds = np.array([sample.seconds for sample in samples])
    alpha = factors * np.array([line.alpha for line in lines])
    beta = factors * np.array([line.beta for line in lines]) * work
    starts = np.array([sample.starts for sample in samples])
    terms = non_negative(np.stack([alpha, beta, starts], axis=1), seconds)
    return float(terms[0]), float(terms[1] or np.min(seconds / beta)), float(terms[2])


def _slowdown(
    samples: Sequence[Sample], lines: Sequence[Line], terms: tuple[float, float, float]
) -> dict[str, float]:
    """How much longer each kind takes than the formula, with a geometric mean of 1."""
    latency, per_byte, start = terms
    ratios: dict[str, list[float]] = {}
    for sample, line in zip(samples, lines, strict=True):
        formula = line.alpha * latency + line.beta * per_byte * sample.work
        spent = max(sample.seconds - start * sample.starts, 0.1 * sample.seconds)
        ratios.setdefault(sample.what, []).append(spent / max(formula, 1e-12))
    medians = {what: float(np.median(found)) for what, found in sorted(ratios.items())}
    mean = math.exp(sum(map(math.log, medians.values())) / len(medians))
    return {what: median / mean for what, median in medians.items()}


def _lines(device: Device, link: Link, sample: Sample) -> list[Line]:
    """The algorithms of a sample's collective where `link` is the only network."""
    outer, inner = sample.devices // sample.group, sample.group
    mesh = Mesh(axes=(Axis(name="outer", size=outer), Axis(name="inner", size=inner)))
    tables = collective_tables(mesh, replace(device, links=(link,)))
    kind: Any = Kind[sample.what.upper()]
    return [Line(*pair) for pair in zip(tables.alpha[kind, 2], tables.beta[kind, 2], strict=True)]
