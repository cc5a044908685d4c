"""Whether prices are still what they were, to the last bit.

| command | what |
| --- | --- |
| `check` | price every kept state again; list what differs and exit with 1 if anything does |
| `keep` | price the states of the accuracy and planners' benchmarks and keep the prices |

A change that only moves code leaves `check` silent. A change that is to move prices lists them with
`check`, is judged by `benchmarks.accuracy report`, and then keeps the new ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from benchmarks.command import dispatch, new_parser
from benchmarks.prices.pricing import Price, all_prices, bench_of, price

DATA = Path(__file__).parent / "data" / "prices.jsonl"
ACCURACY = Path(__file__).parents[1] / "accuracy" / "data"
FIGURES = ("compute", "communication", "peak")


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = new_parser("benchmarks.prices", __doc__, ("check", "keep"), DATA)
    parser.add_argument("--models", help="check only these, separated by commas")
    options = parser.parse_args(given)
    return dispatch(given, options, {"check": _check, "keep": _keep}, "benchmarks.prices")


def _keep(options: argparse.Namespace) -> int:
    lines = [json.dumps(one.as_json()) + "\n" for one in all_prices(ACCURACY)]
    options.data.write_text("".join(lines))
    print(f"{len(lines)} prices kept", file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> int:
    kept = [Price(**json.loads(line)) for line in options.data.read_text().splitlines()]
    if options.models:
        kept = [one for one in kept if one.model in options.models.split(",")]
    changes = list(_changes(kept))
    print(*changes, sep="\n", end="\n" if changes else "")
    print(f"{len(changes)} of {len(kept)} prices differ", file=sys.stderr)
    return 1 if changes else 0


def _changes(kept: list[Price]) -> Iterator[str]:
    """A line for each state whose price is another now."""
    for place, prices in groupby(kept, key=lambda one: one.place):
        bench = bench_of(*place)
        for old in prices:
            try:
                new = price(bench, place, old.state)
            except IndexError:
                yield f"{old.name}: the state speaks of another analysis"
                continue
            if new != old:
                yield f"{old.name}: {_difference(old, new)}"


def _difference(old: Price, new: Price) -> str:
    found = [] if old.key == new.key else ["another layout"]
    for figure in FIGURES:
        before, after = (float.fromhex(getattr(one, figure)) for one in (old, new))
        if before != after:
            found.append(f"{figure} {before:.6g} -> {after:.6g}")
    return ", ".join(found)


if __name__ == "__main__":
    sys.exit(main())
