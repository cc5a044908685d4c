"""What all tests share."""

from __future__ import annotations

import pytest

from toast.search.kernel_cache import warm_kernels


@pytest.fixture(scope="session", autouse=True)
def _kernels_of_this_version() -> None:
    """No test runs kernels that were compiled from other sources."""
    warm_kernels()
