"""Modules may come packed, and nothing packed unpacks to harm."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.service.harness import Server, check_problem, fake_engine
from toast.service import problems
from toast.service.web.encodings import opener

MAX_BODY = 80 << 20
MODULE = b"success " + bytes(range(97, 123)) * 5000

HAS_ZSTD = importlib.util.find_spec("zstandard") is not None
needs_zstd = pytest.mark.skipif(not HAS_ZSTD, reason="ZSTANDARD IS NOT INSTALLED: run `make setup`")
zstd_only = pytest.param("zstd", marks=needs_zstd)
BOTH = ["gzip", zstd_only]


def pack(encoding: str, data: bytes) -> bytes:
    if encoding == "gzip":
        return gzip.compress(data)
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("small")
    engine = fake_engine(directory / "engine")
    with Server(directory / "data", engine_command=engine, drain=1.0, max_body=MAX_BODY) as running:
        yield running


@pytest.mark.parametrize("encoding", BOTH)
def test_a_packed_module_is_stored_opened(small: Server, encoding: str) -> None:
    answer = small.client.post(
        "/v1/modules", content=pack(encoding, MODULE), headers={"Content-Encoding": encoding}
    )
    assert answer.json() == {"id": hashlib.sha256(MODULE).hexdigest(), "size": len(MODULE)}
    assert small.upload(MODULE) == answer.json()["id"]
    planned = small.client.post(
        "/v1/plan?mesh=data=2",
        content=pack(encoding, MODULE),
        headers={"Content-Encoding": encoding.upper()},
    )
    assert planned.content == b"// sharded\n" + MODULE


@pytest.mark.parametrize("encoding", BOTH)
def test_what_unpacks_to_too_much_is_refused(small: Server, encoding: str) -> None:
    bomb = pack(encoding, bytes(MAX_BODY + 1))
    assert len(bomb) < 100_000
    answer = small.client.post("/v1/modules", content=bomb, headers={"Content-Encoding": encoding})
    assert (answer.status_code, answer.json()["code"]) in (
        (413, "body_too_large"), (400, "bad_encoding"),
    )  # fmt: skip
    assert "unpacks to more than" in answer.json()["detail"]
    assert not list((small.data / "artifacts" / "incoming").iterdir())


@pytest.mark.parametrize("encoding", BOTH)
@pytest.mark.parametrize("change", ["cut", "no such", "tail"])
def test_what_is_not_what_it_says_is_refused(small: Server, encoding: str, change: str) -> None:
    data = pack(encoding, MODULE)
    sent = {"cut": data[:-9], "no such": MODULE, "tail": data + b"nonsense"}[change]
    headers = {"Content-Encoding": encoding}
    answer = small.client.post("/v1/modules", content=sent, headers=headers)
    check_problem(answer, 400, "bad_encoding", encoding)


@pytest.mark.parametrize("name", ["br", "deflate", "gzip, gzip", "compress", "\xff"])
@pytest.mark.parametrize("path", ["/v1/modules", "/v1/plan?mesh=data=2", "/v1/jobs"])
def test_an_unknown_encoding_is_415(small: Server, path: str, name: str) -> None:
    headers = {"Content-Encoding": name.encode("latin1")}
    answer = small.client.post(path, content=b"x", headers=headers)  # type: ignore[arg-type]
    check_problem(answer, 415, "unknown_encoding")


def test_small_bodies_come_as_they_are(small: Server) -> None:
    body = gzip.compress(b"{}")
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    answer = small.client.post("/v1/jobs", content=body, headers=headers)
    check_problem(answer, 415, "unknown_encoding", "Only modules")


def opened(encoding: str, pieces: list[bytes], limit: int) -> bytes:
    found: list[bytes] = []
    sink: Callable[[bytes], None] = found.append
    unpacker = opener(encoding, sink, limit)
    for piece in pieces:
        unpacker.write(piece)
    unpacker.finish()
    return b"".join(found)


@pytest.mark.parametrize("encoding", ["identity", *BOTH])
@given(data=st.binary(max_size=5000), cut=st.integers(1, 700), members=st.integers(1, 3))
def test_pieces_and_members_open_to_the_same(
    encoding: str, data: bytes, cut: int, members: int
) -> None:
    packed = (data if encoding == "identity" else pack(encoding, data)) * members
    pieces = [packed[start : start + cut] for start in range(0, len(packed), cut)]
    assert opened(encoding, pieces, 1 << 20) == data * members


@pytest.mark.parametrize("encoding", BOTH)
def test_little_of_a_bomb_is_ever_in_memory(encoding: str) -> None:
    sizes: list[int] = []
    unpacker = opener(encoding, lambda data: sizes.append(len(data)), 1 << 40)
    bomb = pack(encoding, bytes(200 << 20))

    def feed() -> None:
        for start in range(0, len(bomb), 1 << 16):
            unpacker.write(bomb[start : start + (1 << 16)])

    with pytest.raises(problems.BadEncoding, match="500 times"):
        feed()
    assert max(sizes) <= 17 << 20
    assert sum(sizes) <= 81 << 20


@needs_zstd
def test_a_zstd_window_has_an_end(tmp_path: Path) -> None:
    import zstandard

    wide = zstandard.ZstdCompressionParameters(window_log=30, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    data = packer.compress(zlib.compress(bytes(1 << 20)) * 64) + packer.flush()
    with pytest.raises(problems.BadEncoding):
        opened("zstd", [data], 1 << 30)
