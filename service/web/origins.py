"""Who may speak to a service without keys: this machine's own programs."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers

from toast.service import problems
from toast.service.access.keys import is_loopback


def check_origin(headers: Headers) -> None:
    """Refuse web pages of other sites, which this machine may visit.

    Such a page can send requests to loopback, directly or by a host name of its own that resolves
    there; both show in the headers.
    """
    host = headers.get("host", "")
    if not is_loopback(_name(host)):
        raise problems.UntrustedOrigin(
            f"This service has no keys and answers to loopback names only, not to {host[:200]!r}.",
            "Use http://127.0.0.1, or start the service with API keys.",
        )
    origin = headers.get("origin")
    if origin is not None and _place(origin) != host:
        raise problems.UntrustedOrigin(
            f"Pages of {origin[:200]!r} may not use this service.",
            "Start the service with API keys.",
        )


def _name(host: str) -> str:
    """The name in a `Host` header; what cannot be read is no name of ours."""
    try:
        return urlsplit(f"//{host}").hostname or ("localhost" if not host else "")
    except ValueError:
        return ""


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
