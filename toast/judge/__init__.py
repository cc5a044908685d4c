"""Asks the real compiler: a sharded module compiled ahead of time, and what came out of it."""

from __future__ import annotations

from toast.judge.compiling import judge
from toast.judge.target import Target
from toast.judge.verdict import Collective, Memory, Refusal, Verdict

__all__ = ["Collective", "Memory", "Refusal", "Target", "Verdict", "judge"]
