"""A worker process for the tests: `python run_worker.py JSON`, the arguments of `work`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from toast.service.observe.logs import log_to_stderr
from toast.service.worker import work

if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    data = Path(arguments.pop("data"))
    log_to_stderr()
    work(data, health=("127.0.0.1", 0), **arguments)
