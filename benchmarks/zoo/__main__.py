"""A zoo of public programs beside their compiled selves: `python -m benchmarks.zoo COMMAND`.

| command | what |
| --- | --- |
| `split` | write which half each architecture belongs to |
| `lower` | lower the programs that have no module yet, with the libraries |
| `compile` | plan and compile what has no record yet, one at a time |
| `reprice` | price all cases with the cost model as it is, without compiling |
| `report` | print both halves side by side |
| `write` | write docs/zoo.md |
| `bands` | write the bands around predictions that the package ships, by the held-out half |
| `laws` | look for prices that break a law; programs of the held-out half are only counted |
| `ablation` | price all cases without each pass and constant, and write docs/ablation.md |
| `all` | `lower` to `write` in a row, each in an environment that has what it needs |
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Collection
from pathlib import Path
from typing import get_args

from benchmarks.accuracy.records import HELD_OUT_PREFIX, Record, compiled, held_out, tuning
from benchmarks.command import new_parser, print_paths
from benchmarks.zoo.cases import TARGETS, V5E
from benchmarks.zoo.environment import rerun
from benchmarks.zoo.split import Half
from toast.analysis.errors import InvalidRequest, ToastError

DATA = Path(__file__).parent / "data"
MODELS = Path(__file__).parents[1] / "accuracy" / "data"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    if options.command == "all":
        rest = [word for word in given if word != "all"]
        codes = (main([command, *rest]) for command in ALL)
        return next((code for code in codes if code), 0)
    elsewhere = rerun(options.command, given)
    if elsewhere is not None:
        return elsewhere
    try:
        if options.command != "ablation" and (options.without or options.own_batch):
            raise InvalidRequest(
                "Only `ablation` takes --without and --own-batch.", "Leave them out."
            )
        return COMMANDS[options.command](options)
    except ToastError as error:
        print(f"{error.message} {error.hint}", file=sys.stderr)
        return 2


def _split(options: argparse.Namespace) -> int:
    del options
    from benchmarks.zoo.registry import architectures
    from benchmarks.zoo.split import write_split

    halves = write_split(architectures())
    held = sum(half == "held-out" for half in halves.values())
    print(f"{len(halves)} architectures, {held} held out", file=sys.stderr)
    return 0


def _chosen(text: str, known: Collection[str], what: str) -> list[str]:
    """The names between commas; raises InvalidRequest for one that is not known."""
    names = text.split(",")
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or sorted(known)[:5]
            raise InvalidRequest(f"{name!r} is no {what}.", f"Known are: {', '.join(near)}.")
    return names


def _lower(options: argparse.Namespace) -> int:
    import jax

    from benchmarks.zoo.lowering import lower_all
    from benchmarks.zoo.registry import architectures

    rows = architectures()
    names = _chosen(options.only, rows, "architecture") if options.only else list(rows)
    # Paths in locations start at the package, so that modules do not depend on the machine.
    settings = {
        "jax_hlo_source_file_canonicalization_regex": r".*/(?:site-packages/|(?=benchmarks/))",
        "jax_include_full_tracebacks_in_locations": False,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        lowered, failed = lower_all(rows[name] for name in names)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
    print(f"{lowered} programs lowered, {failed} failed", file=sys.stderr)
    return 0


def _compile(options: argparse.Namespace) -> int:
    from benchmarks.accuracy.records import read_records
    from benchmarks.zoo.cases import PLANS, all_cases, in_turn, room_cases
    from benchmarks.zoo.compiling import compile_all
    from benchmarks.zoo.lowering import PROGRAMS, path_of

    facts = [row for row in read_records(PROGRAMS) if options.half in (None, row["half"])]
    names = [name for name in in_turn(facts) if path_of(name).exists()]
    if not names:
        raise InvalidRequest("No program is lowered here.", "Run `lower` first.")
    if options.only:
        owners = {name.partition("/")[0] for name in names}
        wanted = _chosen(options.only, {*names, *owners}, "lowered program")
        names = [one for one in names if one in wanted or one.partition("/")[0] in wanted]
    targets = _chosen(options.target or V5E, TARGETS, "target")
    if options.plans:
        plans = _chosen(options.plans, {plan for _, plan in PLANS}, "plan")
        groups = room_cases(names, targets, plans)
    else:
        groups = all_cases(names, targets, memory_only=options.memory_only)
    count = compile_all(
        groups,
        options.data,
        memory_only=options.memory_only,
        limit=options.limit,
        seconds=options.time_limit,
        seconds_each=options.seconds_each,
        hlo=options.hlo,
    )
    print(f"{count} cases compiled", file=sys.stderr)
    return 0


def _reprice(options: argparse.Namespace) -> int:
    from benchmarks.zoo.repricing import reprice

    held = {"tuning": (False,), "held-out": (True,)}.get(options.half, (False, True))
    for path in sorted(options.data.glob("*-*.jsonl")):
        if path.name.startswith(HELD_OUT_PREFIX) in held:
            count, left = reprice(path, check=options.check)
            print(f"{path.name}: {count} cases repriced, {left} left", file=sys.stderr)
    return 0


def _halves(options: argparse.Namespace) -> dict[str, list[Record]]:
    targets = _chosen(options.target, TARGETS, "target") if options.target else TARGETS
    halves = {"tuning": tuning(options.data), "held-out": held_out(options.data)}
    return {
        half: [row for row in rows if row.get("target") in targets] for half, rows in halves.items()
    }


def _report(options: argparse.Namespace) -> int:
    from rich.console import Console

    from benchmarks.accuracy.tables import misses
    from benchmarks.zoo.document import grouped, library_of, worded
    from benchmarks.zoo.summary import kind_of
    from benchmarks.zoo.tables import curve_table, terminal_table

    console, halves = Console(), _halves(options)
    console.print(terminal_table("All", halves))
    words = {"kind": kind_of, "library": library_of()}
    if options.by == "target":
        groups = grouped(halves, "target")
    else:
        groups = worded(halves, words[options.by]) if options.by else {}
    for name, some in groups.items():
        console.print(terminal_table(name, some))
    if options.verbose:
        console.print(curve_table(halves["tuning"]))
        print(misses([row for row in compiled(halves["tuning"]) if "predicted" in row], count=30))
    return 0


def _write(options: argparse.Namespace) -> int:
    from benchmarks.zoo.document import write_page

    return print_paths(write_page(_halves(options), options.docs))


def _bands(options: argparse.Namespace) -> int:
    from benchmarks.zoo.bands import SHIPPED, write_bands

    return print_paths([write_bands(held_out(options.data), SHIPPED)])


def _laws(options: argparse.Namespace) -> int:
    from benchmarks.zoo.lawful import check_laws, law_lines

    wanted = set(options.only.split(",")) if options.only else None
    found = check_laws(options.target or V5E, wanted)
    for line in law_lines(found):
        print(line)
    broken = sum(count for (_, law), count in found.items() if law != "programs")
    return 1 if broken else 0


def _ablation(options: argparse.Namespace) -> int:
    from benchmarks.zoo import ablation
    from benchmarks.zoo.ablation_page import write_ablation
    from benchmarks.zoo.variations import AS_IS, variations

    known = {one.name: one for one in variations()}
    names = _chosen(options.without, known, "pass or constant") if options.without else list(known)
    some = ablation.corpora(options.data, MODELS, own_batch=options.own_batch)
    folder = options.data / "ablation"
    wanted = [known[name] for name in dict.fromkeys((AS_IS, *names))]
    count = ablation.price_all(some, folder, wanted, options.time_limit)
    print(f"{count} programs priced", file=sys.stderr)
    kept = ablation.write_summary(ablation.summarize(some, folder), folder)
    return print_paths([kept, write_ablation(folder, options.docs)])


COMMANDS = {
    "split": _split,
    "lower": _lower,
    "compile": _compile,
    "reprice": _reprice,
    "report": _report,
    "write": _write,
    "bands": _bands,
    "laws": _laws,
    "ablation": _ablation,
}
ALL = ("lower", "compile", "reprice", "report", "write")


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.zoo", __doc__, (*COMMANDS, "all"), DATA)
    parser.add_argument("--only", help="only these architectures or programs, between commas")
    parser.add_argument("--target", help=f"only these, between commas; `compile` takes {V5E}")
    parser.add_argument("--by", choices=("kind", "library", "target"), help="tables for each")
    parser.add_argument(
        "--check",
        action="store_true",
        help="reprice: mark what would be written differently today as stale",
    )
    parser.add_argument(
        "--without",
        metavar="NAME,...",
        help="only with `ablation`: these passes and constants alone",
    )
    parser.add_argument(
        "--own-batch",
        action="store_true",
        help="ablation: leave out programs at batches chosen for a chip's memory",
    )
    parser.add_argument("--half", choices=get_args(Half), help="only this half")
    parser.add_argument("--plans", help="compile: only these, between commas, with room")
    parser.add_argument("--memory-only", action="store_true", help="end when memory is laid out")
    parser.add_argument("--hlo", type=Path, help="keep the tuning half's compiled HLO here")
    parser.add_argument("--verbose", action="store_true", help="report: cases of the tuning half")
    parser.add_argument("--limit", type=int, help="compile at most this many cases")
    parser.add_argument(
        "--seconds-each", type=float, default=900.0, help="give up a case after so many"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
