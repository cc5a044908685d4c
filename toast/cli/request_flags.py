"""The settings of a request as flags, declared once for all commands that make one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import Any

from typer.core import TyperCommand

from toast.cli import options
from toast.cli.terminal import user_errors
from toast.request.request import CONFIRM_PLANS, PlanRequest
from toast.request.settings import make_request

REQUEST = "request"
CONFIRM = "--confirm"
_NUMBER = re.compile(r"[+-]?\d+")


def request_of(  # noqa: PLR0913 - one parameter for each flag
    *,
    mesh: options.MeshText,
    slices: options.Slices = None,
    device: options.DeviceName = "tpu-v5e",
    memory: options.Memory = None,
    seed: options.Seed = 0,
    searches: options.Searches = 1,
    rollouts: options.Rollouts = None,
    budget: options.Budget = None,
    threads: options.Threads = 0,
    planner: options.Planner = "mcts",
    penalty: options.Penalty = None,
    overlap: options.Overlap = 0.0,
    pins: options.Pins = None,
    forbid: options.Forbid = None,
    prove: options.Prove = False,
    refine: options.Refine = False,
    advice: options.Advice = True,
    confirm: options.Confirm = None,
    confirm_time: options.ConfirmTime = None,
    without: options.Without = None,
    form: options.FormName = None,
    target_version: options.TargetVersion = None,
    microbatches: options.Microbatches = None,
    batch: options.Batch = None,
    accumulate: options.Accumulate = "program",
    recompute: options.Recompute = None,
    fit: options.Fit = False,
) -> PlanRequest:
    """The request that these flags make; raises ToastError where it would not do."""
    return make_request(
        mesh=mesh,
        slices=slices,
        device=device,
        memory=memory,
        seed=seed,
        searches=searches,
        rollouts=rollouts,
        budget=budget,
        threads=threads,
        planner=planner,
        penalty=penalty,
        overlap=overlap,
        pins=pins,
        forbid=forbid,
        prove=prove,
        refine=refine,
        advice=advice,
        confirm=confirm,
        confirm_time=confirm_time,
        without=None if without is None else tuple(without.split(",")),
        form=form,
        target_version=target_version,
        microbatches=count_or_word(microbatches),
        batch=batch,
        accumulate=accumulate,
        recompute=tuple(recompute or ()),
        fit=fit,
    )


def count_or_word(text: str | None) -> int | str | None:
    """A number where it is one; the request says what is wrong with anything else."""
    return int(text) if text is not None and _NUMBER.fullmatch(text) else text


class SettingsCommand(TyperCommand):
    """A command whose `--confirm` may be given without a number, which is then the usual one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write the usual number behind a `--confirm` that is followed by none."""
        following = [*args[1:], ""]
        pairs = zip(args, following, strict=True)
        usual = f"{CONFIRM}={CONFIRM_PLANS}"
        complete = [
            usual if one == CONFIRM and not _NUMBER.fullmatch(after) else one
            for one, after in pairs
        ]
        return super().parse_args(ctx, complete)


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with a flag for each setting in place of its parameter `request`."""
    flags = inspect.signature(request_of, eval_str=True).parameters

    @wraps(command)
    def run(**given: Any) -> None:
        settings = {name: given.pop(name) for name in flags}
        with user_errors():
            given[REQUEST] = request_of(**settings)
        command(**given)

    own = inspect.signature(command, eval_str=True).parameters
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        parameters += flags.values() if name == REQUEST else [parameter]
    keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    run.__dict__["__signature__"] = inspect.Signature(keyword)
    return run
