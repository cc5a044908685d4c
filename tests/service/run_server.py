"""A server process for the tests: `python run_server.py JSON`, the arguments of `serve`."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from pathlib import Path

from tests.service import fault_points
from toast.service.observe.logs import log_to_stderr
from toast.service.server import serve


def report_modules(path: Path) -> None:
    """Write the names of all loaded modules whenever asked to, by a file that appears."""
    asked = path.with_suffix(".ask")
    while True:
        threading.Event().wait(0.05)
        if asked.exists():
            asked.unlink()
            temporary = path.with_suffix(".tmp")
            temporary.write_text("\n".join(sorted(sys.modules)))
            temporary.replace(path)


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    data = Path(arguments.pop("data"))
    arguments["keys"] = Path(arguments["keys"]) if "keys" in arguments else None
    descriptors = arguments.pop("descriptors", None)
    if descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    if "umask" in arguments:
        os.umask(arguments.pop("umask"))
    data.mkdir(parents=True, exist_ok=True)
    log_to_stderr(arguments.pop("log_format", "text"))
    if fault_points.ENVIRONMENT in os.environ:
        fault_points.install(Path(os.environ[fault_points.ENVIRONMENT]))
    watcher = threading.Thread(target=report_modules, args=(data / "modules.txt",), daemon=True)
    watcher.start()
    serve("127.0.0.1", 0, data, **arguments)
    assert os.environ.get("TOAST_API_KEYS") is None
