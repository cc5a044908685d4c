"""The models of each library, and what makes a `Model` of them."""

from __future__ import annotations
