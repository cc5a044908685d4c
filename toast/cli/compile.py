"""`toast verify --compile`: a plan's module before the compiler of the chips."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from toast.analysis.errors import InvalidRequest
from toast.aot import Target, judge
from toast.aot.comparison import render_comparison
from toast.aot.pressed import press
from toast.aot.pressed_report import render_curve
from toast.cli.terminal import EXIT_DOES_NOT_FIT, Answer, ProgressBar, user_errors
from toast.costmodel.network.mesh import Axis, Mesh, parse_place
from toast.plans.plan import MeshAxis, Plan
from toast.verify.verification import check_partitionable, find_module, read_plan


def check_flags(target: str | None, *, memory_only: bool, pressed: bool) -> None:
    """Refuse flags that only a compilation knows."""
    flag = "--memory-only" if memory_only else "--pressed" if pressed else None
    if flag is not None and target is None:
        raise InvalidRequest(
            f"{flag} goes with --compile.", "Name the chips: --compile tpu-v5e:2x4."
        )


def compile_and_compare(directory: Path, name: str, answer: Answer, *, memory_only: bool) -> None:
    """Compile the sharded module ahead of time; exit with 3 when the chip's compiler refuses."""
    with user_errors(), ProgressBar() as bar:
        target, plan, mesh, module = _read(directory, name)
        bar.stage(f"compiling for {target}")
        verdict = judge(module, target, mesh, memory_only=memory_only)
    answer.document(json.dumps(verdict.figures(), indent=2))
    answer.tables(render_comparison(plan, verdict))
    if verdict.refusal is not None:
        raise typer.Exit(EXIT_DOES_NOT_FIT)


def compile_pressed(directory: Path, name: str, answer: Answer, *, memory_only: bool) -> None:
    """Compile it with less and less memory; exit with 3 when it is refused with all of it."""
    with user_errors(), ProgressBar() as bar:
        target, plan, mesh, module = _read(directory, name)
        if memory_only and target.chip.platform != "tpu":
            raise InvalidRequest(
                f"The compiler for {target} tells nothing of memory before it is done.",
                "Let it compile to the end, without --memory-only.",
            )
        curve = press(module, target, mesh, memory_only=memory_only, on_level=bar.stage)
    answer.document(json.dumps(curve.to_dict(), indent=2))
    answer.tables(render_curve(plan, curve))
    if curve.points[0].verdict.refusal is not None:
        raise typer.Exit(EXIT_DOES_NOT_FIT)


def _read(directory: Path, name: str) -> tuple[Target, Plan, Mesh, bytes]:
    """The target, and the plan with its mesh and module; raises ToastError."""
    target, plan = Target.parse(name), read_plan(directory)
    check_partitionable(plan)
    mesh = Mesh(axes=tuple(_axis(axis, target) for axis in plan.mesh.axes))
    return target, plan, mesh, find_module(directory, "sharded").read_bytes()


def _axis(axis: MeshAxis, target: Target) -> Axis:
    """An axis of a plan, with its networks where the target has several slices."""
    places = tuple(parse_place(text, axis.name) for text in axis.places)
    return Axis(name=axis.name, size=axis.size, places=places if target.slices > 1 else ())
