"""What is timed: one transformer, deeper, on more devices, with longer sequences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from toast.costmodel.network.mesh import Mesh

Sweep = Literal["layers", "devices", "sequence", "both"]
LAYERS = (18, 36, 90, 180)
PLANES = ((2, 4), (8, 8), (16, 16), (64, 64))
CUBES = ((2, 2, 2), (4, 4, 4), (8, 8, 8), (16, 16, 16))
SEQUENCES = (2_048, 8_192, 32_768)
TOKENS_PER_PLACE = 1_024
"""Tokens of a sequence for each device along its axis, where both grow (TOAST figure 10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """T2B, the 2B Gemma of `examples/models`, with these sizes on this mesh of a chip."""

    sweep: Sweep
    scan: bool = False
    layers: int = 18
    batch: int = 32
    seq: int = 2_048
    mesh: str = "data=2,model=4"
    device: str = "tpu-v5e"

    @property
    def module(self) -> str:
        """A name of the module: cases of equal modules have the same."""
        form = "scan" if self.scan else "unrolled"
        return f"t2b-{form}-{self.layers}x{self.batch}x{self.seq}"

    @property
    def key(self) -> str:
        """A name of the case."""
        return f"{self.sweep}: {self.module} on {self.device} {self.mesh}"

    @property
    def devices(self) -> int:
        """How many devices the mesh has."""
        return Mesh.parse(self.mesh).devices

    def bytes(self, folder: Path) -> bytes:
        """The module, lowered once and kept in `folder`."""
        path = folder / f"{self.module}.mlirbc"
        if not path.exists():
            from examples.models import t2b
            from toast.analysis.forms import bytecode

            config = replace(
                t2b.MODEL.config("paper", scan=self.scan),
                layers=self.layers,
                batch=self.batch,
                seq=self.seq,
            )
            folder.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(".new")
            fresh.write_bytes(bytecode(t2b.lower(config).compiler_ir("stablehlo")))
            fresh.replace(path)
        return path.read_bytes()


def cases() -> list[Case]:
    """Every case, those that are quick or at the end of a sweep first."""
    return sorted([*_layers(), *_devices(), *_sequences()], key=_rank)


def _rank(case: Case) -> int:
    ends = case.layers in (LAYERS[0], LAYERS[-1])
    sweeps = ("devices", "both", "sequence", "layers")
    return (
        0 if case.scan else 1 if case.sweep == "layers" and ends else 2 + sweeps.index(case.sweep)
    )


def _layers() -> list[Case]:
    return [
        Case(sweep="layers", scan=scan, layers=layers)
        for layers in LAYERS
        for scan in (True, False)
    ]


def _devices() -> list[Case]:
    shapes = (*PLANES, *CUBES)
    return [
        Case(sweep="devices", scan=scan, batch=1_024, mesh=_mesh(shape), device="tpu-v5p")
        for scan in (True, False)
        for shape in shapes
    ]


def _sequences() -> list[Case]:
    fixed = [
        Case(sweep="sequence", scan=scan, seq=seq, mesh=_mesh((2, 4, 2)), device="tpu-v5p")
        for scan in (True, False)
        for seq in SEQUENCES
    ]
    grown = [
        Case(
            sweep="both",
            seq=seq,
            mesh=_mesh((2, seq // TOKENS_PER_PLACE, 2)),
            device="tpu-v5p",
        )
        for seq in SEQUENCES
    ]
    return [*fixed, *grown]


def _mesh(shape: tuple[int, ...]) -> str:
    names = ("data", "model") if len(shape) == 2 else ("batch", "seq", "model")
    return ",".join(f"{name}={size}" for name, size in zip(names, shape, strict=True))
