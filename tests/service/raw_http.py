"""What comes over a socket, whole."""

from __future__ import annotations

import contextlib
import socket


def read_all(connection: socket.socket) -> bytes:
    """All bytes until the other side ends."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            data += chunk
    return data
