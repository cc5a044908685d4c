"""Training steps of each library, sharded by `toast.autoshard` and compared with one device."""

from __future__ import annotations
