"""Tests stand by themselves: what two of them need is a module of its own."""

from __future__ import annotations

import ast

import pytest

from tests.ground.repository import name_of, sources


def imported(text: str) -> set[str]:
    """The last name of each module that a text imports, and each name that it imports of one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
            found.add((node.module or "").rpartition(".")[2])
        elif isinstance(node, ast.Import):
            found |= {alias.name.rpartition(".")[2] for alias in node.names}
    return found


def test_no_module_of_tests_imports_another() -> None:
    names = {path.stem for path in sources("tests") if path.stem.startswith("test_")}
    wrong = {
        name_of(path): found
        for path in sources("tests")
        if (found := imported(path.read_text()) & names)
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from tests.a.test_b import c", {"test_b", "c"}),
        ("import tests.test_b as b", {"test_b"}),
        ("def f():\n    from tests import test_b", {"tests", "test_b"}),
    ],
)
def test_imports_are_found_wherever_they_are(text: str, names: set[str]) -> None:
    assert imported(text) == names
