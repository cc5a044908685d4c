"""The child: reads one request a line, writes one answer a line, until its input ends.

python -m toast.analysis.shardcombine.child
"""

from __future__ import annotations

import json
import os
import sys
from typing import TextIO

from toast.analysis.parent_death import end_with_parent
from toast.analysis.shardcombine.findings import finding_from_json
from toast.analysis.shardcombine.runner import Request


def main() -> int:
    """Serve requests from standard input; returns the exit code."""
    end_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what XLA prints must not mix with the answers
    serve(sys.stdin, answers)
    return 0


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer every request."""
    from toast.analysis.shardcombine.inprocess import InProcess

    runner = InProcess()
    for line in requests:
        data = json.loads(line)
        hints = tuple(finding_from_json(item) for item in data["hints"])
        found = runner.run(Request(name=data["name"], text=data["text"], hints=hints))
        json.dump({"found": None if found is None else found.to_json()}, answers)
        answers.write("\n")
        answers.flush()


if __name__ == "__main__":
    sys.exit(main())
