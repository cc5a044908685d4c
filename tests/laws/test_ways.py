"""Every move of a matrix over three axes, as it is priced and as XLA's partitioner sends it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest

from benchmarks.probes.reshards import MESH, Layout, module
from tests.laws.sent import Sent, sent_by_compiled, sent_by_price
from tests.laws.xla import Xla
from tests.moves import move
from toast.costmodel.network.collectives import Kind
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.terms.journal import CollectiveReason

AXES = "abc"
PERMUTE = (Kind.COLLECTIVE_PERMUTE.name, "")
OTHERWISE = {(("", "ab"), ("ab", "c"))}
"""XLA exchanges both axes, and cuts afterwards."""


def layouts() -> Iterator[Layout]:
    """All ways to lay a matrix out over the axes."""
    for count in range(len(AXES) + 1):
        for axes in permutations(AXES, count):
            for cut in range(count + 1):
                yield "".join(axes[:cut]), "".join(axes[cut:])


def moves() -> Iterator[tuple[Layout, Layout]]:
    """All moves but for the names of the axes: they are named as they come."""
    found = set()
    for have in layouts():
        for want in layouts():
            order = "".join(dict.fromkeys("".join((*have, *want, AXES))))
            named = str.maketrans(order, AXES)
            found.add(
                (
                    (have[0].translate(named), have[1].translate(named)),
                    (want[0].translate(named), want[1].translate(named)),
                )
            )
    yield from sorted((have, want) for have, want in found if have != want)


def others(sent: Sent) -> Sent:
    """All but permutes, which may be for the order of axes too."""
    return Sent({one: count for one, count in sent.items() if one != PERMUTE})


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_every_move_is_priced_as_it_is_sent(xla: Xla) -> None:
    wrong, count = set(), 0
    for have, want in moves():
        text = module(have, want, "cpu")
        plan = move(have, want, "cpu")
        compiled = sent_by_compiled(xla.hlo(text, 8), Mesh.parse(MESH), with_axes=False)
        priced = sent_by_price(plan, with_axes=False)
        trades = any(one.reason is CollectiveReason.TRADED for one in plan.collectives)
        if others(compiled) != others(priced) or (trades and PERMUTE not in compiled):
            wrong.add((have, want))
        count += 1
    assert count == 395
    assert wrong == OTHERWISE
