"""`toast submit`: one job on a service, from upload to download."""

from __future__ import annotations

from toast.cli.terminal import Answer, ProgressBar
from toast.client import Client, JobEvent
from toast.plans.result import PlanResult
from toast.request.request import PlanRequest


def submit_and_wait(
    service: tuple[str, str | None],
    module: bytes,
    request: PlanRequest,
    answer: Answer,
    *,
    name: str,
    cache: str = "off",
) -> PlanResult | None:
    """The answer of the service at a URL, with a key; None when cancelled before any plan.

    The first Ctrl-C cancels the job on the service, which keeps its best plan so far.
    """
    with Client(*service) as client, answer.progress() as bar, answer.interrupts() as interrupt:
        bar.stage("uploading")
        job = client.submit_request(module, request, cache=cache, name=name)
        cancelled = False

        def on_event(event: JobEvent) -> None:
            nonlocal cancelled
            show(bar, event)
            if interrupt() and not cancelled:
                cancelled = True
                client.cancel(job)

        end = client.wait(job, on_event=on_event)
        return client.answer(job) if "plan" in end["links"] else None


def show(bar: ProgressBar, event: JobEvent) -> None:
    """One event of the service on the bar."""
    if event.kind == "progress":
        bar.update(event.data)
    elif event.kind == "state":
        bar.stage(str(event.data.get("state")))
