"""The best of several trials, whatever the compiler says of them; and what trials teach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toast.aot import Memory, Refusal, Verdict
from toast.aot.collective_time import CollectiveClock
from toast.costmodel.evaluator import Cost
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.pipeline.confirm.lessons import Lesson, corrected, lesson_of
from toast.pipeline.confirm.trial import Proposal, ProposalTrial, best_of
from toast.plans.confirmation import Kind

LIMIT = 100


def trial(
    needed: int | None, seconds: float | None, *, kind: Kind = "answer", peak: float = 50.0
) -> ProposalTrial:
    """A trial of which the compiler said this; None for what it did not say, or refused."""
    refusal = Refusal(message="no", needed=None, available=None) if needed is None else None
    memory = None if needed is None else Memory(argument=0, output=0, temp=needed, alias=0)
    return ProposalTrial(
        proposal=Proposal(kind=kind, search=1, problem=cast("Any", None), found=cast("Any", None)),
        cost=Cost(compute=1.0, communication=1.0, peak=peak, room=peak, key=0),
        module=b"",
        memory_bytes=LIMIT,
        verdict=Verdict(
            target="tpu-v5e:2x4",
            devices=8,
            memory=memory,
            refusal=refusal,
            memory_only=seconds is None,
            communication_seconds=0.5,
            compute_seconds=None if seconds is None else max(seconds - 0.5, 1e-9),
        ),
    )


Needed = st.one_of(st.none(), st.integers(1, 2 * LIMIT))
Kinds = st.sampled_from(["answer", "choice", "refined", "data_parallel", "fully_sharded"])
Trials = st.lists(
    st.builds(lambda n, s, k: trial(n, s, kind=k), Needed, st.floats(0.6, 9), Kinds), max_size=8
)


@given(Trials)
def test_the_best_is_no_slower_than_any_control_and_fits_where_one_fits(
    trials: list[ProposalTrial],
) -> None:
    best = best_of(trials)
    controls = [one for one in trials if one.proposal.control and one.fits]
    assert (best is None) == (not any(one.fits for one in trials))
    for control in controls:
        assert best is not None
        assert best.fits
        assert best.estimate <= control.estimate * (1 + 2e-6)


def test_whole_programs_come_before_estimates() -> None:
    early, whole = trial(10, None), trial(10, 8.0)
    assert early.estimate == pytest.approx(1.5)
    assert best_of([early, whole]) is whole
    assert best_of([early, trial(None, None)]) is early


def test_of_equal_ones_the_first_is_taken() -> None:
    first, second = trial(10, 2.0), trial(9, 2.0)
    assert best_of([first, second]) is first


@dataclass
class Sent:
    kind: Any
    seconds: float


CLOCK = CollectiveClock.of(Mesh.parse("x=8"), find("tpu-v5e"))


def lesson(*trials: ProposalTrial, refused: bool, last: bool = False) -> Lesson:
    return lesson_of(trials, CLOCK, refused=refused, last=last)


def refused(needed: int | None, peak: float, kind: Kind = "answer") -> ProposalTrial:
    one = trial(None, None, kind=kind, peak=peak)
    assert one.verdict is not None
    message = Refusal(message="no", needed=needed, available=None)
    one.verdict = Verdict(target="tpu-v5e:2x4", devices=8, refusal=message)
    return one


def test_refused_plans_teach_the_largest_ratio_of_ours() -> None:
    trials = (refused(120, 80), refused(130, 100), refused(900, 100, "data_parallel"))
    assert lesson(*trials, refused=True).memory == pytest.approx(1.5)
    assert lesson(*trials, refused=True, last=True).memory == pytest.approx(1.65)
    assert lesson(trials[2], refused=True).memory == 3.0
    assert lesson(*trials, refused=False).memory == 1.0


def test_a_refusal_without_figures_and_one_that_was_predicted_tighten_too() -> None:
    assert lesson(refused(None, 80), refused=True).memory > 1
    assert lesson(refused(90, 100), refused=True).memory == 1.0


def test_a_corrected_device_is_slower_by_what_was_learned() -> None:
    device = find("tpu-v5e")
    rates = {"contraction": 2.0, "other": 4.0}
    slow = corrected(device, Lesson(compute=rates, collectives={"all_gather": 3.0}))
    assert slow.flops["bf16"] == device.flops["bf16"] / 2
    assert slow.bandwidth == device.bandwidth / 4
    mesh = Mesh.parse("x=8")
    before, after = CollectiveClock.of(mesh, device), CollectiveClock.of(mesh, slow)
    for kind, factor in (("all_gather", 3.0), ("all_reduce", 1.0)):
        assert after.one(kind, ("x",), 8, 1e6) == pytest.approx(
            factor * before.one(kind, ("x",), 8, 1e6)
        )
    assert corrected(device, Lesson()) == device
