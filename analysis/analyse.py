"""The named-dimension analysis as a whole."""

from __future__ import annotations

import time
from dataclasses import dataclass

from toast.analysis.conflicts import Conflicts, find_conflicts
from toast.analysis.groups import Groups, group_repeats
from toast.analysis.names import Colours, map_edges, name_colours
from toast.analysis.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Names, colours, conflicts, compatibility sets and groups of one program."""

    program: Program
    colours: Colours
    conflicts: Conflicts
    groups: Groups
    seconds: dict[str, float]


def analyse(program: Program) -> Analysis:
    """Run the analysis of TOAST section 3 on a program."""
    start = time.perf_counter()
    edges = map_edges(program)
    colours = name_colours(program, edges)
    named = time.perf_counter()
    conflicts = find_conflicts(program, colours, edges)
    del edges  # of a large program they take as much memory as all names and factors
    groups = group_repeats(program, colours, conflicts)
    done = time.perf_counter()
    return Analysis(
        program=program,
        colours=colours,
        conflicts=conflicts,
        groups=groups,
        seconds={"names": named - start, "conflicts": done - named},
    )
