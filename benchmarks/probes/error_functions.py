"""Layers of two products with an exact GELU between them, without gradients.

Each device has all rows. The products have a bias, and what they are made of is normalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.probes.probe import Case, Probe, cycles
from benchmarks.probes.programs import lowered_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Rows in batches, columns and hidden columns of a type; a `tanh` in place of the error."""

    rows: tuple[int, ...]
    columns: int
    hidden: int
    dtype: str = "float32"
    tanh: bool = False

    def module(self) -> bytes:
        """The StableHLO."""
        n, m = self.columns, self.hidden
        shapes = ((*self.rows, n), (n, m), (m,), (m, n), (n,))
        return lowered_of(
            self.step, *(jax.ShapeDtypeStruct(shape, jnp.dtype(self.dtype)) for shape in shapes)
        )

    def step(self, x: Any, up: Any, a: Any, down: Any, b: Any) -> Any:
        """A residual layer."""
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        y = (x - mean) * jax.lax.rsqrt(variance + 1e-6) @ up + a
        return x + jax.nn.gelu(y, approximate=self.tanh) @ down + b


SIZES = {
    "4 x 512": ((4, 512), 512, 2048),
    "16 x 257": ((16, 257), 1024, 4096),
    "32 x 128": ((32, 128), 768, 3072),
    "8 x 256": ((8, 256), 768, 3072),
    "4,096 in one": ((4096,), 1024, 4096),
    "1 x 1,024": ((1, 1024), 1024, 4096),
}
LAYERS = {
    f"{name} in {bits} bits": Layer(rows=rows, columns=columns, hidden=hidden, dtype=dtype)
    for name, (rows, columns, hidden) in SIZES.items()
    for bits, dtype in ((32, "float32"), (16, "bfloat16"))
} | {"4 x 512 with a tanh": Layer(rows=(4, 512), columns=512, hidden=2048, tanh=True)}


PROBE = Probe(
    name="error_functions",
    figures="cycles of a layer",
    targets=("tpu-v5e:2x4", "tpu-v5p:2x2x2", "tpu-v3:2x2"),
    cases={name: Case.of(one.module, cycles) for name, one in LAYERS.items()},
)
