"""Layers whose forward pass runs again in the backward pass, so that less is kept between them."""

from __future__ import annotations
