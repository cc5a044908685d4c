"""The kinds of cost rows: what each is made of and which columns the kernels read."""

from __future__ import annotations
