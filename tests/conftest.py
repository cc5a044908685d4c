"""What all tests share."""

from __future__ import annotations

import signal
from pathlib import Path

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

TESTS = Path(__file__).parent
LONGEST = (
    "laws/test_chains.py",
    "service/test_store_machine.py",
    "costmodel/test_peak_pruning.py",
    "toast/verify",
    "toast/test_cli_plan.py",
    "service/test_recovery.py",
    "ground/test_wheel.py",
    "service/test_ray.py",
    "laws",
    "toast/test_changed_programs.py",
    "toast/test_demo.py",
    "service/test_openapi.py",
    "examples",
    "toast/forms",
    "toast/recompute",
    "toast/spmd",
    "toast/sharding",
    "analysis/shardcombine",
    "search",
    "service",
)
"""What takes minutes, the longest first: begun last, one would keep a process alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort what takes long to the front; the tests of a file stay together, in their order."""
    folders = [TESTS / one for one in LONGEST]
    assert all(one.exists() for one in folders), "LONGEST names what is not there"

    def turn(item: pytest.Item) -> int:
        found = (n for n, one in enumerate(folders) if item.path.is_relative_to(one))
        return next(found, len(folders))

    items.sort(key=turn)


@pytest.fixture(scope="session", autouse=True)
def _kernels_of_this_version() -> None:
    """No test runs kernels that were compiled from other sources."""
    warm_kernels()
