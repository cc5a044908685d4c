"""Reads HTML that we write, strictly."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "path", "rect", "line"}


class Strict(HTMLParser):
    """Reads a page, and fails where tags do not nest; `tags` have their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.classes: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        self.classes += found.get("class", "").split()
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def read(page: str) -> Strict:
    reader = Strict()
    reader.feed(page)
    assert reader.open == []
    return reader


def assert_needs_nothing_else(page: str) -> None:
    """The page asks for no other file, runs nothing, and refers only to what it has."""
    reader = read(page)
    tags = {tag for tag, _ in reader.tags}
    assert tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "base", "form"})
    for _, attributes in reader.tags:
        assert attributes.keys().isdisjoint({"src", "srcset", "action", "background", "ping"})
        assert not any(name.startswith("on") for name in attributes)
    assert "@import" not in page
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for _, attributes in reader.tags if "href" in attributes]
    styled = re.findall(r"url\(([^)]*)\)", page)
    assert all(link.startswith("#") for link in (*links, *styled))
    assert {link.removeprefix("#") for link in (*links, *styled)} <= set(ids)
