"""How many examples the laws that are slow to check are tried on."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def few(examples: int) -> settings:
    """Settings that try the same few examples on every run."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def many(examples: int) -> settings:
    """Settings that try other examples each night, and say how to try a failing one again."""
    return settings(few(examples), derandomize=False, print_blob=True)
