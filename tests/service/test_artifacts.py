"""The files: whole or absent, named by their bytes, gone when nothing names them."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from toast.service.artifacts.local import Artifact, ArtifactStore, OtherLedger


def add(store: ArtifactStore, data: bytes) -> Artifact:
    with store.incoming() as incoming:
        incoming.write(data)
        artifact = incoming.finish()
        with store.guard:
            store.keep(incoming, artifact)
    return artifact


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_bytes_are_named_by_their_digest(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    artifact = add(store, b"module")
    assert artifact == Artifact(sha256=hashlib.sha256(b"module").hexdigest(), size=6)
    assert store.path(artifact.sha256).read_bytes() == b"module"


def test_the_same_bytes_are_one_file(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    assert add(store, b"module") == add(store, b"module")
    assert len(files(tmp_path)) == 1


def test_what_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)

    def break_off() -> None:
        with store.incoming() as incoming:
            incoming.write(b"half")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        break_off()
    assert files(tmp_path) == []


def test_a_file_in_use_is_not_released(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    artifact = add(store, b"plan")
    assert not store.release(artifact.sha256, lambda _: True)
    assert store.path(artifact.sha256).exists()
    assert store.release(artifact.sha256, lambda _: False)
    assert not store.path(artifact.sha256).exists()
    assert store.release(artifact.sha256, lambda _: False)


def test_a_release_waits_for_the_row(tmp_path: Path) -> None:
    """Between the rename and the row, nobody may find the file unnamed and remove it."""
    store, rows = ArtifactStore(tmp_path), set[str]()
    with store.incoming() as incoming:
        incoming.write(b"plan")
        artifact = incoming.finish()
        with store.guard:
            store.keep(incoming, artifact)
            releasing = threading.Thread(
                target=store.release, args=(artifact.sha256, rows.__contains__)
            )
            releasing.start()
            rows.add(artifact.sha256)
    releasing.join()
    assert store.path(artifact.sha256).exists()


def test_the_sweep_removes_what_a_crash_left(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    kept, orphan = add(store, b"kept"), add(store, b"orphan")
    (tmp_path / "incoming" / "half").write_bytes(b"ha")
    assert ArtifactStore(tmp_path).sweep({kept.sha256}.__contains__) == 2
    assert files(tmp_path) == [store.path(kept.sha256)]
    assert not store.path(orphan.sha256).exists()


def test_a_worker_gets_the_bytes_without_a_copy(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "store")
    artifact = add(store, b"module")
    target = tmp_path / "module"
    store.place(artifact.sha256, target)
    assert target.read_bytes() == b"module"
    assert target.stat().st_ino == store.path(artifact.sha256).stat().st_ino


def test_the_sweep_takes_what_other_owners_left_a_day_ago(tmp_path: Path) -> None:
    ArtifactStore(tmp_path, owner="gone")
    old, young = (tmp_path / "incoming" / "gone" / name for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    day_ago = time.time() - 90_000
    os.utime(old, (day_ago, day_ago))
    store = ArtifactStore(tmp_path, owner="here")
    (tmp_path / "incoming" / "here" / "mine").write_bytes(b"half")
    assert store.sweep(lambda _: True) == 2
    assert [path.name for path in files(tmp_path / "incoming")] == ["young"]


def test_files_belong_to_one_ledger(tmp_path: Path) -> None:
    one, two = "1" * 32, "2" * 32
    ArtifactStore(tmp_path, owner="a").belong_to(one)
    ArtifactStore(tmp_path, owner="b").belong_to(one)
    with pytest.raises(OtherLedger, match=one):
        ArtifactStore(tmp_path, owner="c").belong_to(two)
    store = ArtifactStore(tmp_path)
    store.sweep(lambda _: False)
    store.belong_to(one)  # the mark is no orphan
    (tmp_path / "ledger").unlink()
    store.belong_to(two)
