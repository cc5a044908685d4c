"""The passes of compilers that can be left out, and the profile of a chip's compiler."""

from __future__ import annotations

from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.passes.registry import PASSES, known_passes, without

__all__ = ["PASSES", "known_passes", "profile_of", "without"]
