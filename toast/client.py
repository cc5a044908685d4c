"""A client of the service: upload, submit, follow, fetch, cancel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, cast

import httpx2

from toast.analysis.errors import ERRORS, ToastError, from_code
from toast.plans.plan import Plan
from toast.plans.result import PlanResult
from toast.request.request import PlanRequest
from toast.request.settings import make_request

TERMINAL = ("succeeded", "failed", "cancelled")
RECONNECT_SECONDS = 0.5
MAX_RECONNECTS = 20


class ServiceUnavailable(ToastError):
    """Nothing at the URL answers as the service does."""

    code: ClassVar[str] = "service_unavailable"
    status: ClassVar[int] = 503


class ServiceRefused(ToastError):
    """The service answered with a problem that is its own; `problem` is its object (RFC 9457)."""

    code: ClassVar[str] = "service_refused"

    def __init__(self, message: str, hint: str, problem: dict[str, Any]) -> None:
        super().__init__(message, hint)
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """What happened to a job: `kind` is `state` or `progress`, `data` its fields."""

    number: int
    kind: str
    data: dict[str, Any] = field(default_factory=dict)


class Client:
    """Speaks to one service.

        with Client("http://127.0.0.1:8080") as client:
            job = client.submit(module, mesh="data=2,model=4")
            client.wait(job)
            answer = client.answer(job)

    Every method raises ToastError for what the service refuses, `ServiceUnavailable` where it
    does not answer. `timeout` is seconds for one request; following events has no limit.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 60.0) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            host = httpx2.URL(url).host
            # A proxy of the environment has no business between us and our own machine.
            local = host in ("localhost", "::1") or host.startswith("127.")
            self._http = httpx2.Client(
                base_url=url, headers=headers, timeout=timeout, trust_env=not local
            )
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, TypeError, ValueError):
            raise _not_there(url, "that is no URL") from None
        self._url = url

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def upload(self, module: bytes) -> str:
        """The id of the module, the SHA-256 of its bytes; twice the same bytes are one module."""
        return str(self._json("POST", "/v1/modules", content=module)["id"])

    def submit(
        self,
        module: bytes | str,
        *,
        idempotency_key: str | None = None,
        cache: str = "off",
        name: str | None = None,
        **settings: Any,
    ) -> str:
        """Queue a job and return its id; `module` is bytes, or the id of an uploaded module.

        `settings` are those of `toast.plan` (mesh, device, memory, seed, rollouts, budget,
        threads, planner). With the same `idempotency_key` a second call is the same job. With
        `cache` of "any" or "exact" the job may be given the result of an earlier one
        (docs/http-api.md). `name` is what people call it; that of the module itself where there is
        none.
        """
        request = make_request(**settings)
        return self.submit_request(module, request, idempotency_key, cache, name=name)

    def submit_request(
        self,
        module: bytes | str,
        request: PlanRequest,
        idempotency_key: str | None = None,
        cache: str = "off",
        *,
        name: str | None = None,
    ) -> str:
        """As `submit`, for a request that was made before."""
        identity = module if isinstance(module, str) else self.upload(module)
        body = {"module": identity, **request.model_dump(exclude_none=True)}
        if name:
            body["name"] = name
        if cache != "off":
            body["cache"] = cache
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return str(self._json("POST", "/v1/jobs", json=body, headers=headers)["id"])

    def job(self, job: str) -> dict[str, Any]:
        """The job as the service shows it: `state`, `progress`, `error`, `summary`, ..."""
        return self._json("GET", f"/v1/jobs/{job}")

    def events(self, job: str, *, after: int = 0) -> Iterator[JobEvent]:
        """What happened to the job since event `after`, then what happens, until it is over.

        A connection that breaks is made again where it broke; nothing is lost or seen twice.
        """
        failures = 0
        while True:
            try:
                for event in self._stream(job, after):
                    after, failures = event.number, 0
                    yield event
                    if event.kind == "state" and event.data.get("state") in TERMINAL:
                        return
            except httpx2.TransportError:
                failures += 1
                if failures > MAX_RECONNECTS:
                    raise _not_there(self._url, "the connection broke again and again") from None
            else:
                # The stream ended early: the job was over before `after`, or the service drains.
                if self.job(job)["state"] in TERMINAL:
                    return
            time.sleep(RECONNECT_SECONDS)

    def wait(
        self, job: str, *, on_event: Callable[[JobEvent], None] | None = None
    ) -> dict[str, Any]:
        """Follow the job until it is over and return it; raises the error of a failed job."""
        for event in self.events(job):
            if on_event is not None:
                on_event(event)
        end = self.job(job)
        if end["state"] == "failed":
            raise _error_of(end.get("error") or {}, "The job failed.")
        return end

    def plan(self, job: str) -> Plan:
        """The plan of a job that is over."""
        return Plan.from_json(self._request("GET", f"/v1/jobs/{job}/plan").content)

    def module(self, job: str) -> bytes:
        """The sharded module of a job that is over, in the form that was uploaded."""
        return self._request("GET", f"/v1/jobs/{job}/module").content

    def answer(self, job: str) -> PlanResult:
        """Plan, sharded module and its file suffix together."""
        response = self._request("GET", f"/v1/jobs/{job}/module")
        return PlanResult(plan=self.plan(job), module=response.content, suffix=_suffix(response))

    def cancel(self, job: str) -> dict[str, Any]:
        """Ask the job to stop; its best plan so far, if any, stays to be fetched."""
        return self._json("POST", f"/v1/jobs/{job}/cancel")

    def suspects(self) -> list[dict[str, Any]]:
        """Jobs that may be what ended their servers, newest first."""
        found: list[dict[str, Any]] = []
        path: str | None = "/v1/jobs?suspected=true&limit=200"
        while path is not None:
            page = self._json("GET", path)
            found += page["jobs"]
            path = page["next"]
        return found

    def release(self, job: str) -> dict[str, Any]:
        """Let a suspected job run as any other; needs a key with the scope `admin`."""
        return self._json("POST", f"/v1/jobs/{job}/release")

    def delete(self, job: str) -> None:
        """Forget a job that waits or is over, with its files."""
        self._request("DELETE", f"/v1/jobs/{job}")

    def devices(self) -> list[dict[str, Any]]:
        """The chips that the service plans for."""
        return list(self._json("GET", "/v1/devices")["devices"])

    def _stream(self, job: str, after: int) -> Iterator[JobEvent]:
        headers = {"Last-Event-ID": str(after)} if after else {}
        # The service sends a comment every 15 s: four of them missed is a dead connection.
        timeout = httpx2.Timeout(60.0, connect=10.0)
        path = f"/v1/jobs/{job}/events"
        with self._http.sse(path, headers=headers, timeout=timeout) as source:
            if source.response.status_code == 204:
                return
            if source.response.is_error:
                source.response.read()
                raise _refusal(source.response)
            for event in source:
                if event.id.isdigit():
                    data = cast("dict[str, Any]", event.json())
                    yield JobEvent(number=int(event.id), kind=event.event, data=data)

    def _json(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        response = self._request(method, path, **arguments)
        try:
            value = response.json()
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise _not_there(self._url, "what answers there is another service")
        return value

    def _request(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        try:
            response = self._http.request(method, path, **arguments)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise _not_there(self._url, str(error) or type(error).__name__) from None
        if response.is_error:
            raise _refusal(response)
        return response


def _suffix(response: httpx2.Response) -> str:
    name = response.headers.get("content-disposition", "").rpartition(".")[2].strip('"; ')
    return f".{name}" if name in ("mlir", "mlirbc", "jax_export") else ".mlir"


def _refusal(response: httpx2.Response) -> ToastError:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    default = f"The service answered {response.status_code} {response.reason_phrase}."
    return _error_of(problem if isinstance(problem, dict) else {}, default)


def _error_of(problem: dict[str, Any], default: str) -> ToastError:
    code, hint = str(problem.get("code", "")), str(problem.get("hint", ""))
    message = str(problem.get("detail") or default)
    if any(kind.code == code for kind in ERRORS):
        return from_code(code, message, hint)
    return ServiceRefused(message, hint, problem)


def _not_there(url: str, reason: str) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"There is no TOAST service at {url}: {reason}.",
        "Start one with `toast serve`, or correct the URL.",
    )
