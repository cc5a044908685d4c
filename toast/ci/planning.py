"""The models of a budget, planned on this machine or on a service, one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from toast.analysis.errors import ToastError
from toast.api import plan_module, read_module
from toast.ci.budget import BudgetedModel
from toast.client import Client
from toast.plans.plan import Plan
from toast.process.runner import Event

Planned = tuple[BudgetedModel, Plan | ToastError]
OnModel = Callable[[str], None]


def plan_here(
    models: Sequence[BudgetedModel], on_model: OnModel, on_event: Callable[[Event], None]
) -> Iterator[Planned]:
    """The plan of each model, or why there is none."""
    for model in models:
        on_model(model.name)
        try:
            result = plan_module(read_module(model.module), model.request, on_event)
        except ToastError as error:
            yield model, error
        else:
            yield model, result.plan


def plan_on_service(
    client: Client, models: Sequence[BudgetedModel], on_model: OnModel
) -> Iterator[Planned]:
    """The same on a service, which has all jobs at once and works on as many as it can.

    Jobs that nobody will read, since we were interrupted, are cancelled.
    """
    waiting: dict[str, str] = {}
    refused: dict[str, ToastError] = {}
    try:
        for model in models:
            on_model(model.name)
            try:
                waiting[model.name] = _submit(client, model)
            except ToastError as error:
                refused[model.name] = error
        for model in models:
            on_model(model.name)
            if model.name in refused:
                yield model, refused[model.name]
                continue
            try:
                client.wait(waiting[model.name])
                found: Plan | ToastError = client.plan(waiting[model.name])
            except ToastError as error:
                found = error
            del waiting[model.name]
            yield model, found
    finally:
        for job in waiting.values():
            with contextlib.suppress(ToastError):
                client.cancel(job)


def _submit(client: Client, model: BudgetedModel) -> str:
    return client.submit_request(read_module(model.module), model.request, name=model.name)
