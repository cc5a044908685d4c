"""`toast.plan`: one call, one child process, one answer."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toast.analysis.errors import InvalidModule
from toast.plans.advice import SliceTable
from toast.plans.pipeline_answer import PipelineAnswer
from toast.plans.plan import Plan
from toast.plans.result import PlanResult
from toast.plans.spmd_answer import SpmdAnswer
from toast.process.outcome import EngineFailed
from toast.process.runner import Event, engine_command, prepare, run
from toast.request.nnx_names import with_names
from toast.request.pipeline_request import PipelineRequest, make_pipeline_request
from toast.request.request import PlanRequest
from toast.request.settings import make_request
from toast.request.size_request import BUDGET, SizeRequest, make_size_request

if TYPE_CHECKING:
    import jax


def plan(  # noqa: PLR0913 - the settings of a job, each by its name
    module: bytes | str | os.PathLike[str] | jax.export.Exported | jax.stages.Lowered,
    *,
    mesh: Any,
    slices: int | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    seed: int = 0,
    searches: int = 1,
    rollouts: int | None = None,
    budget: float | str | None = None,
    threads: int = 0,
    planner: str = "mcts",
    penalty: float | None = None,
    overlap: float = 0.0,
    pins: Sequence[str] = (),
    forbid: Sequence[str] = (),
    prove: bool = False,
    decisions: Sequence[str] | None = None,
    refine: bool = False,
    advice: bool = True,
    confirm: int | bool | None = None,
    confirm_time: float | str | None = None,
    form: str | None = None,
    target_version: str | None = None,
    microbatches: int | str | None = None,
    batch: str | None = None,
    accumulate: str = "program",
    recompute: str | Sequence[str] = (),
    fit: bool = False,
    on_progress: Callable[[Event], None] | None = None,
) -> PlanResult:
    """Find a sharding of `module` for `mesh` of `device`s; blocks until it is found.

    Args:
        module: bytes in any form, a path, a `jax.export.Exported` or a `jax.stages.Lowered`.
        mesh: `"data=2,model=4"` (docs/devices.md), `"auto:8"`, a mapping, or JAX's.
        slices: of how many slices of TPUs or nodes of GPUs the mesh is; which axes cross between
            them is then chosen, as far as the mesh does not say it (docs/networks.md).
        device: a name of `toast devices`, or the path of a device file; `"auto"` is the chip that a
            `jax.sharding.Mesh` is made of, and tpu-v5e for a mesh without devices.
        memory: per device, in bytes or such as `"16GiB"`; the chip's own when None.
        seed: of the search; with it, `rollouts` and `threads=1` the answer is repeatable.
        searches: so many, with seeds from `seed` on; the best plan is taken.
        rollouts: until the search converges when None.
        budget: seconds of search, or such as `"10s"`.
        threads: 0 is one per core.
        planner: `mcts`, `greedy`, `beam`, `ilp` or `random`.
        penalty: C of the reward, bytes above the memory against time; 10 when None.
        overlap: part of the communication, 0 to 1, that hides behind computation.
        pins: layouts to keep, as `"PATTERN=axis,None,..."` (docs/cli.md has the patterns).
        forbid: axes that arguments must not be sharded over, as `"PATTERN=axis,..."`.
        prove: also compute a lower bound on the cost of every plan, for `gap` of the plan.
        decisions: of one of a plan's `choices`: the plan that they make, without a search.
        refine: lay single values and ops out otherwise than their colours; not with `prove`.
        advice: where nothing fits, look some seconds longer for what would.
        confirm: how many plans to compile with the compiler of the chips, of which the best is then
            taken (docs/confirm.md); True is 4. It has to be installed: `toast-planner[aot]`.
        confirm_time: seconds that compiling may take, or such as `"10min"`.
        form: `flat`, `annotated`, `closed`, `collectives` or `local` (docs/forms.md).
        target_version: of StableHLO, for a portable or a `jax.export` artifact; None is the newest.
        microbatches: parts in which the batch runs, one after the other (docs/time.md); `"auto"`
            takes what is fastest among those that fit.
        batch: which dimension that is, as `"ARGUMENT:DIMENSION"`; found when None.
        accumulate: `"program"`, or `"f32"` to keep sums over the microbatches in at least f32.
        recompute: layers made again in the backward pass (docs/recompute.md): `"all"`,
            `"products"`, `"auto"`, or `"GROUP=POLICY"` for groups of them.
        fit: where no layout fits, or only one that the compiler has to press, look for
            recomputation and microbatches with which one does.
        on_progress: called in this thread with the fields of `toast.search.progress.Progress`.

    Returns the plan and the sharded module, in the form that `module` had. Raises ToastError with
    what is wrong, and what to do; XLA's aborts end the child process alone.
    """
    request = make_request(
        mesh=mesh,
        slices=slices,
        device=device,
        memory=memory,
        budget=budget,
        seed=seed,
        searches=searches,
        rollouts=rollouts,
        threads=threads,
        planner=planner,
        penalty=penalty,
        overlap=overlap,
        prove=prove,
        refine=refine,
        advice=advice,
        confirm=confirm,
        confirm_time=confirm_time,
        form=form,
        target_version=target_version,
        microbatches=microbatches,
        batch=batch,
        accumulate=accumulate,
        recompute=(recompute,) if isinstance(recompute, str) else tuple(recompute),
        fit=fit,
        **_tuples(pins=pins, forbid=forbid, decisions=decisions),
    )
    return plan_module(module_bytes(module), request, on_progress)


def _tuples(**texts: Sequence[str] | None) -> dict[str, tuple[str, ...] | None]:
    return {name: None if found is None else tuple(found) for name, found in texts.items()}


def plan_module(
    module: bytes, request: PlanRequest, on_progress: Callable[[Event], None] | None = None
) -> PlanResult:
    """Plan in a child process, in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="toast-") as name:
        directory = Path(name)
        prepare(directory, module, request)
        outcome = run(directory, on_event=on_progress)
        outcome.raise_for_error()
        return PlanResult(
            plan=Plan.from_json(outcome.plan_path.read_bytes()),
            module=outcome.module_path.read_bytes(),
            suffix=outcome.module_path.suffix,
        )


def size(
    module: bytes | str | os.PathLike[str] | jax.export.Exported | jax.stages.Lowered,
    *,
    devices: Sequence[str] = ("tpu-v5e",),
    least: int = 1,
    most: int = 256,
    memory: int | str | None = None,
    budget: float | str = BUDGET,
    on_progress: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    **settings: Any,
) -> SliceTable:
    """What a step of `module` takes on slices of chips: does it fit, how fast, what does it cost.

    Args:
        module: as `plan` takes it.
        devices: names of `toast devices`, or the beginning of one, or device files.
        least: chips of the smallest slice; slices have powers of two.
        most: chips of the largest.
        memory: per chip, in place of each chip's own.
        budget: seconds for all searches together, or such as `"60s"`.
        on_progress: called in this thread with the fields of `toast.search.progress.Progress`.
        cancelled: asked ten times a second whether to stop; what is known then comes back.
        **settings: `seed`, `threads`, `overlap` and `penalty` as `plan` takes them.

    Returns what fits first, the least chip-seconds first. Raises ToastError.
    """
    unknown = settings.keys() - {"seed", "threads", "overlap", "penalty"}
    if unknown:
        raise TypeError(f"size() got an unexpected keyword argument {min(unknown)!r}")
    request = make_size_request(
        devices=devices, least=least, most=most, memory=memory, budget=budget, **settings
    )
    return size_slices(module_bytes(module), request, on_progress, cancelled)


def size_slices(
    module: bytes,
    request: SizeRequest,
    on_progress: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> SliceTable:
    """Price slices in a child process, in a directory of its own."""
    found: list[SliceTable] = []

    def hear(event: Event) -> None:
        if event.get("event") == "slices":
            found.append(SliceTable.model_validate(event["table"]))
        elif on_progress is not None:
            on_progress(event)

    with tempfile.TemporaryDirectory(prefix="toast-") as name:
        prepare(Path(name), module, request)
        command = engine_command("--size", name)
        outcome = run(Path(name), on_event=hear, cancelled=cancelled, command=command)
    if not found:
        outcome.raise_for_error()
        raise EngineFailed("The engine ended without an answer.", "Please report this.")
    return found[0]


def plan_pipeline(
    module: Any,
    directory: str | os.PathLike[str],
    *,
    microbatches: int | Literal["auto"] = "auto",
    stages: int | None = None,
    devices: int | None = None,
    device: str = "tpu-v5e",
    memory: int | str | None = None,
    **settings: Any,
) -> PipelineAnswer:
    """Cut a step into the stages of a pipeline, plan each, and write them all to `directory`.

    Give the number of `stages`, or of `devices` to have stages, chunks and meshes searched. Without
    a number of `microbatches` the fastest is taken that divides the batch and fits.
    `module` is what `plan` takes. `settings` are those of `PipelineRequest`: `mesh` of a stage,
    `chunks`, `schedule`, `cuts`, `seed`, `rollouts`. `toast.run_pipeline` runs what was written.
    """
    request = make_pipeline_request(
        device=device,
        memory=memory,
        stages=stages,
        devices=devices,
        microbatches=microbatches,
        **settings,
    )
    return plan_stages(module_bytes(module), request, Path(directory))


def plan_spmd(
    module: Any,
    directory: str | os.PathLike[str],
    *,
    mesh: str,
    microbatches: int,
    device: str = "tpu-v5e",
    memory: int | str | None = None,
    **settings: Any,
) -> SpmdAnswer:
    """Let the scanned layers of a step run as a pipeline, in one module for the whole mesh.

    The axis `pipe` of the `mesh` is the stages; `module` is what `plan` takes, and the module in
    `directory` has its form and signature. `settings` are `seed` and `rollouts`.
    """
    request = make_pipeline_request(
        device=device,
        memory=memory,
        mesh=mesh,
        microbatches=microbatches,
        form="spmd",
        **settings,
    )
    return plan_spmd_stages(module_bytes(module), request, Path(directory))


def plan_stages(
    module: bytes,
    request: PipelineRequest,
    output: Path,
    on_progress: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> PipelineAnswer:
    """Plan a pipeline in a child process, which writes it to `output`."""
    answer = _pipelined(module, request, output, on_progress, cancelled)
    return PipelineAnswer.model_validate(answer)


def plan_spmd_stages(
    module: bytes,
    request: PipelineRequest,
    output: Path,
    on_progress: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> SpmdAnswer:
    """The same for a pipeline in one module."""
    answer = _pipelined(module, request, output, on_progress, cancelled)
    return SpmdAnswer.model_validate(answer)


def _pipelined(
    module: bytes,
    request: PipelineRequest,
    output: Path,
    on_progress: Callable[[Event], None] | None,
    cancelled: Callable[[], bool] | None,
) -> object:
    found: list[object] = []

    def hear(event: Event) -> None:
        if event.get("event") == "stages":
            found.append(event["answer"])
        elif on_progress is not None:
            on_progress(event)

    with tempfile.TemporaryDirectory(prefix="toast-") as name:
        prepare(Path(name), module, request)
        command = engine_command("--pipeline", name, str(output.resolve()))
        outcome = run(Path(name), on_event=hear, cancelled=cancelled, command=command)
    if not found:
        outcome.raise_for_error()
        raise EngineFailed("The engine ended without an answer.", "Please report this.")
    return found[0]


def module_bytes(module: Any) -> bytes:
    """The bytes of any form of module that `plan` takes; raises InvalidModule."""
    if isinstance(module, bytes | bytearray | memoryview):
        return bytes(module)
    if isinstance(module, str | os.PathLike):
        return read_module(Path(module))
    if hasattr(module, "mlir_module_serialized"):
        return bytes(module.serialize())
    # nnx.jit and equinox.filter_jit return records around what jax.jit would have returned.
    lowered = getattr(module, "lowered", module)
    if hasattr(lowered, "compiler_ir"):
        buffer = io.BytesIO()
        found = lowered.compiler_ir("stablehlo")
        if type(module).__module__.startswith("flax.nnx"):
            found = with_names(module, found)
        found.operation.write_bytecode(buffer)
        return buffer.getvalue()
    raise InvalidModule(
        f"A {type(module).__name__} is not a module.",
        "Give bytes, a path, a jax.export.Exported or what jax.jit(f).lower(...) returns.",
    )


def read_module(path: Path) -> bytes:
    """The bytes of a module's file; raises InvalidModule where it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidModule(
            f"{path} cannot be read: {error.strerror}.", "Give the path of a module's file."
        ) from None
    if not data:
        raise InvalidModule(
            f"{path} is empty.", "Write the module again, with `jax.jit(f).lower(...)` for one."
        )
    return data
