"""Where in somebody's source an op comes from, read off its MLIR location."""

from __future__ import annotations

import re
from typing import Any

_FILE = re.compile(r'"([^"]+)":(\d+):\d+')
_FRAME = re.compile(r'"([^"]+)"\("[^"]+":\d+')
_LABEL = re.compile(r'loc\("((?:[^"\\]|\\.)*)"[()]')


def label(handle: Any) -> str:
    """The name stack of an op, such as `jit(step)/jvp(bsd,dnh->bsnh)/dot_general`, or ''."""
    match = _LABEL.match(str(handle.location))
    return match[1] if match else ""


def source_line(handle: Any) -> str:
    """`file.py:99` of the innermost frame, or '' where the module has no debug information."""
    for path, line in _FILE.findall(str(handle.location)):
        return f"{path}:{line}"
    return ""


def function(handle: Any) -> str:
    """The function of the innermost frame, such as `attention`, or ''."""
    match = _FRAME.search(str(handle.location))
    return match[1] if match else ""
