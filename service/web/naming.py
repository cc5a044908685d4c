"""What a job is called where nobody gave it a name."""

from __future__ import annotations

import re
from pathlib import Path

_HEAD = 1 << 16
_MODULE = re.compile(rb'^module @(?:([\w.$-]+)|"([^"\n]*)")', re.MULTILINE)
_LONGEST = 200


def own_name(module: Path) -> str:
    """The name that the text of a module gives itself; '' for other forms and for no file.

    It is looked for in the first bytes and not parsed: that is a worker's business.
    """
    try:
        with module.open("rb") as file:
            found = _MODULE.search(file.read(_HEAD))
    except OSError:
        return ""
    name = (found[1] or found[2]).decode(errors="replace") if found else ""
    return "".join(letter for letter in name if letter.isprintable())[:_LONGEST].strip()
