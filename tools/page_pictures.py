"""The pictures of the service's pages: `python -m tools.page_pictures docs`.

It needs Playwright and Debian's `chromium`. Small models of `examples` are planned on a service.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from examples import forms, gemma, mlp
from tests.service.harness import Server
from tests.service.pages.chromium import PHONE, missing, running_browser

WIDTH, HEIGHT = 1000, 700
SHADES = 96
JOBS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("mlp.mlir", "mlp", {"mesh": "data=4", "device": "tpu-v5e"}),
    ("gemma_tiny.mlir", "gemma", {"mesh": "data=2,model=4", "device": "tpu-v5p"}),
    (
        "gemma_tiny.mlir",
        "gemma",
        {"mesh": "data=8", "device": "cpu", "memory": "200KB", "advice": False},
    ),
    ("export-of-monday.mlir", "poem", {"mesh": "data=2"}),
)


def main() -> None:
    """Plan, look at the pages, and keep what a reader sees first."""
    if why := missing():
        sys.exit(why)
    folder = Path(sys.argv[1])
    modules = {
        "mlp": forms.serialize(mlp.make_step(mlp.PRESETS["small"]), "text").decode(),
        "gemma": forms.serialize(gemma.make_step(gemma.PRESETS["tiny"]), "text").decode(),
        "poem": "no module, but a poem\n",
    }
    with tempfile.TemporaryDirectory() as data, Server(Path(data) / "data") as server:
        chosen = ""
        for name, module, settings in JOBS:
            asked = {"rollouts": 200, **settings}
            job = server.submit(modules[module], name=name, **asked)["id"]
            ended = server.finished(job, seconds=300)
            if ended["summary"]:
                chosen = job
        with running_browser() as browser:
            pages = {
                "pages-jobs": ("/", WIDTH),
                "pages-job": (f"/ui/job.html?id={chosen}", WIDTH),
                "pages-phone": ("/", PHONE),
            }
            for file, (path, width) in pages.items():
                _keep(browser, server.url + path, width, folder / f"{file}.png")


def _keep(browser: Any, url: str, width: int, file: Path) -> None:
    page = browser.new_page(viewport={"width": width, "height": HEIGHT})
    page.goto(url)
    page.wait_for_selector("tr[data-job] .badge, iframe", timeout=60_000)
    page.wait_for_timeout(1500)
    picture = Image.open(io.BytesIO(page.screenshot()))
    page.close()
    few = picture.convert("RGB").quantize(SHADES, method=Image.Quantize.MAXCOVERAGE)
    few.save(file, optimize=True)


if __name__ == "__main__":
    main()
