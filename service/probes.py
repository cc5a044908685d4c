"""The probes and the metrics of a worker that serves nothing else over HTTP."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from toast.service.context import Context
from toast.service.problems import ServiceError
from toast.service.web.health import check_ready
from toast.service.work.dispatcher import Dispatcher

_TEXT = "text/plain; charset=utf-8"
_SECONDS = 10.0


class Probes:
    """Answers `/healthz`, `/readyz` and `/metrics` at `address`, or nothing when that is None."""

    def __init__(
        self, address: tuple[str, int] | None, context: Context, dispatcher: Dispatcher
    ) -> None:
        self._server = None if address is None else _listen(address, context, dispatcher)

    @property
    def url(self) -> str | None:
        """Where the probes answer."""
        if self._server is None:
            return None
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> Probes:
        if self._server is not None:
            threading.Thread(target=self._server.serve_forever, name="probes", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _listen(
    address: tuple[str, int], context: Context, dispatcher: Dispatcher
) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS

        def do_GET(self) -> None:
            status, kind, body = answer(self.path, context, dispatcher)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Probes come every few seconds; they are no news."""

    server = ThreadingHTTPServer(address, Handler)
    server.daemon_threads = True
    return server


def answer(path: str, context: Context, dispatcher: Dispatcher) -> tuple[int, str, bytes]:
    """Status, content type and body."""
    if path == "/healthz":
        return 200, _TEXT, b"ok\n"
    if path == "/metrics":
        return 200, CONTENT_TYPE_LATEST, generate_latest(context.metrics.registry)
    if path != "/readyz":
        return 404, _TEXT, b"there are /healthz, /readyz and /metrics\n"
    try:
        check_ready(context, dispatcher)
    except ServiceError as error:
        return 503, _TEXT, f"{error.message}\n".encode()
    return 200, _TEXT, b"ready\n"
