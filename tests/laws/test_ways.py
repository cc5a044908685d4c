"""Every move of a matrix over three axes, as it is priced and as XLA's partitioner sends it."""

from __future__ import annotations

import pytest

from benchmarks.probes.reshards import MESH, module
from tests.laws.sent import Sent, sent_by_compiled, sent_by_price
from tests.laws.xla import Xla
from tests.moves import move, moves
from toast.costmodel.network.collectives import Kind
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.terms.journal import CollectiveReason

PERMUTE = (Kind.COLLECTIVE_PERMUTE.name, "")
OTHERWISE = {(("", "ab"), ("ab", "c"))}
"""XLA exchanges both axes, and cuts afterwards."""


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
