"""A plan for an exported program: from the disk, from this machine, or from a service."""

from __future__ import annotations

import os
from typing import Any

from toast.analysis.errors import InvalidRequest
from toast.api import plan_module
from toast.client import Client
from toast.costmodel.hardware.quantities import format_bytes
from toast.plans.advice_report import advice_sentences
from toast.plans.notices import DoesNotFit, notify
from toast.plans.plan import Plan
from toast.plans.result import PlanResult
from toast.request.request import PlanRequest
from toast.sharding.plan_cache import plan_key, read_plan, write_plan
from toast.sharding.tracing import Traced

URL, KEY = "TOAST_URL", "TOAST_API_KEY"


def planned(
    traced: Traced, request: PlanRequest, *, client: Any, cached: bool, on_progress: Any = None
) -> PlanResult:
    """The plan that `request` asks for; warns of what its user should know."""
    key = plan_key(traced.identity(), request) if cached else ""
    result = read_plan(key) if cached else None
    if result is None:
        result = _made(bytes(traced.program.export().serialize()), request, client, on_progress)
        if cached:
            write_plan(key, result)
    warn_of(result.plan)
    return result


def warn_of(plan: Plan) -> None:
    """Python warnings for what a table would have shown."""
    for text in plan.warnings:
        notify(text)
    if plan.verdict == "does not fit":
        said = None if plan.confirmed is None else plan.confirmed.chosen
        compiled = None if said is None or said.compiled is None else said.compiled.peak_bytes
        peak = plan.predicted.peak_bytes if compiled is None else compiled
        mesh = ",".join(f"{axis.name}={axis.size}" for axis in plan.mesh.axes)
        notify(
            f"No plan fits: the best takes {format_bytes(peak)} on each {plan.device} "
            f"of the mesh {mesh}, which has {format_bytes(plan.memory_bytes)} for it "
            f"({format_bytes(plan.unsharded.peak_bytes)} unsharded). {_what_would(plan)}",
            DoesNotFit,
        )


def _what_would(plan: Plan) -> str:
    """What would fit, in a sentence."""
    advice = None if plan.shortfall is None else plan.shortfall.advice
    found = [] if advice is None else advice_sentences(advice)
    if not found:
        return "Use more devices, a smaller batch or recomputation (jax.checkpoint)."
    return f"What would fit: {'; '.join(found)}. `plan.shortfall.advice` has the figures."


def _made(module: bytes, request: PlanRequest, client: Any, on_progress: Any) -> PlanResult:
    if client is None:
        client = os.environ.get(URL) or None
    if client is None:
        return plan_module(module, request, on_progress)
    if isinstance(client, str):
        with Client(client, os.environ.get(KEY) or None) as service:
            return _by_service(service, module, request, on_progress)
    if not hasattr(client, "submit_request"):
        raise InvalidRequest(
            f"{client!r} is no client of a service.",
            "Give a toast.Client, the URL of a service, or nothing to plan on this machine.",
        )
    return _by_service(client, module, request, on_progress)


def _by_service(
    client: Client, module: bytes, request: PlanRequest, on_progress: Any
) -> PlanResult:
    job = client.submit_request(module, request)

    def tell(event: Any) -> None:
        if on_progress is not None and event.kind == "progress":
            on_progress(event.data)

    client.wait(job, on_event=tell)
    return client.answer(job)
