"""A program at other sizes: same ops, other dimensions, without lowering it again."""

from __future__ import annotations
