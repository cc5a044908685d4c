"""The commands and their flags; the work is done elsewhere."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from toast.analysis.errors import InvalidModule, InvalidRequest
from toast.api import read_module
from toast.cli import options
from toast.cli.admin import admin
from toast.cli.request_flags import SettingsCommand, with_settings
from toast.cli.terminal import (
    EXIT_DIFFERENT,
    EXIT_DOES_NOT_FIT,
    EXIT_INTERRUPTED,
    EXIT_OF_VERDICT,
    Answer,
    ProgressBar,
    user_errors,
)
from toast.explain.report import render_explanation
from toast.plans.plan import Plan
from toast.plans.report import make_console, render
from toast.process.runner import engine_command, package_environment, prepare, python_module, run
from toast.request.pipeline_request import make_pipeline_request
from toast.request.request import PlanRequest
from toast.request.size_request import BUDGET, make_size_request
from toast.search.progress import COMPILING

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """The entry point of the `toast` command, by whatever path it is called."""
    app(prog_name="toast")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"toast {metadata.version('toast-planner')}")
        raise typer.Exit


@app.callback()
def options_of_all(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Find how to lay out a training step on a mesh of accelerators."""


@app.command("plan", cls=SettingsCommand)
@with_settings
def plan_command(
    module: options.ModuleFile,
    request: PlanRequest,
    output: options.Output = options.DEFAULT_OUTPUT,
    explain: options.Explain = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find a sharding of MODULE for a mesh, write it to DIR, and print what it costs."""
    answer = Answer(quiet=quiet, as_json=as_json)
    with user_errors():
        check_output(output)
        result = _plan_in_child(read_module(module), request, output, answer)
    show_and_exit(result, output, answer, explain=explain)


@app.command("choose")
def choose_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="What `toast plan -o DIR` wrote.")
    ],
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", help="Of the table of choices; the first is 1.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Where to write; DIR-NUMBER if absent."),
    ] = None,
    explain: options.Explain = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write another plan of the front of time against memory, without a new search."""
    from toast.plans.choices import request_of, with_choices
    from toast.verify.verification import find_module, read_plan

    answer = Answer(quiet=quiet, as_json=as_json)
    with user_errors():
        plan = read_plan(directory)
        request = request_of(plan, number)
        output = output or directory.with_name(f"{directory.absolute().name}-{number}")
        check_output(output)
        module = find_module(directory, "original").read_bytes()
        result = _plan_in_child(
            module, request, output, answer, lambda new: with_choices(new, plan, number)
        )
    show_and_exit(result, output, answer, explain=explain)


def _plan_in_child(
    module: bytes,
    request: PlanRequest,
    output: Path,
    answer: Answer,
    completed: Callable[[Plan], Plan] = lambda plan: plan,
) -> Plan:
    """Plan in a temporary directory and move the results; an interrupted plan is a plan."""
    with tempfile.TemporaryDirectory(prefix="toast-") as name:
        work = Path(name)
        prepare(work, module, request)
        with answer.progress() as bar, answer.interrupts() as interrupt:
            outcome = run(work, on_event=bar.update, cancelled=interrupt)
        if outcome.status == "cancelled" and not outcome.has_plan:
            raise KeyboardInterrupt
        outcome.raise_for_error()
        plan = completed(Plan.from_json(outcome.plan_path.read_bytes()))
        save(output, plan, module, outcome.module_path.read_bytes(), outcome.module_path.suffix)
    return plan


def check_output(output: Path) -> None:
    """Refuse a directory that cannot be written to before any work; makes nothing yet."""
    nearest = output.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InvalidRequest(
            f"{output} cannot be written: {nearest} is not a directory that you may write to.",
            "Give another directory with -o.",
        )


def save(output: Path, plan: Plan, original: bytes, sharded: bytes, suffix: str) -> None:
    """Write `plan.json`, `sharded<suffix>` and, for `verify`, `original<suffix>`."""
    output.mkdir(parents=True, exist_ok=True)
    for stale in (*output.glob("sharded.*"), *output.glob("original.*")):
        stale.unlink()
    (output / f"original{suffix}").write_bytes(original)
    (output / f"sharded{suffix}").write_bytes(sharded)
    (output / "plan.json").write_text(plan.to_json(), encoding="utf-8")


def show_and_exit(plan: Plan, output: Path, answer: Answer, *, explain: bool = False) -> None:
    """Print the report; exit with 3 when the best plan does not fit the memory."""
    answer.document(plan.to_json())
    answer.tables(render(plan))
    if explain and plan.explanation is not None:
        answer.tables("", render_explanation(plan, plan.explanation))
    answer.written(output, f"\nWritten to {output}/: plan.json and the sharded module.")
    if plan.verdict == "does not fit":
        raise typer.Exit(EXIT_DOES_NOT_FIT)


@app.command("size")
def size_command(  # noqa: PLR0913 - one parameter for each flag
    module: options.ModuleFile,
    devices: Annotated[
        str,
        typer.Option(
            "--devices", metavar="CHIP,...", help="Names of `toast devices`, or device files."
        ),
    ] = "tpu-v5e",
    most: Annotated[int, typer.Option("--max", help="Chips of the largest slice.", min=1)] = 256,
    least: Annotated[int, typer.Option("--min", help="Chips of the smallest slice.", min=1)] = 1,
    memory: options.Memory = None,
    budget: Annotated[
        str, typer.Option("--budget", help="Time for all searches together.")
    ] = BUDGET,
    seed: options.Seed = 0,
    threads: options.Threads = 0,
    penalty: options.Penalty = None,
    overlap: options.Overlap = 0.0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Print on which slices of which chips MODULE fits, how fast, and for how many chip-seconds."""
    from toast.cli.size import print_slices

    with user_errors():
        request = make_size_request(
            devices=devices.split(","),
            least=least,
            most=most,
            memory=memory,
            budget=budget,
            seed=seed,
            threads=threads,
            penalty=penalty,
            overlap=overlap,
        )
        fits = print_slices(read_module(module), request, Answer(quiet=quiet, as_json=as_json))
    if not fits:
        raise typer.Exit(EXIT_DOES_NOT_FIT)


@app.command("pipeline")
def pipeline_command(  # noqa: PLR0913 - one parameter for each flag
    module: options.ModuleFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the stages are written.")
    ],
    microbatches: Annotated[
        str,
        typer.Option(
            "--microbatches",
            metavar="N",
            help="Parts of the batch, one after another; auto for the fastest number that fits.",
        ),
    ] = "auto",
    stages: Annotated[
        int | None, typer.Option("--stages", help="Stages of the pipeline.", min=1)
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option("--devices", help="Search stages and mesh for so many devices.", min=1),
    ] = None,
    mesh: Annotated[
        str | None,
        typer.Option(
            "--mesh", help="That of a stage, data=2,model=2, or of all: pipe=4,data=2,model=2."
        ),
    ] = None,
    schedule: Annotated[
        str, typer.Option("--schedule", help="auto, gpipe, 1f1b or interleaved.")
    ] = "auto",
    chunks: Annotated[
        int | None,
        typer.Option("--chunks", help="Runs of layers on each stage, for interleaved.", min=1),
    ] = None,
    cuts: Annotated[
        str | None,
        typer.Option("--cuts", metavar="N,...", help="First layers of all chunks but the first."),
    ] = None,
    form: Annotated[
        str,
        typer.Option("--form", help="stages, or spmd: one module, for scanned layers."),
    ] = "stages",
    device: options.DeviceName = "tpu-v5e",
    memory: options.Memory = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Cut MODULE into the stages of a pipeline, plan each, and choose a schedule."""
    from toast.cli.pipeline import parse_cuts, write_one_module, write_stages
    from toast.cli.request_flags import count_or_word

    with user_errors():
        request = make_pipeline_request(
            stages=stages,
            devices=devices,
            microbatches=count_or_word(microbatches),
            mesh=mesh,
            schedule=schedule,
            chunks=chunks,
            cuts=parse_cuts(cuts),
            form=form,
            device=device,
            memory=memory,
            seed=seed,
        )
        check_output(output)
        answer = Answer(quiet=quiet, as_json=as_json)
        write = write_one_module if request.form == "spmd" else write_stages
        fits = write(read_module(module), request, output, answer)
    if not fits:
        raise typer.Exit(EXIT_DOES_NOT_FIT)


@app.command("inspect")
def inspect_command(
    module: options.ModuleFile,
    as_json: options.Json = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page that explains it all instead."),
    ] = None,
    which: Annotated[
        int, typer.Option("--set", help="The compatibility set whose graph is drawn.", min=0)
    ] = 0,
    quiet: options.Quiet = False,
) -> None:
    """Print the colours, conflicts, compatibility sets and repeated groups of MODULE."""
    from toast.cli.inspection import print_inspection, write_page

    found: list[object] = []
    answer = Answer(quiet=quiet, as_json=as_json)
    with user_errors():
        read_module(module)
        if html is not None:
            check_output(html.absolute().parent)
        with answer.progress() as bar:
            bar.stage("analysing")
            outcome = run(
                module.resolve().parent,
                command=engine_command("--inspect", str(module.resolve()), str(which)),
                on_event=lambda event: found.append(event.get("inspection")),
            )
        outcome.raise_for_error()
        if not found or not isinstance(found[0], dict):
            raise InvalidModule("The analysis ended without a result.", "Please report this.")
        if html is not None:
            write_page(found[0], html, module.name, answer)
        if html is None or as_json:
            print_inspection(found[0], answer)


@app.command("explain")
def explain_command(
    path: Annotated[
        Path, typer.Argument(metavar="PLAN", help="A plan.json, or the directory that holds it.")
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="What to give the reasons for: an argument, a result, a value or a colour, or a "
            "pattern such as 'params/layers/*/wq'.",
        ),
    ] = None,
    as_json: options.Json = False,
    rows: Annotated[int, typer.Option("--rows", help="Rows of each table.", min=1)] = 10,
    quiet: options.Quiet = False,
) -> None:
    """Say where time and memory of a plan go; with NAME, why that is laid out as it is."""
    from toast.cli.explain import print_explanation, print_reasons

    answer = Answer(quiet=quiet, as_json=as_json)
    with user_errors():
        if name is None:
            print_explanation(path, answer, rows=rows)
        else:
            print_reasons(path, name, answer)


@app.command("report")
def report_command(
    path: Annotated[
        Path, typer.Argument(metavar="PLAN", help="A plan.json, or the directory that holds it.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The page; report.html beside the plan if absent.",
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Write one HTML page that shows all of a plan; it needs no other file and no network."""
    from toast.cli.report import open_page, write_report

    with user_errors():
        written = write_report(path, output)
    Answer(quiet=quiet).written(written, f"Written to {written}.")
    if show:
        open_page(written)


@app.command("diff")
def diff_command(
    a: Annotated[Path, typer.Argument(metavar="A", help="A plan.json, or its directory.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another plan of the same module.")],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what differs between two plans; exit with 1 where anything does."""
    from toast.cli.explain import print_diff

    with user_errors():
        equal = print_diff(a, b, Answer(quiet=quiet, as_json=as_json))
    if not equal:
        raise typer.Exit(EXIT_DIFFERENT)


@app.command("verify")
def verify_command(  # noqa: PLR0913 - one parameter for each flag
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="What `toast plan -o DIR` wrote.")
    ],
    seed: Annotated[int, typer.Option("--seed", help="Seed of the inputs.", min=0)] = 0,
    rows: Annotated[int, typer.Option("--rows", help="Results to show.", min=1)] = 10,
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor",
            help="xla, or reference: device by device without XLA's partitioner, for the forms "
            "collectives and local. If absent, the one that runs the form.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--compile",
            metavar="TARGET",
            help="Compile for these chips instead, such as tpu-v5e:2x4 or a100:8, and compare "
            "memory and collectives with the plan's.",
        ),
    ] = None,
    memory_only: Annotated[
        bool,
        typer.Option(
            "--memory-only",
            help="With --compile: end the compiler, a TPU's, once it has laid memory out.",
        ),
    ] = False,
    pressed: Annotated[
        bool,
        typer.Option(
            "--pressed",
            help="With --compile: compile with less and less memory too, and print what is laid "
            "out and what a step takes then.",
        ),
    ] = False,
    scale: Annotated[
        bool,
        typer.Option(
            "--scale",
            help="Run a program with the same ops and smaller dimensions, as is done where the "
            "planned one is too large for this machine.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the comparison as JSON in place of a table.")
    ] = False,
) -> None:
    """Run the sharded module against the original on virtual devices and compare the results."""
    from toast.cli.compile import check_flags, compile_and_compare, compile_pressed
    from toast.verify.report import render_verification
    from toast.verify.verification import verify

    with user_errors():
        check_flags(target, memory_only=memory_only, pressed=pressed)
    if target is not None:
        compiled = compile_pressed if pressed else compile_and_compare
        compiled(directory, target, Answer(as_json=as_json), memory_only=memory_only)
        return
    with user_errors(), ProgressBar() as bar:
        verification = verify(
            directory, seed=seed, executor=executor, scale=scale, on_stage=bar.stage
        )
    if as_json:
        typer.echo(verification.model_dump_json(indent=2))
    else:
        make_console().print(render_verification(verification, rows=rows))
    raise typer.Exit(EXIT_OF_VERDICT[verification.verdict])


@app.command("warm")
def warm_command(quiet: options.Quiet = False) -> None:
    """Compile the kernels ahead of the first plan, and say where they are kept."""
    from toast.search.kernel_cache import kept_in, warm_kernels

    started, answer = time.perf_counter(), Answer(quiet=quiet)
    with user_errors():
        with answer.progress() as bar:
            compiled = warm_kernels(
                lambda share: bar.update({"stage": COMPILING, "fraction": share})
            )
        folder = kept_in()
        if folder is None:
            raise InvalidRequest(
                "The compiled kernels cannot be kept: no folder for them may be written to.",
                "Name one in NUMBA_CACHE_DIR.",
            )
    spent = f"{time.perf_counter() - started:.1f} s"
    said = f"Compiled the kernels in {spent}" if compiled else "The kernels were compiled already"
    answer.written(folder, f"{said}; they are in {folder}.")


@app.command("serve", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve_command(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port; 0 takes a free one.")] = 8080,
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Where jobs and modules are kept.")
    ] = Path("data"),
) -> None:
    """Start the HTTP service; further flags are passed on to `python -m service`."""
    flags = ["--host", host, "--port", str(port), "--data", str(data), *context.args]
    sys.stdout.flush()
    command = [*python_module("toast.service"), *flags]
    os.execve(command[0], command, package_environment())


@app.command(
    "keys",
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    },
)
def keys_command(context: typer.Context) -> None:
    """Add, list, rotate and revoke API keys of a service; `toast keys --help` says how."""
    sys.stdout.flush()
    command = [*python_module("toast.service.access"), *context.args]
    os.execve(command[0], command, package_environment())


app.add_typer(
    admin,
    name="admin",
    help="Look after a service: jobs that may be what ends its servers.",
)


@app.command("worker", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def worker_command(
    context: typer.Context,
    store: Annotated[
        str, typer.Option("--store", metavar="URL", help="The ledger: postgresql+psycopg://...")
    ],
    artifacts: Annotated[
        str, typer.Option("--artifacts", metavar="URL", help="file:///... or s3://BUCKET/PREFIX.")
    ],
) -> None:
    """Run jobs of a shared ledger without serving HTTP; docs/many-machines.md has all flags."""
    flags = ["--store", store, "--artifacts", artifacts, *context.args]
    sys.stdout.flush()
    command = [*python_module("toast.service.worker_command"), *flags]
    os.execve(command[0], command, package_environment())


@app.command("submit", cls=SettingsCommand)
@with_settings
def submit_command(  # noqa: PLR0913 - one parameter for each flag
    module: options.ModuleFile,
    url: options.Url,
    request: PlanRequest,
    output: options.Output = options.DEFAULT_OUTPUT,
    explain: options.Explain = False,
    cache: options.Cache = options.CacheOption.OFF,
    key: options.Key = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Plan MODULE on a service: upload it, watch, download the plan, print what it costs."""
    from toast.cli.submit import submit_and_wait

    answer = Answer(quiet=quiet, as_json=as_json)
    with user_errors():
        check_output(output)
        original = read_module(module)
        result = submit_and_wait(
            (url, key), original, request, answer, name=module.name, cache=cache.value
        )
        if result is None:
            raise typer.Exit(EXIT_INTERRUPTED)
        save(output, result.plan, original, result.module, result.suffix)
    show_and_exit(result.plan, output, answer, explain=explain)


@app.command("ci")
def ci_command(  # noqa: PLR0913 - one parameter for each flag
    budget: Annotated[
        Path,
        typer.Option("--budget", metavar="FILE", help="The models and what they may take."),
    ] = Path("toast.budget.toml"),
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="Plan on this service; here if absent."),
    ] = None,
    key: options.Key = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="In place of the one of the budget."),
    ] = None,
    update: Annotated[
        bool,
        typer.Option("--update-baseline", help="Write the figures of this run to the baseline."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Plan this model alone; repeatable."),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option("--summary", metavar="FILE", help="Write Markdown there.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML there.")
    ] = None,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Write SARIF there.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Keep each plan at DIR/NAME/plan.json."),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Plan the models of a budget; fail where one takes more than it may, or than before."""
    from toast.cli.ci import CiOptions, check_budget

    chosen = CiOptions(
        budget=budget,
        server=server,
        key=key,
        baseline=baseline,
        update=update,
        only=tuple(only or ()),
        summary=summary,
        junit=junit,
        sarif=sarif,
        output=output,
    )
    with user_errors():
        code = check_budget(chosen, Answer(quiet=quiet, as_json=as_json))
    raise typer.Exit(code)


@app.command("devices")
def devices_command(as_json: options.Json = False, quiet: options.Quiet = False) -> None:
    """List the chips that can be planned for."""
    from toast.cli.inspection import print_devices

    print_devices(Answer(quiet=quiet, as_json=as_json))


@app.command("calibrate")
def calibrate_command(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The device file to write.")
    ] = Path("device.toml"),
    platform: Annotated[
        str, typer.Option("--platform", help="cpu, cuda or tpu; JAX's choice if absent.")
    ] = "",
    devices: Annotated[
        int, typer.Option("--devices", help="How many devices; 0 is all, on a CPU 8.", min=0)
    ] = 0,
    base: Annotated[
        str,
        typer.Option("--base", help="The chip or device file for what cannot be measured."),
    ] = "",
    name: Annotated[str, typer.Option("--name", help="What to call the device.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller sizes.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure this machine's devices and write a device file for `--device`."""
    from toast.calibrate.calibration import Calibration
    from toast.cli.calibrate import calibrate_to

    wanted = Calibration(platform=platform, devices=devices, base=base, name=name, quick=quick)
    with user_errors():
        calibrate_to(output, wanted, Answer(quiet=quiet, as_json=as_json))


@app.command("schema", hidden=True)
def schema_command() -> None:
    """Print the JSON Schema of `plan.json`."""
    from toast.plans.schema import schema_text

    typer.echo(schema_text(), nl=False)


@app.command("passes", hidden=True)
def passes_command(as_json: options.Json = False, quiet: options.Quiet = False) -> None:
    """List the behaviours of compilers that `--without` leaves out."""
    from toast.cli.inspection import print_passes

    print_passes(Answer(quiet=quiet, as_json=as_json))
