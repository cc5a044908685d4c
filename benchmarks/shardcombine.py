"""ShardCombine against Shardy: every distinct op of a GPT and of a ResNet training step, and more.

python -m benchmarks.shardcombine -o docs/shardcombine.md

Writes the agreement, the differences with their reasons, and the times with an empty and a full
cache. Exits with 1 when a difference has no documented reason.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import jax
import jaxlib
from jaxlib.mlir import ir

from benchmarks.shardcombine_ops import other_ops
from benchmarks.shardcombine_reasons import REASONS, reason
from benchmarks.shardcombine_text import PAGE
from examples.models import gpt, wideresnet
from toast.analysis import rules
from toast.analysis.flatten import flatten
from toast.analysis.shardcombine import Discoverer
from toast.analysis.shardcombine.compare import splits
from toast.analysis.shardcombine.discover import forget
from toast.analysis.shardcombine.extract import may_run, text_of

_SKIPPED = frozenset({"func.return", "stablehlo.return"})


@dataclass(kw_only=True)
class Subject:
    """One program: its distinct ops, how many ops it has, and what came out.

    `agree` and `lone` (no rule in Shardy) count by kind of op; `differ` by kind and reason. Times
    are in seconds: with no cache, and the processor time of that; with files; with memory.
    """

    name: str
    ops: int
    distinct: list[ir.Operation]
    agree: Counter[str] = field(default_factory=Counter)
    lone: Counter[str] = field(default_factory=Counter)
    differ: Counter[tuple[str, str]] = field(default_factory=Counter)
    cold: float = 0.0
    cpu: float = 0.0
    disk: float = 0.0
    memory: float = 0.0
    modules: list[ir.Module] = field(default_factory=list)


def main() -> int:
    """Measure, write the page, return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="where the page goes; default: stdout")
    parser.add_argument("--preset", default="paper_4gpu", help="size of the two models")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    subjects = [
        subject(f"GPT ({options.preset})", [gpt.lower(gpt.PRESETS[options.preset])]),
        subject(
            f"WideResNet ({options.preset})",
            [wideresnet.lower(wideresnet.PRESETS[options.preset])],
        ),
        subject("Other ops", list(other_ops())),
    ]
    for one in subjects:
        measure(one)
        print(f"{one.name}: {one.cold:.1f} s cold, {one.disk:.2f} s warm", file=sys.stderr)
    page = render(subjects, load)
    if options.output:
        options.output.write_text(page)
    else:
        print(page)
    unexplained = [key for one in subjects for key in one.differ if key[1] not in REASONS]
    for kind, _ in unexplained:
        print(f"no reason is documented for a difference on {kind}", file=sys.stderr)
    return 1 if unexplained else 0


def subject(name: str, lowered: list[jax.stages.Lowered]) -> Subject:
    """The distinct ops of some programs, with Shardy's rules on them."""
    found: dict[str, ir.Operation] = {}
    total = 0
    modules = []
    for program in lowered:
        original = program.compiler_ir("stablehlo")
        with original.context:
            module = ir.Module.parse(str(original))
            main = flatten(module)
            rules.populate(module)
            modules.append(module)
            for op in _ops(main):
                total += 1
                if may_run(op):
                    found.setdefault(text_of(op) or "", op)
    return Subject(
        name=name,
        ops=total,
        distinct=list(found.values()),
        modules=modules,
    )


def _ops(main: ir.Operation) -> Iterator[ir.Operation]:
    for view in main.regions[0].blocks[0].operations:
        if view.operation.name not in _SKIPPED:
            yield view.operation


def measure(one: Subject) -> None:
    """Find all rules three times (empty cache, full folder, full memory); compare the first."""
    with tempfile.TemporaryDirectory() as folder:
        forget()
        before = _children()
        one.cold, found = _timed(one, Path(folder))
        one.cpu = _children() - before
        forget()
        one.disk, _ = _timed(one, Path(folder))
        one.memory, _ = _timed(one, Path(folder))
    compare(one, found)


def compare(one: Subject, found: list[rules.Rule | None]) -> None:
    """Hold what was found for each distinct op against Shardy's rule."""
    reader = rules.RuleReader()
    for op, ours in zip(one.distinct, found, strict=True):
        if rules.RULE not in op.attributes:
            one.lone[op.name] += 1
            continue
        theirs = reader.read(op.attributes[rules.RULE])
        if ours is not None and splits(ours) == splits(theirs):
            one.agree[op.name] += 1
        else:
            one.differ[op.name, reason(op, ours, theirs)] += 1


def _children() -> float:
    """Processor time of the child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _timed(one: Subject, folder: Path) -> tuple[float, list[rules.Rule | None]]:
    start = time.perf_counter()
    with Discoverer(folder=folder) as discoverer:
        found = [discoverer.rule(op) for op in one.distinct]
    return time.perf_counter() - start, found


def render(subjects: list[Subject], load: float) -> str:
    """The page; `load` is the load average before the measurement."""
    used = {key for one in subjects for _, key in one.differ}
    return PAGE.format(
        load=load,
        summary="\n".join(_summary(one) for one in subjects),
        kinds="\n".join(_kinds(subjects)),
        differences="\n".join(_differences(subjects)),
        reasons="\n".join(_reason(key) for key in REASONS if key in used),
        versions=f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, "
        f"Python {platform.python_version()} on {os.cpu_count()} cores ({platform.machine()})",
    )


def _summary(one: Subject) -> str:
    compared = one.agree.total() + one.differ.total()
    times = f"{one.cold:.1f} s | {one.cpu:.1f} s | {one.disk:.2f} s | {one.memory:.2f} s"
    return (
        f"| {one.name} | {one.ops:,} | {len(one.distinct)} | {one.agree.total()} of {compared} "
        f"| {one.lone.total()} | {times} |"
    )


def _kinds(subjects: list[Subject]) -> Iterator[str]:
    agree = sum((one.agree for one in subjects), Counter[str]())
    lone = sum((one.lone for one in subjects), Counter[str]())
    differ: Counter[str] = Counter()
    for one in subjects:
        for (kind, _), count in one.differ.items():
            differ[kind] += count
    for kind in sorted({*agree, *lone, *differ}):
        yield f"| `{kind}` | {agree[kind]} | {differ[kind]} | {lone[kind]} |"


def _differences(subjects: list[Subject]) -> Iterator[str]:
    for one in subjects:
        for (kind, key), count in sorted(one.differ.items()):
            yield f"| {one.name} | `{kind}` | {count} | {key} |"


def _reason(key: str) -> str:
    lines = textwrap.wrap(
        f"- **{key}**: {REASONS[key]}", 100, subsequent_indent="  ", break_on_hyphens=False
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
