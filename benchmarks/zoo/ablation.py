"""What each rule is worth: all cases priced without it, and what that does to the errors.

Prices are kept as they come, so that a run that was stopped goes on; a summary of them is committed
for the page.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cases import state_of
from benchmarks.accuracy.models import module_of as model_module
from benchmarks.accuracy.records import HELD_OUT_PREFIX, Record, append_record, read_records
from benchmarks.accuracy.unestimated import unestimated_seconds
from benchmarks.zoo.lowering import module_of, path_of
from benchmarks.zoo.sizing import module_at
from benchmarks.zoo.summary import Summary
from benchmarks.zoo.variations import AS_IS, Variation, variations
from toast.analysis.analyse import analyse
from toast.analysis.errors import ToastError
from toast.analysis.load import load
from toast.aot import Target
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.evaluator import Evaluator, State
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import resolve

PRICES = "prices.jsonl"
SUMMARY = "summary.json"
Place = tuple[str, str, str, int]
"""A program, a mesh, a target and a batch (0: its own)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Cases of one half of one benchmark, and where the module of a program is found."""

    name: str
    records: list[Record]
    module: Callable[[str], bytes | None]

    def places(self) -> dict[Place, list[Record]]:
        """The cases that have a price, by what they are of."""
        found: defaultdict[Place, list[Record]] = defaultdict(list)
        for row in self.records:
            if "predicted" in row and "compiled" in row and not row.get("stale"):
                place = (row["model"], row["mesh"], row["target"], int(row.get("batch", 0)))
                found[place].append(row)
        return dict(found)


def corpora(zoo: Path, models: Path, *, own_batch: bool = False) -> list[Corpus]:
    """Both halves of the zoo, then the models that the accuracy benchmark has had for longer.

    With `own_batch` without the cases whose batch was chosen for the memory of a chip.
    """
    return [
        Corpus(
            name=f"{name}, {half}",
            records=[row for row in _half(folder, half) if not (own_batch and row.get("batch"))],
            module=module,
        )
        for name, folder, module in (("zoo", zoo, _zoo_module), ("models", models, model_module))
        for half in ("tuning", "held-out")
    ]


def _half(folder: Path, half: str) -> list[Record]:
    files = sorted(folder.glob("*-*.jsonl"))
    held = half == "held-out"
    chosen = [path for path in files if path.name.startswith(HELD_OUT_PREFIX) == held]
    return [row for path in chosen for row in read_records(path)]


def _zoo_module(program: str) -> bytes | None:
    return module_of(program) if path_of(program).exists() else None


def price_all(
    some: Iterable[Corpus], folder: Path, wanted: Sequence[Variation], seconds: float | None
) -> int:
    """Price what has no price yet; how many places were priced. None is begun after `seconds`."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {row["key"] for row in read_records(folder / PRICES)}
    began, count = time.monotonic(), 0
    for corpus in some:
        places = corpus.places()
        for number, (place, rows) in enumerate(places.items(), 1):
            left = [one for one in wanted if _key(corpus, place, one) not in known]
            if not left:
                continue
            if seconds is not None and time.monotonic() - began > seconds:
                return count
            for one, prices in _priced(corpus, place, rows, left):
                key = _key(corpus, place, one)
                append_record(folder / PRICES, {"key": key, "prices": prices})
            count += 1
            print(f"{corpus.name}: {number} of {len(places)}", file=sys.stderr, flush=True)
    return count


def _key(corpus: Corpus, place: Place, variation: Variation) -> str:
    return " ".join((corpus.name, *map(str, place), variation.name))


def _priced(
    corpus: Corpus, place: Place, rows: Sequence[Record], wanted: Iterable[Variation]
) -> Iterator[tuple[Variation, dict[str, Any]]]:
    """The prices of the cases of a place by their keys; the module is analysed once for all."""
    program, mesh, target, batch = place
    try:
        module = corpus.module(program)
        if module is not None and batch:
            module = module_at(module, tuple(rows[0]["dimension"]), batch)
        analysis = None if module is None else analyse(load(module).program)
    except ToastError:
        analysis = None
    last: tuple[Any, dict[str, Any]] | None = None
    device = find(Target.parse(target).chip.device)
    for one in wanted:
        profile = one.of(profile_of(device))
        if analysis is None:
            yield one, {}
        elif last is not None and profile == profile_of(device):
            yield one, last[1]
        else:
            evaluator = Evaluator(analysis, Mesh.parse(mesh), device, profile=profile)
            prices = {row["key"]: _price(evaluator, state_of(row["state"])) for row in rows}
            last = last or (profile, prices)
            yield one, prices


def _price(evaluator: Evaluator, state: State) -> dict[str, Any] | None:
    """What the summaries read of a prediction; None for a state of another analysis."""
    try:
        cost = evaluator.cost(state)
    except IndexError:
        return None
    resolved = resolve(evaluator, state)
    sent = sum(row.bytes for row in resolved.totals())
    return {
        "compute_seconds": cost.compute,
        "unestimated_seconds": unestimated_seconds(resolved),
        "communication_seconds": cost.communication,
        "peak_bytes": cost.peak,
        "room_bytes": evaluator.room_bytes(state),
        "pressed_bytes": evaluator.pressed_bytes(state),
        "fits": cost.peak <= evaluator.device.usable_bytes,
        "collectives": [{"bytes": sent}],
    }


def summarize(some: Iterable[Corpus], folder: Path) -> list[dict[str, Any]]:
    """The figures of each corpus under each variation that all of its places were priced with."""
    prices = {row["key"]: row["prices"] for row in read_records(folder / PRICES)}
    found = []
    for corpus in some:
        places, plain = corpus.places(), dict[str, Any]()
        for one in variations():
            keys = [_key(corpus, place, one) for place in places]
            if not keys or any(key not in prices for key in keys):
                continue
            given = {case: price for key in keys for case, price in prices[key].items()}
            plain = given if one.name == AS_IS else plain
            found.append(
                {"corpus": corpus.name, "without": one.name}
                | {"changed": sum(given[case] != plain.get(case) for case in given)}
                | figures(_with(corpus.records, given))
            )
    return found


def _with(records: Iterable[Record], prices: dict[str, Any]) -> list[Record]:
    """The records under other prices; what has a price no more is stale."""
    return [_under(row, prices.get(row["key"])) if "predicted" in row else row for row in records]


def _under(row: Record, price: dict[str, Any] | None) -> Record:
    return row | ({"stale": True} if price is None else {"predicted": price})


def figures(records: list[Record]) -> dict[str, float | None]:
    """The figures that the table has; None for those of no case."""
    one = Summary.of(records)
    found = {
        "cases": one.cases,
        "room_mean": one.room.mean,
        "room_median": one.room.median,
        "room_ninth": one.room.ninth,
        "pressed_mean": one.pressed.mean,
        "pressed_median": one.pressed.median,
        "pressed_ninth": one.pressed.ninth,
        "verdicts": one.verdicts.share,
        "wire": one.wire.near,
        "time_mean": one.time.mean,
        "time_median": one.time.median,
        "time_ninth": one.time.ninth,
        "rank": one.rank_median,
    }
    return {name: None if math.isnan(figure) else figure for name, figure in found.items()}


def write_summary(rows: Sequence[dict[str, Any]], folder: Path) -> Path:
    """Keep the figures for the page; of a corpus that has none now, those kept before stay."""
    path, priced = folder / SUMMARY, {row["corpus"] for row in rows}
    earlier = [row for row in read_summary(folder) if row["corpus"] not in priced]
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in (*rows, *earlier)) + "\n]\n")
    return path


def read_summary(folder: Path) -> list[dict[str, Any]]:
    """The figures that were kept; none where there are none."""
    path = folder / SUMMARY
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return found
