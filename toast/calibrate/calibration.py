"""`toast calibrate`: measure the machine at hand in a child process, fit a device profile to it."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toast.analysis.errors import InvalidRequest
from toast.costmodel.calibration import Fit, Sample, fit_device
from toast.costmodel.hardware.devices import Device, catalogue, find
from toast.process.runner import Event, python_module, run

CPU_DEVICES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What to measure: `platform` is JAX's (its own choice if empty), `devices` 0 for all.

    `base` is the catalogue's entry, or the device file, whose figures stand where nothing can be
    measured; by what JAX calls the device if empty. `quick` measures fewer and smaller sizes.
    """

    platform: str = ""
    devices: int = 0
    base: str = ""
    name: str = ""
    quick: bool = False


def calibrate(
    wanted: Calibration,
    *,
    on_sample: Callable[[Sample], None] | None = None,
    deadline_s: float | None = 3600.0,
) -> Fit:
    """Measure and fit; raises ToastError where JAX finds no device or a measurement fails."""
    base = find(wanted.base) if wanted.base else None
    machine: Event = {}
    samples: list[Sample] = []

    def on_event(event: Event) -> None:
        if event.get("event") == "machine":
            machine.update(event)
        elif event.get("event") == "sample":
            samples.append(Sample(**{k: v for k, v in event.items() if k != "event"}))
            if on_sample is not None:
                on_sample(samples[-1])

    with tempfile.TemporaryDirectory(prefix="toast-calibrate-") as name:
        outcome = run(
            Path(name),
            command=child_command(wanted),
            environment=child_environment(wanted),
            on_event=on_event,
            deadline_s=deadline_s,
        )
    outcome.raise_for_error()
    base = base or _base(machine)
    fit = fit_device(samples, base, _source(machine))
    device = _named(fit.device, machine, wanted.name)
    return replace(fit, device=device)


def child_command(wanted: Calibration) -> list[str]:
    """The command that measures in a process of its own."""
    quick = ["--quick"] if wanted.quick else []
    return [*python_module("toast.calibrate.child"), str(wanted.devices), *quick]


def child_environment(wanted: Calibration) -> dict[str, str]:
    """JAX's own choice of platform unless one is asked for; on a CPU virtual devices."""
    flags = os.environ.get("XLA_FLAGS", "")
    count = wanted.devices or CPU_DEVICES
    return {
        "JAX_PLATFORMS": wanted.platform or os.environ.get("JAX_PLATFORMS", ""),
        "JAX_ENABLE_X64": "1",
        "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count={count}".strip(),
    }


def _base(machine: Event) -> Device:
    kind = str(machine["device_kind"])
    for device in catalogue().values():
        if kind in device.device_kinds:
            return device
    raise InvalidRequest(
        f"The catalogue has no chip that JAX calls {kind!r}.",
        "Name the chip that is most like it with --base; its figures stand where none is measured.",
    )


def _source(machine: Event) -> str:
    day = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return (
        f"measured by `toast calibrate` on {machine['devices']} x {machine['device_kind']}, "
        f"jax {machine['jax']}, {day}"
    )


def _named(device: Device, machine: Event, name: str) -> Device:
    """What the profile is called, and the memory where the machine says how much there is."""
    changed: dict[str, Any] = {
        "name": name or f"{device.name}-calibrated",
        "description": f"{device.description}; calibrated",
    }
    if memory := machine.get("memory_bytes"):
        changed |= {
            "memory_bytes": int(memory),
            "reserved_bytes": 0,
            "sources": device.sources
            | dict.fromkeys(
                ("memory_bytes", "reserved_bytes"), "the memory of the machine, shared evenly"
            ),
        }
    return replace(device, **changed)
