"""The way from one layout to another, against what the compilers sent for the same moves."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.probes.figures import golden
from benchmarks.probes.reshards import MOVES
from tests.moves import move

DEVICES = ("tpu-v5e", "a100-40gb")


def sent(device: str, name: str) -> dict[str, float]:
    """What a case is priced to put on the wire of a device, in bytes, by kind of collective."""
    found = Counter[str]()
    for one in move(*MOVES[name], device).totals():
        found[one.kind.name.lower()] += int(one.bytes)
    return dict(found)


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("device", DEVICES)
def test_a_move_is_priced_as_it_was_compiled(device: str, name: str) -> None:
    assert sent(device, name) == {
        kind: sum(one["wire"] for one in found)
        for kind, found in golden("reshards", name, device).items()
    }
