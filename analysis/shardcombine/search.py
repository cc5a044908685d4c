"""ShardCombine (MetaDist, Algorithm 1) for one op.

The attempts of one round are compiled and run together; then they are judged in the order of the
algorithm, skipping those whose dimensions an earlier one has taken. Rounds go from what is likely
to what is rare, and a round sees only dimensions that are still unassigned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from toast.analysis.shardcombine import attempts
from toast.analysis.shardcombine.attempts import Dim, Dims
from toast.analysis.shardcombine.attributes import changes
from toast.analysis.shardcombine.combine import Trial, try_combine
from toast.analysis.shardcombine.findings import Combine, Discovery, Finding, How
from toast.analysis.shardcombine.inputs import make_inputs
from toast.analysis.shardcombine.lab import Lab, OpRun, Outputs
from toast.analysis.shardcombine.numbers import Array, tolerance, wide
from toast.analysis.shardcombine.opcopy import OpCopy, Shapes, guesses

MAX_ATTEMPTS = 4000
NO_HALO = (0, 0)
Sets = Callable[[Shapes, Dim, set[Dim]], list[Dims]]
"""The sets of dimensions to split with a first one, given those still free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAttempt:
    """One splitting: what each of the two shards runs."""

    dims: Dims
    halo: tuple[int, int]
    first: OpCopy
    second: OpCopy

    def finding(self, combines: tuple[Combine, ...]) -> Finding:
        """What it is worth knowing when the results combine."""
        return Finding(
            dims=self.dims, combines=combines, halo=self.halo, divided=self.first.divided
        )


class Search:
    """The search for one op, which is already at small sizes."""

    def __init__(self, lab: Lab, op: OpCopy, hints: Iterable[Finding] = ()) -> None:
        self._lab = lab
        self._op = op
        self._hints = hints
        self._inputs = make_inputs(op)
        self._free = set(attempts.all_dims(op.operands))
        self._findings: list[Finding] = []
        self._copies: dict[Shapes, list[OpCopy]] = {}
        self._tolerances = [tolerance(dtype) for dtype in op.dtypes(op.op.results)]
        self._whole: Outputs = []
        self._with_halo: set[Dims] = set()
        self._tried = 0

    def run(self) -> Discovery | None:
        """All findings; None when the op does not run, or says nothing about its inputs."""
        likely = list(self._hinted()) or list(self._splits(attempts.equal_sets))
        if not self._round(likely):
            return None
        self._round(self._splits(attempts.equal_sets))
        if len(self._op.operands) > 1:
            self._round(self._splits(attempts.unequal_sets))
        self._round(self._result_only())
        for _ in range(1 + attempts.HALO_PARTNERS):
            self._round(self._with_halos())
        return Discovery(findings=tuple(self._findings), attempts=self._tried)

    def _hinted(self) -> Iterator[SplitAttempt]:
        for dims in attempts.from_findings(self._op.operands, self._hints, self._free):
            yield from self._attempts(dims, NO_HALO)

    def _splits(self, sets: Sets) -> Iterator[SplitAttempt]:
        shapes = self._op.operands
        for start in attempts.all_dims(shapes):
            if start in self._free and shapes[start[0]][start[1]] % 2 == 0:
                for dims in sets(shapes, start, self._free):
                    yield from self._attempts(dims, NO_HALO)

    def _result_only(self) -> Iterator[SplitAttempt]:
        """Dimensions that a result has and no operand: every shard makes its part by itself."""
        yield from self._attempts((-1,) * len(self._op.operands), NO_HALO)

    def _with_halos(self) -> Iterator[SplitAttempt]:
        """Overlapping shards of the next set for each dimension."""
        shapes = self._op.operands
        for start in attempts.all_dims(shapes):
            sets = attempts.halo_sets(shapes, start, self._free) if start in self._free else []
            dims = next((dims for dims in sets if dims not in self._with_halo), None)
            if dims is None:
                continue
            self._with_halo.add(dims)
            for halo in attempts.halos(shapes[start[0]][start[1]]):
                yield from self._attempts(dims, halo)

    def _attempts(self, dims: Dims, halo: tuple[int, int]) -> Iterator[SplitAttempt]:
        shapes = self._op.operands
        if any(shapes[i][d] % 2 for i, d in sorted(attempts.used(dims))[1:]):
            return
        first, second = (_local(shapes, dims, halo, shard) for shard in (0, 1))
        pairs = zip(self._at(first), self._at(second), strict=False)
        for left, right in pairs:
            if dims == (-1,) * len(dims) and left.results == self._op.results:
                continue
            yield SplitAttempt(dims=dims, halo=halo, first=left, second=right)

    def _at(self, operands: Shapes) -> list[OpCopy]:
        """The ways to run the op on operands of these shapes."""
        known = self._copies.get(operands)
        if known is None:
            known = self._copies[operands] = self._make(operands)
        return known

    def _make(self, operands: Shapes) -> list[OpCopy]:
        found: dict[tuple[Shapes, str], OpCopy] = {}
        for changed in changes(self._op, operands):
            for guess in guesses(self._op.results):
                copy = self._op.at(operands, guess, changed)
                if copy is not None:
                    found.setdefault((copy.results, str(changed)), copy)
        return list(found.values())

    def _round(self, candidates: Iterable[SplitAttempt]) -> bool:
        """Run the candidates and keep those that combine, first come, first kept.

        The first round runs the whole op as well; False when that fails.
        """
        tried: list[SplitAttempt] = []
        for attempt in candidates:
            if self._tried + len(tried) >= MAX_ATTEMPTS:
                break
            tried.append(attempt)
        self._tried += len(tried)
        runs = [run for attempt in tried for run in self._runs(attempt)]
        if not self._whole:
            whole, *outputs = self._lab.run([OpRun(op=self._op, inputs=self._inputs), *runs])
            if whole is None or not _informative(whole):
                return False
            self._whole = whole
        else:
            outputs = self._lab.run(runs)
        for attempt, first, second in zip(tried, outputs[::2], outputs[1::2], strict=True):
            if first is None or second is None or not attempts.used(attempt.dims) <= self._free:
                continue
            combines = self._combine(attempt, first, second)
            if combines is not None and self._is_new(attempt, combines):
                self._free -= attempts.used(attempt.dims)
                self._findings.append(attempt.finding(combines))
        return True

    def _runs(self, attempt: SplitAttempt) -> Iterator[OpRun]:
        for shard, op in enumerate((attempt.first, attempt.second)):
            yield OpRun(op=op, inputs=[_pieces(a, attempt, shard) for a in self._inputs])

    def _combine(
        self, attempt: SplitAttempt, first: Outputs, second: Outputs
    ) -> tuple[Combine, ...] | None:
        found: list[Combine] = []
        for index, error in enumerate(self._tolerances):
            trial = Trial(
                whole=[outputs[index] for outputs in self._whole],
                first=[outputs[index] for outputs in first],
                second=[outputs[index] for outputs in second],
                tolerance=error,
                halo=attempt.halo != NO_HALO,
            )
            combine = try_combine(trial)
            if combine is None:
                return None
            found.append(combine)
        return tuple(found)

    def _is_new(self, attempt: SplitAttempt, combines: tuple[Combine, ...]) -> bool:
        """A dimension of a result is gathered by one id only, and one id does one thing."""
        gathered = {(r, c.dim) for r, c in enumerate(combines) if c.dim >= 0}
        taken = {
            (r, c.dim)
            for finding in self._findings
            for r, c in enumerate(finding.combines)
            if c.dim >= 0
        }
        if len({combine.how is How.REDUCE for combine in combines}) > 1:
            return False
        return not gathered & taken and (bool(attempts.used(attempt.dims)) or bool(gathered))


def _local(shapes: Shapes, dims: Dims, halo: tuple[int, int], shard: int) -> Shapes:
    found = []
    for index, (shape, dim) in enumerate(zip(shapes, dims, strict=True)):
        if dim < 0:
            found.append(shape)
            continue
        start, stop = _bounds(shape[dim], halo if _is_start(dims, index) else NO_HALO, shard)
        found.append((*shape[:dim], stop - start, *shape[dim + 1 :]))
    return tuple(found)


def _is_start(dims: Dims, operand: int) -> bool:
    return attempts.start_of(dims)[0] == operand


def _bounds(size: int, halo: tuple[int, int], shard: int) -> tuple[int, int]:
    """The rows of one shard; a halo reaches into the other one's."""
    if shard == 0:
        return 0, size // 2 + halo[0]
    return size // 2 - halo[1], size


def _pieces(arrays: Sequence[Array], attempt: SplitAttempt, shard: int) -> list[Array]:
    found: list[Array] = []
    for index, (array, dim) in enumerate(zip(arrays, attempt.dims, strict=True)):
        if dim < 0:
            found.append(array)
            continue
        halo = attempt.halo if _is_start(attempt.dims, index) else NO_HALO
        cut = slice(*_bounds(array.shape[dim], halo, shard))
        found.append(array[(*(slice(None),) * dim, cut)])
    return found


def _informative(whole: Outputs) -> bool:
    """Whether at least one set of inputs gives numbers."""
    return any(all((wide(a) == wide(a)).any() for a in arrays if a.size) for arrays in whole)
