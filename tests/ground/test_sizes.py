"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.ground.repository import SOURCES, name_of, sources

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60


def function_sizes(text: str) -> Iterator[tuple[str, int]]:
    """The name and the number of lines of each function, nested ones included."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def test_every_folder_of_sources_is_looked_at() -> None:
    found = {name_of(path).partition("/")[0] for path in sources()}
    assert found == set(SOURCES)


def test_no_file_is_over_400_lines() -> None:
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in sources()}
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES} == {}


def test_no_function_is_over_60_lines() -> None:
    long = [
        f"{name_of(path)}:{name} has {size} lines"
        for path in sources()
        for name, size in function_sizes(path.read_text())
        if size > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_function_sizes_counts_methods_nested_and_async_functions() -> None:
    text = "class A:\n    async def f(self):\n        def g():\n            pass\n        g()\n"
    assert dict(function_sizes(text)) == {"f": 4, "g": 2}
