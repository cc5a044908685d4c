"""The models of `diffusers` that are here."""

from __future__ import annotations

from diffusers import FlaxAutoencoderKL, FlaxControlNetModel

__all__ = ["FlaxAutoencoderKL", "FlaxControlNetModel"]
