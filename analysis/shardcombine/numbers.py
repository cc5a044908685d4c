"""Element types: MLIR's names, NumPy's types, and how closely two results have to agree."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_TYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
_TOLERANCE = {"f64": 1e-9, "complex<f64>": 1e-9, "f16": 1e-2, "bf16": 5e-2}
_COARSE = 0.3
_FINE = 2e-4


def known_dtype(name: str) -> bool:
    """Whether arrays of the element type that MLIR calls `name` can be made here."""
    return name in _TYPES


def dtype_of(name: str) -> Any:
    """NumPy's type for an element type; KeyError when there is none."""
    return np.dtype(_TYPES[name])


def tolerance(name: str) -> float:
    """The relative error that rounding may cause in sums of a few dozen terms."""
    return _TOLERANCE.get(name, _COARSE if name.startswith("f8") else _FINE)


def is_exact(name: str) -> bool:
    """Whether results of this type agree exactly or not at all."""
    return name.startswith(("i", "ui"))


def wide(array: Array) -> Array:
    """The same numbers in a type that NumPy computes with."""
    if array.dtype.kind in "biuc" or array.dtype == np.float64:
        return array
    return array.astype(np.float64)


def lowest(name: str) -> Any:
    """What `max` starts from."""
    return _limits(name)[0]


def highest(name: str) -> Any:
    """What `min` starts from."""
    return _limits(name)[1]


def _limits(name: str) -> tuple[Any, Any]:
    if name == "i1":
        return False, True
    if is_exact(name):
        bounds = np.iinfo(dtype_of(name))
        return bounds.min, bounds.max
    return -np.inf, np.inf
