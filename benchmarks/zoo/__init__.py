"""Programs of public libraries, half of which nobody looks at while the cost model is made."""

from __future__ import annotations
