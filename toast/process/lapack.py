"""What XLA calls on processors for Cholesky factors, triangular systems and the like."""

from __future__ import annotations

import numpy as np
from jax._src.lib import lapack


def load_lapack() -> None:
    """Load LAPACK for programs that jax lowered elsewhere.

    jax does so as it lowers a program. XLA ends the process on a call that nobody loaded.
    """
    lapack.prepare_lapack_call("potrf", np.float32)
