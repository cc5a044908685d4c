"""A name means one thing: no class of one room is called as a class of another module."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.ground.repository import ROOMS, name_of, sources


def test_no_two_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sources(*ROOMS):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(name_of(path))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
