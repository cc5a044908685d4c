"""Files in a real S3-compatible server: whole or absent, checked, cached within a limit."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import object_store
from tests.service.harness import ROOT
from toast.service.artifacts import remote
from toast.service.artifacts.guard import ProcessGuard
from toast.service.artifacts.local import Artifact, ArtifactStore, DamagedArtifact, OtherLedger
from toast.service.artifacts.location import BadLocation, open_artifacts
from toast.service.problems import FilesAway


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    if (reason := object_store.missing()) is not None:
        pytest.skip(reason)
    with object_store.s3_server() as url:
        yield url


class Buckets:
    """Stores on one prefix, each with a local disk of its own, as servers have."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self._folder = url, folder

    def open(self, name: str, cache_bytes: int = 1 << 30) -> ArtifactStore:
        return open_artifacts(
            self.url,
            self._folder / name,
            guard=ProcessGuard(),
            owner=name,
            cache_bytes=cache_bytes,
        )

    def cached(self, name: str) -> list[Path]:
        root = self._folder / name / "artifact-cache"
        return [path for path in root.rglob("*") if path.is_file()]


@pytest.fixture
def buckets(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Buckets:
    for name, value in object_store.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return Buckets(f"s3://toast/{tmp_path.name}?endpoint_url={endpoint}", tmp_path)


def add(store: ArtifactStore, data: bytes) -> Artifact:
    with store.incoming() as incoming:
        incoming.write(data)
        artifact = incoming.finish()
        with store.guard:
            store.keep(incoming, artifact)
    return artifact


def test_what_one_server_stores_another_reads(buckets: Buckets, tmp_path: Path) -> None:
    artifact = add(buckets.open("one"), b"module")
    assert artifact.sha256 == hashlib.sha256(b"module").hexdigest()
    other = buckets.open("two")
    other.place(artifact.sha256, tmp_path / "module")
    assert (tmp_path / "module").read_bytes() == b"module"
    assert other.path(artifact.sha256).read_bytes() == b"module"


def test_large_files_go_in_parts(buckets: Buckets) -> None:
    data = os.urandom(1 << 20) * 24
    artifact = add(buckets.open("one"), data)
    assert buckets.open("two").path(artifact.sha256).stat().st_size == len(data)
    import s3fs

    files = s3fs.S3FileSystem(endpoint_url=buckets.url.partition("endpoint_url=")[2])
    bucket = buckets.url.partition("?")[0].removeprefix("s3://")
    key = f"{bucket}/{artifact.sha256[:2]}/{artifact.sha256}"
    assert files.info(key)["ETag"].strip('"').endswith("-3")  # S3 counts the parts there


def test_a_damaged_local_copy_is_fetched_again(buckets: Buckets, tmp_path: Path) -> None:
    store = buckets.open("one")
    artifact = add(store, b"module")
    store.path(artifact.sha256).write_bytes(b"other!")
    store.place(artifact.sha256, tmp_path / "module")
    assert (tmp_path / "module").read_bytes() == b"module"
    assert store.path(artifact.sha256).read_bytes() == b"module"


def test_what_breaks_off_leaves_nothing(buckets: Buckets) -> None:
    store = buckets.open("one")

    def break_off() -> None:
        with store.incoming() as incoming:
            incoming.write(b"half")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        break_off()
    assert buckets.cached("one") == []
    assert store.sweep(lambda _: False) == 0


def test_a_removed_file_is_stored_again_before_it_is_named(buckets: Buckets) -> None:
    """The remover came between the sending of the bytes and the guard."""
    one, two = buckets.open("one"), buckets.open("two")
    with one.incoming() as incoming:
        incoming.write(b"plan")
        artifact = incoming.finish()
        assert two.release(artifact.sha256, lambda _: False)
        with one.guard:
            one.keep(incoming, artifact)
    assert two.path(artifact.sha256).read_bytes() == b"plan"


def test_a_file_in_use_is_not_released(buckets: Buckets) -> None:
    store = buckets.open("one")
    artifact = add(store, b"plan")
    assert not store.release(artifact.sha256, lambda _: True)
    assert store.release(artifact.sha256, lambda _: False)
    assert store.release(artifact.sha256, lambda _: False)
    with pytest.raises(FilesAway, match="no file"):
        buckets.open("two").path(artifact.sha256)


def test_a_damaged_object_is_noticed(buckets: Buckets, tmp_path: Path) -> None:
    store = buckets.open("one")
    artifact = add(store, b"module")
    import s3fs

    files = s3fs.S3FileSystem(endpoint_url=buckets.url.partition("endpoint_url=")[2])
    key = f"toast/{tmp_path.name}/{artifact.sha256[:2]}/{artifact.sha256}"
    files.pipe_file(key, b"other!")
    with pytest.raises(DamagedArtifact):
        buckets.open("two").place(artifact.sha256, tmp_path / "module")
    assert buckets.cached("two") == []


def test_the_local_copies_stay_within_their_limit(buckets: Buckets) -> None:
    source = buckets.open("one")
    artifacts = [add(source, bytes([number]) * 1000) for number in range(4)]
    store = buckets.open("two", cache_bytes=2500)
    long_ago = time.time() - 3600
    for artifact in artifacts:
        path = store.path(artifact.sha256)
        os.utime(path, (long_ago, long_ago))
    left = {path.name for path in buckets.cached("two")}
    assert left == {artifact.sha256 for artifact in artifacts[2:]}


def test_the_sweep_removes_what_no_row_names(buckets: Buckets) -> None:
    store = buckets.open("one")
    kept, orphan = add(store, b"kept"), add(store, b"orphan")
    assert buckets.open("two").sweep({kept.sha256}.__contains__) == 1
    fresh = buckets.open("three")
    assert fresh.path(kept.sha256).read_bytes() == b"kept"
    with pytest.raises(FilesAway):
        fresh.path(orphan.sha256)


def test_the_sweep_ends_uploads_in_parts_that_were_left(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    files = s3fs.S3FileSystem(endpoint_url=buckets.url.partition("endpoint_url=")[2])
    prefix = buckets.url.partition("?")[0].removeprefix("s3://toast/")

    def left(name: str) -> set[str]:
        found = files.call_s3("list_multipart_uploads", Bucket="toast", Prefix=name)
        return {one["Key"] for one in found.get("Uploads", [])}

    for key in (f"{prefix}/ab/half", f"{prefix}-other/ab/half"):
        files.call_s3("create_multipart_upload", Bucket="toast", Key=key)
    store = buckets.open("one")
    with monkeypatch.context() as patch:  # this server says that all were begun in 2010
        patch.setattr(remote, "OLD_SECONDS", 60 * 365 * 86_400.0)
        assert store.sweep(lambda _: True) == 0
    assert left(prefix) == {f"{prefix}/ab/half", f"{prefix}-other/ab/half"}
    assert store.sweep(lambda _: True) == 1
    assert left(prefix) == {f"{prefix}-other/ab/half"}


def test_a_prefix_belongs_to_one_ledger(buckets: Buckets) -> None:
    one, two = "1" * 32, "2" * 32
    buckets.open("a").belong_to(one)
    buckets.open("b").belong_to(one)
    with pytest.raises(OtherLedger, match=one):
        buckets.open("c").belong_to(two)
    store = buckets.open("a")
    assert store.sweep(lambda _: False) == 0
    store.belong_to(one)


@pytest.mark.parametrize("size", [90, pytest.param(300, marks=pytest.mark.nightly)])
def test_a_large_upload_takes_constant_memory(endpoint: str, tmp_path: Path, size: int) -> None:
    """In a process of its own, of which the peak is measured."""
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from toast.service.artifacts.guard import ProcessGuard\n"
        "from toast.service.artifacts.location import open_artifacts\n"
        "url, folder, mib = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])\n"
        "guard = ProcessGuard()\n"
        "store = open_artifacts(url, folder, guard=guard, owner='o', cache_bytes=1 << 40)\n"
        "with store.incoming() as incoming:\n"
        "    for number in range(mib):\n"
        "        incoming.write(number.to_bytes(8, 'big') * (1 << 17))\n"
        "    artifact = incoming.finish()\n"
        "    with store.guard:\n"
        "        store.keep(incoming, artifact)\n"
        "print(artifact.size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )

    def peak(mib: int) -> int:
        url = f"s3://toast/large{mib}?endpoint_url={endpoint}"
        done = subprocess.run(
            [sys.executable, "-c", script, url, str(tmp_path / str(mib)), str(mib)],
            env={**os.environ, **object_store.CREDENTIALS, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        size, kib = map(int, done.stdout.split())
        assert size == mib << 20
        return kib

    small, large = peak(30), peak(size)
    assert large < small + (30 << 10), (small, large)


def test_a_store_that_is_away_is_no_bug(buckets: Buckets, tmp_path: Path) -> None:
    url = "s3://toast/away?endpoint_url=http://127.0.0.1:9"
    away = Buckets(url, tmp_path / "away").open("one")
    with pytest.raises(FilesAway, match="does not answer"):
        away.path("a" * 64)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/folder", "s3://BUCKET/PREFIX"),
        ("file://folder/x", "absolute"),
        ("s3:///prefix", "names no bucket"),
        ("s3://toast/p?secret=1", "not secret"),
    ],
)
def test_bad_locations_are_explained(tmp_path: Path, url: str, said: str) -> None:
    with pytest.raises(BadLocation, match=said):
        open_artifacts(url, tmp_path, guard=ProcessGuard(), owner="me", cache_bytes=1)
