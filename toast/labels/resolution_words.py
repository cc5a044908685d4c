"""What the resolution order of an action takes, in words."""

from __future__ import annotations

from collections import Counter

import numpy as np

from toast.analysis.analyse import Analysis
from toast.costmodel.evaluator import Action
from toast.labels.conflict_words import ConflictWords


class ResolutionWords:
    """Speaks of the compatibility sets of one analysed module."""

    def __init__(self, analysis: Analysis, words: ConflictWords) -> None:
        self._analysis = analysis
        self._words = words
        self._tied = Counter(analysis.groups.of_set.tolist())
        self._said: dict[int, tuple[str, str]] = {}

    def of(self, action: Action) -> list[str]:
        """The side that each bit takes, set 0 first; empty for a colour without conflicts."""
        sets = np.flatnonzero(self._analysis.groups.set_colour == action.group).tolist()
        return [self._sides(one)[action.bits >> bit & 1] for bit, one in enumerate(sets)]

    def _sides(self, group: int) -> tuple[str, str]:
        """The two resolutions of a group of sets that are tied."""
        if group not in self._said:
            which = int(np.argmax(self._analysis.groups.of_set == group))
            members = np.flatnonzero(self._analysis.conflicts.set_of == which).tolist()
            self._said[group] = self._words.of_set(members, self._tied[group]).resolutions
        return self._said[group]
