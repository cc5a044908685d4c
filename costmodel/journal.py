"""The journal of an evaluation, for those who read one."""

from __future__ import annotations

from toast.costmodel.terms.journal import ROW, SIZE, TABLE, CollectiveReason, Entry

__all__ = ["ROW", "SIZE", "TABLE", "CollectiveReason", "Entry"]
