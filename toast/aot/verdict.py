"""What the compiler made of a module, as records."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on one device, as the compiler reports them; `alias` is output in argument buffers.

    `main` is what a TPU's compiler lays out in the chip's main memory, arguments included, and
    `on_chip` in its vector memory. Of its other figures `temp` counts some buffers twice and
    `peak`, None where it was not waited for, adds both memories up, so `main` is what is held
    against the memory there is.
    """

    argument: int
    output: int
    temp: int
    alias: int
    peak: int | None = None
    code: int = 0
    main: int | None = None
    on_chip: int | None = None

    @property
    def total(self) -> int:
        """What has to fit: arguments, results of their own, and temporaries."""
        if self.main is not None:
            return self.main
        return self.argument + self.output - self.alias + self.temp


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The compiler's own words for why it refuses, and the bytes wanted and there, if it says."""

    message: str
    needed: int | None
    available: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCollective:
    """All collectives of one kind over one set of mesh axes, in one step on one device.

    `axes` is None for groups of `group_size` that are no product of axes. `result_bytes` are of
    the larger side, `wire_bytes` what a ring puts on the links; both summed over all runs.
    """

    kind: Kind
    axes: tuple[str, ...] | None
    group_size: int
    count: float
    result_bytes: float
    wire_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A compiled module: `memory`, or `refusal` where it does not fit (on GPUs both).

    `cycles` is the compiler's estimate by category (empty where it gives none) and
    `compute_seconds` their sum at the chip's clock; `unestimated` is how often gathers, scatters,
    sorts and kernels run that have none, and are missing there. `communication_seconds` are the
    collectives by the tables of predictions, one after the other, and `makespan_seconds` a step in
    which the asynchronous ones run beside computation. `compile_seconds` is how long the compiler
    took. With `memory_only` it was ended once memory was laid out, before it estimated anything.

    `reserved_bytes` were taken from the memory before it compiled, and `rematerialized` counts the
    instructions that it computes again to save memory.
    """

    target: str
    devices: int
    memory: Memory | None = None
    refusal: Refusal | None = None
    collectives: tuple[CompiledCollective, ...] = ()
    cycles: dict[str, float] = field(default_factory=dict)
    compute_seconds: float | None = None
    compile_seconds: float = 0.0
    memory_only: bool = False
    communication_seconds: float | None = None
    makespan_seconds: float | None = None
    reserved_bytes: int = 0
    rematerialized: int = 0
    unestimated: dict[str, float] = field(default_factory=dict)

    @property
    def step_seconds(self) -> float | None:
        """Computation and then collectives, nothing at the same time; None without an estimate."""
        if self.compute_seconds is None or self.communication_seconds is None:
            return None
        return self.compute_seconds + self.communication_seconds

    @property
    def needed_bytes(self) -> int | None:
        """Memory of one device that the program needs, whether it fits or not."""
        if self.memory is not None:
            return self.memory.total
        return None if self.refusal is None else self.refusal.needed

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON values."""
        return asdict(self)

    def figures(self) -> dict[str, Any]:
        """The record as JSON values, with the figures that are computed from them."""
        return self.to_dict() | {
            "needed_bytes": self.needed_bytes,
            "step_seconds": self.step_seconds,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Verdict:
        """The record that `to_dict` made these values of."""
        rows = (
            row | {"axes": None if row["axes"] is None else tuple(row["axes"])}
            for row in data["collectives"]
        )
        changed = {
            "memory": Memory(**data["memory"]) if data["memory"] else None,
            "refusal": Refusal(**data["refusal"]) if data["refusal"] else None,
            "collectives": tuple(CompiledCollective(**row) for row in rows),
        }
        return cls(**(data | changed))
