"""Errors of the service and their one form on the wire: `application/problem+json` (RFC 9457).

The service's own errors extend the tree of `toast.analysis.errors`, so that one handler, one
table of codes and one object on a failed job serve both.
"""

from __future__ import annotations

from typing import Any, ClassVar

from toast.analysis.errors import InvalidRequest, ToastError

MEDIA_TYPE = "application/problem+json"


class ServiceError(ToastError):
    """Base of errors that only the service has; `headers` go out with the response."""

    def __init__(
        self, message: str, hint: str = "", *, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message, hint)
        self.headers = headers or {}


class NotFound(ServiceError):
    """No such path."""

    code: ClassVar[str] = "not_found"
    status: ClassVar[int] = 404


class MethodNotAllowed(ServiceError):
    """The path exists, the method does not."""

    code: ClassVar[str] = "method_not_allowed"
    status: ClassVar[int] = 405


class UnknownJob(ServiceError):
    """No job has that id (or it was deleted)."""

    code: ClassVar[str] = "unknown_job"
    status: ClassVar[int] = 404


class UnknownModule(ServiceError):
    """A job names a module that was not uploaded."""

    code: ClassVar[str] = "unknown_module"
    status: ClassVar[int] = 422


class ModuleNotFound(ServiceError):
    """No module has that id (or it was deleted, or has expired)."""

    code: ClassVar[str] = "module_not_found"
    status: ClassVar[int] = 404


class ModuleInUse(ServiceError):
    """A module that jobs name cannot be deleted."""

    code: ClassVar[str] = "module_in_use"
    status: ClassVar[int] = 409


class EmptyBody(ServiceError):
    """A module was expected and nothing came."""

    code: ClassVar[str] = "empty_body"
    status: ClassVar[int] = 400


class IncompleteBody(ServiceError):
    """The connection ended before the body did."""

    code: ClassVar[str] = "incomplete_body"
    status: ClassVar[int] = 400


class BodyTooLarge(ServiceError):
    """The body is above the limit."""

    code: ClassVar[str] = "body_too_large"
    status: ClassVar[int] = 413


class Unauthorized(ServiceError):
    """The bearer key is absent or unknown."""

    code: ClassVar[str] = "unauthorized"
    status: ClassVar[int] = 401


class UntrustedOrigin(ServiceError):
    """A web page of another site, or a foreign host name, speaks to a service without keys."""

    code: ClassVar[str] = "untrusted_origin"
    status: ClassVar[int] = 403


class TooManyConnections(ServiceError):
    """The service, or one address, has as many connections as it may."""

    code: ClassVar[str] = "too_many_connections"
    status: ClassVar[int] = 503


class SlowRequest(ServiceError):
    """The header or the body of a request comes too slowly."""

    code: ClassVar[str] = "slow_request"
    status: ClassVar[int] = 408


class UnknownEncoding(ServiceError):
    """The `Content-Encoding` of a body is none that is taken."""

    code: ClassVar[str] = "unknown_encoding"
    status: ClassVar[int] = 415


class BadEncoding(ServiceError):
    """The body is not what its `Content-Encoding` says, or unpacks to far more than was sent."""

    code: ClassVar[str] = "bad_encoding"
    status: ClassVar[int] = 400


class Forbidden(ServiceError):
    """The key is known and was not made for this."""

    code: ClassVar[str] = "forbidden"
    status: ClassVar[int] = 403


class QueueFull(ServiceError):
    """As many jobs wait as are allowed to."""

    code: ClassVar[str] = "queue_full"
    status: ClassVar[int] = 429


class QuotaExceeded(ServiceError):
    """The owner of the key uses as much as one owner may; `Toast-Quota` says of what."""

    code: ClassVar[str] = "quota_exceeded"
    status: ClassVar[int] = 429

    def __init__(self, quota: str, message: str, hint: str, *, retry_after: int) -> None:
        headers = {"Retry-After": str(retry_after), "Toast-Quota": quota}
        super().__init__(message, hint, headers=headers)


class Busy(ServiceError):
    """Too many callers wait for what takes the service seconds."""

    code: ClassVar[str] = "busy"
    status: ClassVar[int] = 503


class JobNotFinished(ServiceError):
    """A result was asked of, or a deletion asked for, a job that still runs."""

    code: ClassVar[str] = "job_not_finished"
    status: ClassVar[int] = 409


class JobFinished(ServiceError):
    """A job that is over cannot be cancelled."""

    code: ClassVar[str] = "job_finished"
    status: ClassVar[int] = 409


class NoResult(ServiceError):
    """The job is over and left no plan."""

    code: ClassVar[str] = "no_result"
    status: ClassVar[int] = 404


class IdempotencyMismatch(ServiceError):
    """An `Idempotency-Key` came again with a different request."""

    code: ClassVar[str] = "idempotency_mismatch"
    status: ClassVar[int] = 422


class Draining(ServiceError):
    """The service is shutting down."""

    code: ClassVar[str] = "draining"
    status: ClassVar[int] = 503


class NotReady(ServiceError):
    """The database or the disk does not answer."""

    code: ClassVar[str] = "not_ready"
    status: ClassVar[int] = 503


class DatabaseAway(ServiceError):
    """The database does not answer, or takes no writes."""

    code: ClassVar[str] = "database_unavailable"
    status: ClassVar[int] = 503

    def __init__(self, message: str, hint: str = "Try again; nothing was changed.") -> None:
        super().__init__(message, hint, headers={"Retry-After": "5"})


class DiskFull(ServiceError):
    """The disk of the service or of its database has no room left."""

    code: ClassVar[str] = "disk_full"
    status: ClassVar[int] = 507

    def __init__(self, message: str, hint: str = "Try again when its operator made room.") -> None:
        super().__init__(message, hint, headers={"Retry-After": "60"})


class FilesAway(ServiceError):
    """The store of modules and plans does not answer."""

    code: ClassVar[str] = "files_unavailable"
    status: ClassVar[int] = 503

    def __init__(self, message: str, hint: str = "Try again; nothing was changed.") -> None:
        super().__init__(message, hint, headers={"Retry-After": "5"})


class JobCancelled(ServiceError):
    """The job of a waiting call was cancelled before it had any plan."""

    code: ClassVar[str] = "job_cancelled"
    status: ClassVar[int] = 409


class WorkerLost(ServiceError):
    """The job's worker processes vanished more often than is retried; the server did not."""

    code: ClassVar[str] = "worker_lost"
    status: ClassVar[int] = 503


class Internal(ServiceError):
    """A bug of the service or of its engine."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500


SERVICE_ERRORS: tuple[type[ServiceError], ...] = (
    NotFound,
    MethodNotAllowed,
    UnknownJob,
    UnknownModule,
    ModuleNotFound,
    ModuleInUse,
    EmptyBody,
    IncompleteBody,
    BodyTooLarge,
    Unauthorized,
    UntrustedOrigin,
    TooManyConnections,
    SlowRequest,
    UnknownEncoding,
    BadEncoding,
    Forbidden,
    QueueFull,
    QuotaExceeded,
    Busy,
    JobNotFinished,
    JobFinished,
    NoResult,
    IdempotencyMismatch,
    Draining,
    NotReady,
    DatabaseAway,
    DiskFull,
    FilesAway,
    JobCancelled,
    WorkerLost,
    Internal,
)
"""The service's part of the table of error codes."""


def problem(
    code: str, status: int, message: str, hint: str = "", instance: str | None = None
) -> dict[str, Any]:
    """The problem object: what is wrong in `detail`, what to do in `hint`, the word in `code`."""
    body: dict[str, Any] = {
        "type": f"urn:toast:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": message,
        "code": code,
        "hint": hint,
    }
    if instance is not None:
        body["instance"] = instance
    return body


def describe(error: ToastError, instance: str | None = None) -> dict[str, Any]:
    """The problem object of an error of the tree."""
    if isinstance(error, JobFailed):
        return error.body
    return problem(error.code, error.status, error.message, error.hint, instance)


def code_of_status(status: int) -> str:
    """The code for an HTTP status that the framework raised by itself."""
    known = {404: NotFound.code, 405: MethodNotAllowed.code, 413: BodyTooLarge.code}
    if status in known:
        return known[status]
    return Internal.code if status >= 500 else InvalidRequest.code


class JobFailed(ServiceError):
    """A waiting call's job failed: carries the job's own problem, code and status included."""

    def __init__(self, body: dict[str, Any], headers: dict[str, str]) -> None:
        super().__init__(str(body["detail"]), str(body.get("hint", "")), headers=headers)
        self.body = body
