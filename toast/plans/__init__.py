"""What `plan.json` holds: the record, its schema, its tables."""

from __future__ import annotations
