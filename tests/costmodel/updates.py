"""The update of a weight whose gradient is made in another layout."""

from __future__ import annotations

from tests.costmodel.texts import maps, moves, product

W = "8x16x4xf32"
ARGUMENTS = f"x:32x8xf32 d:32x16x4xf32 p:{W} m:{W} n:{W}"
GRADIENT = product("g:16x4x8xf32", "d:32x16x4xf32", "x:32x8xf32", (0, 0))
UPDATE = [
    maps("add", f"m1:{W}", "m", "t"),
    maps("multiply", f"n1:{W}", "n", "t"),
    maps("multiply", f"u:{W}", "m1", "n1"),
    maps("subtract", f"p1:{W}", "p", "u"),
]
RESULTS = f"m1:{W} n1:{W} p1:{W}"
TRANSPOSED = moves("transpose", f"t:{W}", "g:16x4x8xf32", ", dims = [2, 0, 1]")
