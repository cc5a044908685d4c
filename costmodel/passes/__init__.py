"""What compilers do to a program: one behaviour, one file, named as XLA names its pass."""

from __future__ import annotations
