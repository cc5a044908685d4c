"""What all tests share."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

from toast.search.kernel_cache import warm_kernels

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background so, and processes that tests start inherit it:
    # those could not be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test fails because its machine is busy, or because the first example compiles kernels.
# `make nightly` asks for the thorough profile.
settings.register_profile(
    "untimed", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("untimed"), max_examples=300)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _kernels_of_this_version() -> None:
    """No test runs kernels that were compiled from other sources."""
    warm_kernels()
