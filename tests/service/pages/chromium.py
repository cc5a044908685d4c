"""Chromium through Playwright: tabs that remember what their pages complain of."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

PHONE, DESK = 390, 1200
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"


def missing() -> str:
    """Why there is no browser for these tests; '' where there is one."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed; run make setup"
    if shutil.which("chromium") is None:
        return "Chromium is not installed; on Debian: apt-get install chromium"
    return ""


@contextlib.contextmanager
def running_browser() -> Iterator[Any]:
    """Debian's Chromium without a screen."""
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        yield browser
        browser.close()


def until(page: Any, expression: str, seconds: float = 60.0) -> None:
    """Wait for an expression to be true; from outside of the page, whose policy forbids `eval`."""
    end = time.monotonic() + seconds
    while not page.evaluate(f"Boolean({expression})"):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(50)


class Tab:
    """One tab with cookies and storage of its own."""

    def __init__(self, browser: Any, *, width: int = DESK, dark: bool = False) -> None:
        self._context = browser.new_context(
            viewport={"width": width, "height": 850},
            color_scheme="dark" if dark else "light",
            accept_downloads=True,
        )
        self.page = self._context.new_page()
        self.page.set_default_timeout(60_000)
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._hear)

    def close(self) -> None:
        self._context.close()

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.page.evaluate(OVERFLOW))

    def _hear(self, message: Any) -> None:
        # Chromium reports each answer above 400 as an error; pages say those in words.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)
