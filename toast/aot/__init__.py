"""Asks the real compiler: a sharded module compiled ahead of time, and what came out of it."""

from __future__ import annotations

from toast.aot.compile import judge
from toast.aot.target import Target
from toast.aot.verdict import CompiledCollective, Memory, Refusal, Verdict

__all__ = ["CompiledCollective", "Memory", "Refusal", "Target", "Verdict", "judge"]
