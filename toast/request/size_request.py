"""What `toast size` is asked, as one record that travels between processes."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toast.analysis.errors import InvalidRequest, UnknownDevice
from toast.costmodel.hardware.devices import catalogue, is_file
from toast.costmodel.hardware.quantities import parse_seconds
from toast.costmodel.network.auto_mesh import MAX_DEVICES
from toast.request.request import PlanRequest
from toast.request.settings import device_text, invalid_setting, memory_bytes

BUDGET = "60s"
"""What all slices together may take where nobody says otherwise."""


class SizeRequest(BaseModel):
    """Which slices are tried: powers of two from `least` to `most` chips of each of `devices`.

    `memory`, `seed`, `threads`, `overlap` and `penalty` are those of `PlanRequest`; `budget` are
    seconds for all searches together.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    devices: tuple[str, ...] = Field(min_length=1, max_length=64)
    least: int = Field(default=1, ge=1, le=MAX_DEVICES)
    most: int = Field(default=256, ge=1, le=MAX_DEVICES)
    memory: int | None = Field(default=None, gt=0)
    budget: float = Field(default=60.0, gt=0, le=86_400)
    seed: int = Field(default=0, ge=0, lt=2**63)
    threads: int = Field(default=0, ge=0, le=256)
    overlap: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    penalty: float | None = Field(default=None, gt=0, le=1e9, allow_inf_nan=False)

    @property
    def counts(self) -> list[int]:
        """How many chips a slice may have."""
        return [1 << k for k in range(17) if self.least <= 1 << k <= self.most]

    def plan_request(self, device: str) -> PlanRequest:
        """The settings of a search on slices of one chip; the mesh is chosen later."""
        shared = self.model_dump(include={"memory", "seed", "threads", "overlap", "penalty"})
        return PlanRequest(mesh="auto", device=device, **shared)


def make_size_request(
    *,
    devices: Sequence[str],
    memory: int | str | None = None,
    budget: float | str = BUDGET,
    **settings: object,
) -> SizeRequest:
    """A request whose every setting is in range; or a ToastError that says what is wrong.

    A device may be the beginning of one name of the catalogue: `h100` is `h100-80gb`.
    """
    fields = {key: value for key, value in settings.items() if value is not None}
    names = dict.fromkeys(map(full_name, devices))
    try:
        request = SizeRequest.model_validate(
            {
                "devices": tuple(names),
                "memory": None if memory is None else memory_bytes(memory),
                "budget": parse_seconds(budget),
                **fields,
            }
        )
    except ValidationError as error:
        raise invalid_setting(error) from None
    if not request.counts:
        raise InvalidRequest(
            f"There is no power of two from {request.least} to {request.most} chips.",
            "Slices have 1, 2, 4, 8, ... chips: widen the range.",
        )
    return request


def full_name(device: str) -> str:
    """The name of a chip, or the path of a device file; raises `UnknownDevice`."""
    device = device.strip()
    if is_file(device):
        return device_text(device)
    known = sorted(catalogue())
    found = [name for name in known if name == device] or [
        name for name in known if device and name.startswith(device)
    ]
    if len(found) != 1:
        what = f"may be {' or '.join(found)}" if found else "is no chip of the catalogue"
        raise UnknownDevice(f"{device!r} {what}.", f"Known devices: {', '.join(known)}.")
    return found[0]
