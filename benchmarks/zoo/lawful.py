"""Whether the prices of the programs of the zoo keep the laws: the command `laws`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial

from benchmarks.accuracy.cases import Bench
from benchmarks.accuracy.records import read_records
from benchmarks.zoo.cases import AMPLE
from benchmarks.zoo.laws import Breach, breaches, cheaper
from benchmarks.zoo.lowering import PROGRAMS, module_of, path_of
from benchmarks.zoo.sizing import module_at
from toast.analysis.errors import ToastError
from toast.costmodel.evaluator import Action, Evaluator, State
from toast.pipeline.advice.batches import batch_of
from toast.plans.baselines import data_parallel
from toast.resize.resize import Dimension
from toast.search.problem import Found

MESHES = ("data=2,model=4", "data=8")
AT_FEW = ("dot_strength_reduction", "space_to_batch")
"""What a compiler does to few rows or few images, which may take longer than more: no breach."""


def check_laws(target: str, wanted: set[str] | None = None) -> Counter[tuple[str, str]]:
    """The breaches of each half by law; those of the tuning half are told on stdout.

    A program that nobody may look into is only counted.
    """
    found: Counter[tuple[str, str]] = Counter()
    for row in read_records(PROGRAMS):
        name = row["key"]
        chosen = wanted is None or name in wanted or row["architecture"] in wanted
        if not chosen or "digest" not in row or not path_of(name).exists():
            continue
        found[(row["half"], "programs")] += 1
        for words, breach in _of_program(module_of(name), target):
            found[(row["half"], breach.law)] += 1
            if row["half"] == "tuning":
                said = f"{breach.priced:.4g} of {breach.least:.4g}"
                print(f"{name} {words}: {breach.law}, {said}", flush=True)
        print(f"{name}: looked at", file=sys.stderr, flush=True)
    return found


def _of_program(module: bytes, target: str) -> Iterator[tuple[str, Breach]]:
    for mesh in MESHES:
        bench = Bench.of(module, mesh, target, room=AMPLE)
        for words, state in _states(bench.evaluator).items():
            yield from ((f"{words} on {mesh}", one) for one in breaches(bench.evaluator, state))
    try:
        yield from _larger(module, target, MESHES[-1])
    except ToastError:  # of some programs no other batch can be made
        return


def _states(evaluator: Evaluator) -> dict[str, State]:
    return {"whole": (), "data parallel": data_parallel(evaluator)}


def _larger(module: bytes, target: str, mesh: str) -> Iterator[tuple[str, Breach]]:
    """The program at its batch and at twice that, whole and with the batch over the mesh."""
    make = partial(Bench.of, mesh=mesh, target=target, room=AMPLE, left_out=AT_FEW)
    small = make(module)
    value, _ = small.problem.cost(())
    batch = batch_of(small.evaluator, Found.after((), value, 1, "given"))
    if batch is None:
        return
    large = make(module_at(module, batch.dimension, 2 * batch.size))
    both = [(one.evaluator, _group(one.evaluator, batch.dimension)) for one in (small, large)]
    states: dict[str, tuple[State, ...]] = {"whole": ((), ())}
    if len({_covered(*one) for one in both}) == 1:
        states["batch"] = tuple(_over(*one) for one in both)
    for words, (one, other) in states.items():
        found = cheaper(small.evaluator, one, large.evaluator, other)
        yield from ((f"{words} at {batch.size} and twice that", breach) for breach in found)


def _group(evaluator: Evaluator, dimension: Dimension) -> int:
    """The group of colours that a dimension of an argument belongs to; -1 for one that has none."""
    analysis, (argument, dim) = evaluator.analysis, dimension
    name = analysis.program.def_names(analysis.program.arguments[argument].value)[dim]
    colour = analysis.colours.colour[name] if name >= 0 else -1
    return int(analysis.groups.of_colour[colour]) if colour >= 0 else -1


def _covered(evaluator: Evaluator, group: int) -> frozenset[Dimension]:
    """The dimensions of arguments of a group; at another size layers may be alike no more."""
    places = (
        (number, dim)
        for number, argument in enumerate(evaluator.analysis.program.arguments)
        for dim in range(len(evaluator.analysis.program.shape(argument.value)))
    )
    return frozenset(place for place in places if _group(evaluator, place) == group)


def _over(evaluator: Evaluator, group: int) -> State:
    """A group of colours over all axes."""
    return tuple(Action(group=group, axis=axis) for axis in range(len(evaluator.mesh.axes)))


def law_lines(found: Counter[tuple[str, str]]) -> list[str]:
    """What was found, a line for each half."""
    lines = []
    for half in ("tuning", "held-out"):
        laws = [f"{count} {law}" for (of, law), count in sorted(found.items()) if of == half]
        lines += [f"{half}: {', '.join(laws)}"] if laws else []
    return lines
