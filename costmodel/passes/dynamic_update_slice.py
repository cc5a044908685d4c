"""Updates of a part of a buffer: one writes the part in place, and no more.

What reads the buffer behind it fetches it (`costmodel/terms/updated_reads.py`).
"""

from __future__ import annotations

UPDATE_SLICE = "stablehlo.dynamic_update_slice"
