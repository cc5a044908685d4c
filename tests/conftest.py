"""What all tests share."""

from __future__ import annotations

import signal

import pytest

from toast.search.kernel_cache import warm_kernels

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background so, and processes that tests start inherit it:
    # those could not be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _kernels_of_this_version() -> None:
    """No test runs kernels that were compiled from other sources."""
    warm_kernels()
