"""How large a module may be. No jax here: the service states it, the engine keeps it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleLimits:
    """The most arguments of `main`, ops with all calls inlined, and bytes of constants.

    None is no limit.
    """

    arguments: int | None = None
    ops: int | None = None
    constant_bytes: int | None = None
