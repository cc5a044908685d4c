"""A way to a server that can be taken away and put back."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Listens on a free port of loopback and passes everything on, while it is there.

    `server` is a host and a port, or the path of a socket.
    """

    def __init__(self, server: tuple[str, int] | str) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._away = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Every connection breaks, and every new one."""
        self._away = True
        self._cut()
        yield
        self._away = False

    def close(self) -> None:
        self._listener.close()
        self._cut()

    def _cut(self) -> None:
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._away:
                    client.close()
                    continue
                server = _connected(self._server)
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with self._lock:
            self._open.add(source)
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()


def _connected(server: tuple[str, int] | str) -> socket.socket:
    if not isinstance(server, str):
        return socket.create_connection(server)
    found = socket.socket(socket.AF_UNIX)
    found.connect(server)
    return found
