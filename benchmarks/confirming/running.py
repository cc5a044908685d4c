"""Plan programs with `--confirm`; what the compiler said of each plan is kept as a line of JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.accuracy.records import Record, append_record, read_records
from benchmarks.planners.models import Model, models
from toast.analysis.errors import InvalidRequest, ToastError
from toast.aot import Target
from toast.pipeline.plan_module import make_plan
from toast.request.request import PlanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Choose:
    """Which programs, for what, how many plans of each, and the seconds of their compilation.

    `only` names some that are `known`, and any of the zoo as `architecture/program`.
    """

    only: tuple[str, ...] = ()
    target: str = "tpu-v5e:2x4"
    mesh: str = "data=2,model=4"
    plans: int = 2
    seconds: float = 900.0
    known: Mapping[str, Model] = field(default_factory=models)

    def names(self) -> Iterator[str]:
        """The programs, cut ones first; raises InvalidRequest for a name that is none."""
        public = [name for name in self.only if "/" in name]
        unknown = sorted(set(self.only) - set(self.known) - set(public))
        if unknown:
            raise InvalidRequest(
                f"{', '.join(unknown)}: no such program.", f"Known are: {', '.join(self.known)}."
            )
        yield from (name for name in self.known if not self.only or name in self.only)
        yield from public

    def module(self, name: str) -> bytes:
        """The bare module of a program; raises InvalidRequest for one that is not lowered here."""
        model = self.known.get(name) or Model(family=name, public=name)
        return model.module()

    def key(self, name: str) -> str:
        """What tells a case from others."""
        return f"{name} {self.mesh} {self.target}"


def run_cases(wanted: Choose, folder: Path, *, seconds: float | None = None) -> int:
    """Plan what has no record in `folder`; none is begun after `seconds`. Returns how many."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{wanted.target.replace(':', '-')}.jsonl"
    done = {row["key"] for row in read_records(path)}
    began, count = time.monotonic(), 0
    for name in wanted.names():
        late = seconds is not None and time.monotonic() - began > seconds
        if wanted.key(name) in done or late:
            continue
        record = planned(wanted, name)
        append_record(path, record)
        count += 1
        print(f"{record['key']}: {record.get('error', 'confirmed')}", file=sys.stderr, flush=True)
    return count


def planned(wanted: Choose, name: str) -> Record:
    """The record of a program; what fails is one too, unless there is no module of it here."""
    module = wanted.module(name)
    record: Record = {
        "key": wanted.key(name),
        "model": name,
        "mesh": wanted.mesh,
        "target": wanted.target,
    }
    request = PlanRequest(
        mesh=wanted.mesh,
        device=Target.parse(wanted.target).chip.device,
        confirm=wanted.plans,
        confirm_time=wanted.seconds,
        threads=1,
        advice=False,
    )
    try:
        plan = make_plan(module, request).plan
    except ToastError as error:
        return record | {"error": f"{type(error).__name__}: {error}"}
    assert plan.confirmed is not None
    left_out = {"plans": {"__all__": {"decisions"}}}
    return record | {"confirmed": plan.confirmed.model_dump(exclude=left_out)}
