"""The settings of a request as flags, declared once for all commands that make one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from toast.cli import options
from toast.cli.terminal import user_errors
from toast.request.request import PlanRequest
from toast.request.settings import make_request

REQUEST = "request"


def request_of(  # noqa: PLR0913 - one parameter for each flag
    *,
    mesh: options.MeshText,
    device: options.DeviceName = "tpu-v5e",
    memory: options.Memory = None,
    seed: options.Seed = 0,
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
    without: options.Without = None,
    form: options.FormName = None,
    target_version: options.TargetVersion = None,
) -> PlanRequest:
    """The request that these flags make; raises ToastError where it would not do."""
    return make_request(
        mesh=mesh,
        device=device,
        memory=memory,
        seed=seed,
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
        without=None if without is None else tuple(without.split(",")),
        form=form,
        target_version=target_version,
    )


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
