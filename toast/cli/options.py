"""The options that `plan` and `submit` share, declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

PLANNERS = ("mcts", "greedy", "beam", "ilp", "random")
"""Their names; what they are would have to be imported first."""

ModuleFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODULE",
        help="StableHLO text or bytecode, a portable artifact, or a jax.export artifact.",
    ),
]
MeshText = Annotated[
    str,
    typer.Option(
        "--mesh",
        help="Axes of the device mesh, for example data=2,model=4, or with their networks: "
        "data=2@infiniband,model=4@nvlink; auto:8 for the best mesh of 8 devices.",
    ),
]

Slices = Annotated[
    int | None,
    typer.Option(
        "--slices",
        help="In how many slices of TPUs or nodes of GPUs the devices are; which axes cross the "
        "network between them is chosen.",
    ),
]


def _known_devices() -> list[str]:
    from toast.costmodel.hardware.devices import catalogue

    return sorted(catalogue())


DeviceName = Annotated[
    str,
    typer.Option(
        "--device",
        help="The chip: a name of `toast devices`, or a device file (.toml).",
        autocompletion=_known_devices,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="Memory per device, such as 16GiB; if absent the chip's own, 5 % kept free.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the search.")]
Rollouts = Annotated[
    int | None, typer.Option("--rollouts", help="Rollouts of the search; until it converges.")
]
Budget = Annotated[
    str | None, typer.Option("--budget", help="Time for the search, such as 10s or 2min.")
]
Threads = Annotated[int, typer.Option("--threads", help="Search threads; 0 is one per core.")]
Planner = Annotated[
    str,
    typer.Option(
        "--planner",
        help=f"{', '.join(PLANNERS[:-1])} or {PLANNERS[-1]}.",
        autocompletion=lambda: list(PLANNERS),
    ),
]


class CacheOption(StrEnum):
    """Whose result a submitted job may be given."""

    ANY = "any"
    EXACT = "exact"
    OFF = "off"


Cache = Annotated[
    CacheOption,
    typer.Option(
        "--cache",
        help="Take the plan of an earlier job of this module: any that was asked the same, however "
        "long it searched; exact, with the very same settings; or off.",
    ),
]
Searches = Annotated[
    int,
    typer.Option("--searches", help="Searches with seeds from --seed on; the best plan is taken."),
]
Penalty = Annotated[
    float | None,
    typer.Option("--penalty", help="What bytes above the memory weigh against time; 10 if absent."),
]
Overlap = Annotated[
    float,
    typer.Option(
        "--overlap", help="Part of the communication that hides behind computation, 0 to 1."
    ),
]
Prove = Annotated[
    bool,
    typer.Option("--prove", help="Also bound the cost of every plan from below; takes longer."),
]
Refine = Annotated[
    bool,
    typer.Option(
        "--refine",
        help="After the search lay out single parameters, values and ops otherwise than their "
        "colours, where that pays by the cost model.",
    ),
]
Advice = Annotated[
    bool,
    typer.Option(
        "--advice/--no-advice",
        help="Where nothing fits, look some seconds longer for what would: more chips, other "
        "chips, a smaller batch, recomputation.",
    ),
]
Confirm = Annotated[
    int | None,
    typer.Option(
        "--confirm",
        metavar="[N]",
        help="Compile the N most promising plans (4 if absent) with the compiler of the chips, and "
        "take the best of what it makes of them; needs the aot extra.",
    ),
]
ConfirmTime = Annotated[
    str | None,
    typer.Option(
        "--confirm-time",
        metavar="TIME",
        help="With --confirm: how long compiling may take, such as 90s; 30min if absent.",
    ),
]
Without = Annotated[
    str | None,
    typer.Option(
        "--without",
        metavar="PASS,...",
        help="For developers: price as if the compiler did not do these passes, such as "
        "cse,all_reduce_combiner; `toast passes` lists them.",
    ),
]
FormName = Annotated[
    str | None,
    typer.Option(
        "--form",
        help="How the plan is written: flat, annotated, closed, collectives or local "
        "(docs/forms.md). Flat if absent, annotated for 500,000 ops and more.",
    ),
]
TargetVersion = Annotated[
    str | None,
    typer.Option(
        "--target-version",
        metavar="VERSION",
        help="Of a portable artifact or a jax.export artifact: the StableHLO that reads it, "
        "such as 1.0.0; the newest if absent.",
    ),
]
Microbatches = Annotated[
    str | None,
    typer.Option(
        "--microbatches",
        metavar="COUNT",
        help="Run the batch in so many parts, one after the other, and add up the gradients: a "
        "number, or auto for what is fastest among those that fit.",
    ),
]
Batch = Annotated[
    str | None,
    typer.Option(
        "--batch",
        metavar="ARGUMENT:DIMENSION",
        help="Which dimension is the batch, such as \"batch['x']:0\"; it is found if absent.",
    ),
]
Accumulate = Annotated[
    str,
    typer.Option(
        "--accumulate",
        metavar="TYPE",
        help="The type of sums over the microbatches: program, or f32 for narrower floats too.",
    ),
]
Recompute = Annotated[
    list[str] | None,
    typer.Option(
        "--recompute",
        metavar="POLICY",
        help="Make layers again in the backward pass instead of keeping what it needs of them: "
        "none, all, products (all but results of products), auto (what is fastest among those that "
        "fit), or GROUP=POLICY for one group; may be given again.",
    ),
]
Fit = Annotated[
    bool,
    typer.Option(
        "--fit",
        help="Where no layout fits, or only one that the compiler has to press, look for "
        "recomputation and microbatches with which one does.",
    ),
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Also print where time and memory go, as `toast explain`."),
]
Pins = Annotated[
    list[str] | None,
    typer.Option(
        "--pin",
        help="A layout to keep, as PATTERN=axis,None,...; repeatable. "
        "For example 'params/**/kernel=None,model'.",
    ),
]
Forbid = Annotated[
    list[str] | None,
    typer.Option(
        "--forbid", help="Axes not to shard arguments over, as PATTERN=axis,...; repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document in place of tables.")]
Quiet = Annotated[
    bool,
    typer.Option("-q", "--quiet", help="Print neither tables nor progress: errors, and paths."),
]
Output = Annotated[
    Path,
    typer.Option("-o", "--output", metavar="DIR", help="Where to write the plan and the module."),
]
Url = Annotated[str, typer.Option("--url", help="Where the service is.")]
Key = Annotated[
    str | None,
    typer.Option("--key", envvar="TOAST_API_KEY", help="Key of the service, if it asks for one."),
]

DEFAULT_OUTPUT = Path("toast-out")
