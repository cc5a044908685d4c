"""What the compiled programs of a module teach about its price, and a device priced so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from toast.aot.collective_time import CollectiveClock
from toast.costmodel.explain import explain
from toast.costmodel.hardware.devices import Device, Link
from toast.costmodel.resolved import resolve
from toast.pipeline.confirm.trial import ProposalTrial

MOST = 3.0
"""No ratio is taken for more than this, nor for less than its inverse."""
CONTRACTION, OTHER = "contraction", "other"
_CONTRACTIONS = ("dot_general", "convolution", "dot")
FEW = 0.01
"""A kind of fusion or of collective whose time is less than this part of a step teaches nothing."""
TIGHTER = 1.1
"""How much more is taken off the memory in the last search than the ratios say."""
UNKNOWN = 1.2
"""The ratio of bytes where the compiler refused and did not say how many it wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """Compiled over predicted: bytes, seconds of each kind of fusion and of collective."""

    memory: float = 1.0
    compute: dict[str, float] = field(default_factory=dict)
    collectives: dict[str, float] = field(default_factory=dict)


def lesson_of(
    trials: Sequence[ProposalTrial], clock: CollectiveClock, *, refused: bool, last: bool
) -> Lesson:
    """What trials teach; memory only where the compiler refused all that are no controls.

    Of refused programs the compiler has squeezed what it could, so the largest ratio counts.
    """
    memory = _bounded(_memory(trials), least=1.0) if refused else 1.0
    return Lesson(
        memory=memory * (TIGHTER if refused and last else 1.0),
        compute=_computing(trials),
        collectives=_sending(trials, clock),
    )


def corrected(device: Device, lesson: Lesson) -> Device:
    """The device at whose rates a program costs what the compiled programs took."""
    product, other = (lesson.compute.get(kind, 1.0) for kind in (CONTRACTION, OTHER))
    return replace(
        device,
        flops={kind: rate / product for kind, rate in device.flops.items()},
        bandwidth=device.bandwidth / other,
        element_rate=device.element_rate / other,
        op_overhead=device.op_overhead * other,
        links=tuple(_slowed(link, lesson.collectives) for link in device.links),
    )


def _slowed(link: Link, factors: dict[str, float]) -> Link:
    slowdown = {kind: link.slowdown.get(kind, 1.0) * factor for kind, factor in factors.items()}
    return replace(link, slowdown=link.slowdown | slowdown)


def _memory(trials: Sequence[ProposalTrial]) -> float:
    """The largest ratio of plans that were searched for this memory; of controls without those."""
    ours = [trial for trial in trials if not trial.proposal.control]
    for some in (ours, trials):
        ratios = [trial.needed / trial.cost.peak for trial in some if trial.needed is not None]
        if ratios:
            return max(ratios)
    return UNKNOWN


def _computing(trials: Iterable[ProposalTrial]) -> dict[str, float]:
    """Compiled over predicted seconds of fusions with a contraction and of others, all together."""
    predicted: defaultdict[str, float] = defaultdict(float)
    compiled: defaultdict[str, float] = defaultdict(float)
    for trial in trials:
        if trial.verdict is None or not trial.verdict.compute_seconds:
            continue
        cycles, seconds = trial.verdict.cycles, trial.verdict.compute_seconds
        share = cycles.get(CONTRACTION, 0.0) / max(sum(cycles.values()), 1.0)
        compiled[CONTRACTION] += share * seconds
        compiled[OTHER] += (1.0 - share) * seconds
        for kind, spent in _fusions(trial):
            predicted[kind] += spent
    return _ratios(compiled, predicted, sum(predicted.values()))


def _fusions(trial: ProposalTrial) -> Iterator[tuple[str, float]]:
    """The kind and the predicted seconds of each fusion of a plan."""
    proposal = trial.proposal
    evaluator = proposal.problem.evaluator
    for fusion in explain(resolve(evaluator, proposal.found.decisions)).fusions:
        op = evaluator.analysis.program.kind(int(fusion.sources.first[0]))
        yield CONTRACTION if op.rpartition(".")[2] in _CONTRACTIONS else OTHER, fusion.seconds


def _sending(trials: Iterable[ProposalTrial], clock: CollectiveClock) -> dict[str, float]:
    """Compiled over predicted seconds of each kind of collective, all trials together."""
    predicted: defaultdict[str, float] = defaultdict(float)
    compiled: defaultdict[str, float] = defaultdict(float)
    steps = 0.0
    for trial in trials:
        if trial.verdict is None or trial.verdict.memory is None:
            continue
        proposal = trial.proposal
        steps += trial.cost.seconds
        for sent in resolve(proposal.problem.evaluator, proposal.found.decisions).totals():
            predicted[sent.kind.name.lower()] += sent.seconds
        for row in trial.verdict.collectives:
            compiled[row.kind] += clock.seconds(row)
    return _ratios(compiled, predicted, steps)


def _ratios(
    compiled: Mapping[str, float], predicted: Mapping[str, float], steps: float
) -> dict[str, float]:
    """The ratio of each kind that takes some part of the steps."""
    return {
        kind: _bounded(compiled.get(kind, 0.0) / predicted[kind])
        for kind in sorted(predicted)
        if predicted[kind] > FEW * steps
    }


def _bounded(ratio: float, least: float = 1 / MOST) -> float:
    return min(max(ratio, least), MOST)
