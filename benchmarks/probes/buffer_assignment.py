"""How much of a chip's memory programs may have, as one that is too large is refused."""

from __future__ import annotations

import jax.numpy as jnp

from benchmarks.probes.probe import Case, Compiled, Probe
from benchmarks.probes.programs import lowered

GIB = 2**30


def too_large() -> bytes:
    """A copy of 256 GiB."""
    return lowered(jnp.sin, (2**16, 2**20))


def available(compiled: Compiled) -> float:
    """GiB, as the compiler says."""
    refusal = compiled.verdict.refusal
    assert refusal is not None
    assert refusal.available is not None
    return round(refusal.available / GIB, 2)


PROBE = Probe(
    name="buffer_assignment",
    figures="GiB that a program may have of a chip's memory",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2", "tpu-v6e:2x4"),
    cases={"256 GiB and a copy": Case.of(too_large, available)},
)
