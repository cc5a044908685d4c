"""Bodies that come packed (`Content-Encoding`): opened as they come, and to no more than allowed.

A few kilobytes can unpack to gigabytes, so what comes out is counted while it comes out, against
the limit of a body and against what was sent.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

from toast.costmodel.hardware.quantities import format_bytes
from toast.service import problems

Sink = Callable[[bytes], None]

MAX_RATIO, FREE_BYTES = 500, 64 << 20
"""How many bytes may come out of one, once more than these have come out."""
_PIECE = 1 << 20
_ZSTD_PIECE = 512
_MAX_WINDOW = 128 << 20
_AS_IT_IS = "Send the body as it is, or with Content-Encoding: gzip or zstd."


class Opener(Protocol):
    """Takes the bytes of a body in order and hands on what is in them."""

    def write(self, data: bytes) -> None:
        """The next bytes as they came."""

    def finish(self) -> None:
        """There are no more; raises `BadEncoding` where there should be."""


def encoding_of(header: str | None) -> str:
    """The one encoding of a body, `identity` for none; raises `UnknownEncoding`."""
    name = (header or "identity").strip().lower().removeprefix("x-")
    if name not in ("identity", "gzip", "zstd"):
        raise problems.UnknownEncoding(
            f"The Content-Encoding {name[:40]!r} is not taken.", _AS_IT_IS
        )
    return name


def check_unpacked(header: str) -> None:
    """Raise `UnknownEncoding` where a small body, which nothing opens, comes packed."""
    if encoding_of(header) != "identity":
        raise problems.UnknownEncoding("Only modules may come packed.", "Send this as it is.")


def opener(encoding: str, sink: Sink, limit: int) -> Opener:
    """What opens an encoding into `sink`, up to `limit` bytes."""
    if encoding == "identity":
        return _AsItIs(sink)
    return (_Gzip if encoding == "gzip" else _Zstd)(_Counted(sink, limit))


class _AsItIs:
    def __init__(self, sink: Sink) -> None:
        self.write = sink

    def finish(self) -> None:
        pass


class _Counted:
    """Counts what goes in and what comes out."""

    def __init__(self, sink: Sink, limit: int) -> None:
        self._sink = sink
        self._limit = limit
        self._packed = self._opened = 0

    def came(self, size: int) -> None:
        self._packed += size

    def write(self, data: bytes) -> int:
        self._opened += len(data)
        if self._opened > self._limit:
            raise problems.BodyTooLarge(
                f"The body unpacks to more than the limit of {format_bytes(self._limit)}.",
                "Send less, or ask the operator for a higher limit.",
            )
        if self._opened > max(FREE_BYTES, MAX_RATIO * self._packed):
            raise problems.BadEncoding(
                f"The body unpacks to more than {MAX_RATIO} times what was sent.",
                "Send it as it is.",
            )
        self._sink(data)
        return len(data)


class _Gzip:
    def __init__(self, out: _Counted) -> None:
        self._out = out
        self._member = zlib.decompressobj(wbits=31)
        self._ended = True

    def write(self, data: bytes) -> None:
        self._out.came(len(data))
        while data:
            if self._member.eof:  # one more after the first
                self._member = zlib.decompressobj(wbits=31)
            try:
                opened = self._member.decompress(data, _PIECE)
            except zlib.error as error:
                raise _bad("gzip") from error
            self._out.write(opened)
            data = self._member.unconsumed_tail or self._member.unused_data
            self._ended = self._member.eof

    def finish(self) -> None:
        if not self._ended:
            raise _bad("gzip")


class _Zstd:
    def __init__(self, out: _Counted) -> None:
        import zstandard  # few bodies need it

        self._out = out
        self._error = zstandard.ZstdError
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        self._frame = self._unpacker.decompressobj()
        self._ended = True

    def write(self, data: bytes) -> None:
        # All that is in the bytes given comes out at once, 128 KiB of four of them at worst.
        for start in range(0, len(data), _ZSTD_PIECE):
            piece = data[start : start + _ZSTD_PIECE]
            self._out.came(len(piece))
            while piece:
                piece = self._read(piece)

    def _read(self, piece: bytes) -> bytes:
        """Open the rest of a frame; what is left belongs to the next."""
        if self._frame.eof:
            self._frame = self._unpacker.decompressobj()
        try:
            self._out.write(self._frame.decompress(piece))
        except self._error as error:
            raise _bad("zstd") from error
        self._ended = self._frame.eof
        return self._frame.unused_data if self._ended else b""

    def finish(self) -> None:
        if not self._ended:
            raise _bad("zstd")


def _bad(encoding: str) -> problems.BadEncoding:
    return problems.BadEncoding(
        f"The body is no complete {encoding}, as its Content-Encoding says.",
        "Send it again, or as it is.",
    )
