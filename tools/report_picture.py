"""The picture of a report in the documentation: `python -m tools.report_picture docs/report.png`.

It needs Debian's `chromium` and `chromium-driver`. The plan is that of Gemma-2B on eight TPU v5p.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from examples import forms, gemma
from toast.api import plan
from tools.browser import browser, missing

WIDTH, HEIGHT = 1100, 1850
SHADES = 128


def main() -> None:
    """Plan, write the page, and keep what a reader sees of it first."""
    if why := missing():
        sys.exit(f"There is no browser: {why}. Try apt-get install chromium chromium-driver.")
    module = forms.serialize(gemma.make_step(gemma.PRESETS["gemma_2b"]), "bytecode")
    planned = plan(module, mesh="data=2,model=4", device="tpu-v5p", memory="34GiB").plan
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        page = planned.report(Path(folder) / "report.html", title="Sharding plan: gemma_2b")
        tab.look(page.as_uri(), width=WIDTH, height=HEIGHT)
        picture = Image.open(io.BytesIO(tab.picture()))
    few = picture.convert("RGB").quantize(SHADES, method=Image.Quantize.MAXCOVERAGE)
    few.save(sys.argv[1], optimize=True)


if __name__ == "__main__":
    main()
