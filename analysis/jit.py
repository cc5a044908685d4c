"""How kernels are compiled: to run without the GIL, and only once.

What Python calls is an `entry`, kept on disk. What only kernels call is `inner`: it is compiled as
part of the entries that call it, without the wrappers that Python would need, which take longer
to compile than most kernels. Neither counts references to its arrays, which would take most of
the time: so a kernel can neither make an array nor copy one (Numba refuses to compile it), and
what Python passes in it holds on to until the call returns. `toast.search.kernel_cache` forgets
entries when any source of theirs changes.
"""

from __future__ import annotations

from typing import Any

from numba import njit

entry: Any = njit(cache=True, nogil=True, _nrt=False)
inner: Any = njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
