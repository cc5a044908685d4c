"""Files with one mistake, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toast.analysis.errors import InvalidDevice

Mistake = tuple[str, str, str]
"""What stands in the file, what is put in its place, and what is said then."""


def refusal(read: Callable[[str, str], Any], text: str, mistake: Mistake, file: str) -> str:
    """What a reader says of a file with a mistake."""
    before, after, message = mistake
    assert before in text
    with pytest.raises(InvalidDevice, match=message) as caught:
        read(text.replace(before, after, 1), file)
    assert caught.value.hint
    return caught.value.message
