"""The documents that a stranger looks for are there, and say what is true."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.ground.repository import ROOMS, ROOT, name_of, sources
from toast.analysis.errors import ERRORS, ToastError

ROW = re.compile(r"^\| `(\w+)` \| (\d{3}) \| (.+) \| (.+) \|$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)(?:#[^)]*)?\)")


def documented_errors() -> dict[str, int]:
    """The HTTP status of each error code in `docs/errors.md`."""
    rows = ROW.findall((ROOT / "docs/errors.md").read_text())
    table = {code: int(status) for code, status, *_ in rows}
    assert len(table) == len(rows), "a code is documented twice"
    return table


def class_fields(node: ast.ClassDef) -> dict[str, object]:
    """The fields of a class that are set to literals in its body."""
    fields: dict[str, object] = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign):
            targets: list[ast.expr] = [statement.target]
        elif isinstance(statement, ast.Assign):
            targets = statement.targets
        else:
            continue
        if isinstance(targets[0], ast.Name) and isinstance(statement.value, ast.Constant):
            fields[targets[0].id] = statement.value.value
    return fields


def declared_errors() -> dict[str, int]:
    """The HTTP status of each error class of any room, read off the sources."""
    found: dict[str, int] = {}
    for path in sources(*ROOMS):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef) or node.name == "ToastError":
                continue
            fields = class_fields(node)
            code, status = fields.get("code"), fields.get("status", ToastError.status)
            if isinstance(code, str) and isinstance(status, int):
                found[code] = status
    return found


def test_every_error_code_is_documented_with_its_status_and_no_other() -> None:
    assert documented_errors() == declared_errors()


def test_the_table_of_errors_is_part_of_what_is_declared() -> None:
    declared = declared_errors()
    assert {kind.code: kind.status for kind in ERRORS}.items() <= declared.items()


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_has_a_readme_that_says_something(room: str) -> None:
    text = (ROOT / room / "README.md").read_text()
    assert text.startswith("# ")
    assert len(text.split()) > 40


def test_the_licence_is_apache_2_and_whole() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "9. Accepting Warranty or Additional Liability" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert len(headings) == len(set(headings))


def markdown() -> list[Path]:
    """Every document of the repository."""
    folders = [ROOT / name for name in (*ROOMS, "docs", "benchmarks", "examples")]
    return [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))]


@pytest.mark.parametrize("path", markdown(), ids=name_of)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    links = [link for link in LINK.findall(path.read_text()) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_figure_is_shown_by_a_document() -> None:
    shown = {path.parent / link for path in markdown() for link in LINK.findall(path.read_text())}
    figures = [path for kind in ("svg", "png") for path in (ROOT / "docs").glob(f"*.{kind}")]
    assert [path for path in figures if path not in shown] == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout of the repository")
def test_nothing_that_is_ignored_is_committed() -> None:
    listed = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ""
