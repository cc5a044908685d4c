"""Debian's Chromium without a screen, over WebDriver: for pictures and for tests of pages."""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import httpx2

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip
STARTED = "started successfully on port "


def missing() -> str:
    """Why there is no browser here; '' where there is one."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


class Browser:
    """One tab of a running Chromium."""

    def __init__(self, session: httpx2.Client) -> None:
        self._session = session

    def look(self, url: str, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Open a page on a screen of this width, which prefers light or dark."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._do("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._do("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._value("url", {"url": url})

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        asked = {"script": f"return {expression}", "args": []}
        return self._value("execute/sync", asked)

    def wait(self, expression: str, seconds: float = 10.0) -> Any:
        """The value of an expression as soon as it is there, or what it is in the end."""
        end = time.monotonic() + seconds
        while not (found := self.ask(expression)) and time.monotonic() < end:
            time.sleep(0.1)
        return found

    def newest_tab(self) -> None:
        """Go on in the tab that was opened last."""
        handles = self._session.get("window/handles").json()["value"]
        self._value("window", {"handle": handles[-1]})

    def picture(self) -> bytes:
        """A PNG of what is on the screen."""
        return base64.b64decode(self._do("Page.captureScreenshot", {"format": "png"})["data"])

    def _do(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._value("goog/cdp/execute", {"cmd": command, "params": parameters})

    def _value(self, path: str, asked: dict[str, Any]) -> Any:
        answer = self._session.post(path, json=asked)
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.text}")
        return answer.json()["value"]


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium with a profile of its own, which ends with the block."""
    # The browser may still write to its profile while it ends.
    folder = tempfile.TemporaryDirectory(prefix="toast-browser-", ignore_cleanup_errors=True)
    with folder as profile, _driver() as port:
        options = {"args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        root = f"http://127.0.0.1:{port}/session"
        answer = httpx2.post(root, json=wanted, timeout=60.0).raise_for_status()
        address = f"{root}/{answer.json()['value']['sessionId']}"
        with httpx2.Client(base_url=address, timeout=60.0) as session:
            try:
                yield Browser(session)
            finally:
                httpx2.delete(address, timeout=60.0)


@contextlib.contextmanager
def _driver() -> Iterator[int]:
    """ChromeDriver on a free port."""
    command = ["chromedriver", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stdout is not None
            line = next(line for line in driver.stdout if STARTED in line)
            yield int(line.partition(STARTED)[2].strip().rstrip("."))
        finally:
            driver.terminate()
