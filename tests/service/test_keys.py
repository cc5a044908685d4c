"""Keys: their lines and files, `toast keys`, and a service that follows them."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.service.harness import ROOT, Server, check_problem, fake_engine
from toast.service.access.callers import Caller, Scope, needed_scope
from toast.service.access.key_file import add_key, list_keys, revoke_key, rotate_key
from toast.service.access.key_lines import BadKeys, format_line, parse_line
from toast.service.access.keyring import KeyFile, Keyring
from toast.service.access.keys import digest_of, hashed_line, keys_of_secret

KEY = "correct-horse-battery-staple"
LINE = hashed_line(KEY)
CI = Caller(name="ci", owner="build", scopes=frozenset({Scope.SUBMIT, Scope.READ}))


def holder(keyring: Keyring, key: str = KEY) -> Caller | None:
    return keyring.holder(f"Bearer {key}")


def test_a_line_says_who_holds_the_key_and_what_it_may() -> None:
    key = parse_line(f"{LINE} name=ci owner=build scopes=submit,read", "here")
    assert key.caller == CI
    assert parse_line(format_line(key), "here") == key
    assert not CI.may(Scope.ADMIN)
    assert CI.sees == "build"


@pytest.mark.parametrize(
    ("note", "name"), [("", digest_of(KEY)[:16]), (" night build", "night build")]
)
def test_a_line_of_before_may_do_everything(note: str, name: str) -> None:
    caller = parse_line(LINE + note, "here").caller
    assert (caller.name, caller.owner, caller.scopes) == (name, name, frozenset(Scope))
    assert caller.sees is None


@pytest.mark.parametrize(
    "fields",
    ["name=ci", "nmae=ci scopes=read", "name=ci scopes=read scopes=admin", "scopes=write",
     "name=ci scopes=read night build", "name=../x scopes=read", "scopes=read expires=soon"],
)  # fmt: skip
def test_a_slip_in_a_line_gives_no_rights(fields: str) -> None:
    with pytest.raises(BadKeys) as raised:
        parse_line(f"{LINE} {fields}", "the file")
    assert "the file" in str(raised.value)
    assert digest_of(KEY) not in str(raised.value)


def test_a_key_ends_at_its_time() -> None:
    line = f"{LINE} scopes=read expires={{}}"
    past, future = line.format("2020-01-01T00:00:00Z"), line.format("2100-01-01T00:00:00Z")
    assert holder(Keyring([parse_line(past, "here")])) is None
    assert holder(Keyring([parse_line(future, "here")])) is not None


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/v1/jobs", "read"),
        ("POST", "/v1/jobs", "submit"),
        ("DELETE", "/v1/jobs/x", "submit"),
        ("BREW", "/v1/jobs", "submit"),
        ("GET", "/v1/audit", "admin"),
    ],
)
def test_what_a_request_needs(method: str, path: str, scope: str) -> None:
    assert needed_scope(method, path) == scope


def test_a_secret_may_hold_keys_of_every_form() -> None:
    text = f"{'a' * 16},{'b' * 16}\n# note\n{LINE} name=ci owner=build scopes=submit,read\n"
    keyring = Keyring(keys_of_secret(text, "here"))
    assert holder(keyring) == CI
    for key in ("a" * 16, "b" * 16):
        found = holder(keyring, key)
        assert found is not None
        assert found.is_admin


def test_a_broken_file_keeps_the_old_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{LINE} name=ci owner=build scopes=submit,read\n")
    keyring = Keyring(files=(KeyFile(file),))
    for text in ("plain text\n", "", f"{LINE} scopes=everything\n"):
        file.write_text(text)
        caplog.clear()
        assert keyring.reload() is None
        assert holder(keyring) == CI
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "stay as they were" in caplog.text
    file.unlink()
    assert keyring.reload() is None
    assert holder(keyring) == CI


def test_a_file_that_loses_its_last_key_opens_to_nobody(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    add_key(file, CI)
    keyring = Keyring(files=(KeyFile(file),))
    revoke_key(file, "ci")
    change = keyring.reload()
    assert change is not None
    assert (change.added, change.removed) == ((), ("ci",))
    assert keyring
    assert holder(keyring) is None


def test_keys_are_added_rotated_and_revoked(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    first = add_key(file, CI)
    other = add_key(file, Caller(name="ops", owner="ops", scopes=frozenset({Scope.ADMIN})))
    with pytest.raises(BadKeys, match="already"):
        add_key(file, CI)
    second = rotate_key(file, "ci", keep=60)
    keyring = Keyring(files=(KeyFile(file),))
    assert [holder(keyring, key) for key in (first, second)] == [CI, CI]
    third = rotate_key(file, "ci")
    keyring.reload()
    assert [holder(keyring, key) for key in (first, second, third)] == [None, None, CI]
    assert revoke_key(file, "ci") == 1
    keyring.reload()
    assert holder(keyring, third) is None
    assert holder(keyring, other) is not None
    with pytest.raises(BadKeys, match="no key named"):
        rotate_key(file, "ci")


def test_a_change_keeps_what_it_does_not_concern(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# first\n\n{LINE} night build\n# last\n")
    file.chmod(0o644)
    add_key(file, CI)
    assert file.read_text().startswith(f"# first\n\n{LINE} night build\n# last\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(BadKeys, match="is no name"):
        rotate_key(file, "night build")
    assert [key.caller.name for key in list_keys(file)] == ["night build", "ci"]
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]


def test_a_change_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    add_key(file, CI)
    before = file.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        rotate_key(file, "ci")
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]


def test_changes_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "keys"

    def add(number: int) -> None:
        add_key(file, Caller(name=f"key{number}", owner="x", scopes=frozenset({Scope.READ})))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key.caller.name for key in list_keys(file)} == {f"key{number}" for number in range(8)}


def toast_keys(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toast", "keys", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60
    )


def test_the_command_prints_a_key_once(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    made = toast_keys("add", "ci", "--owner", "build", "--keys", str(file))
    assert (made.returncode, made.stdout.count("\n")) == (0, 1)
    key = made.stdout.strip()
    assert key not in made.stderr
    assert key not in file.read_text()
    assert holder(Keyring(files=(KeyFile(file),)), key) == CI
    shown = toast_keys("list", "--keys", str(file))
    assert shown.stdout.splitlines()[1].split()[:3] == ["ci", "build", "read,submit"]
    wrong = toast_keys("revoke", "cj", "--keys", str(file))
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)


def serve(directory: Path, **more: object) -> Server:
    environment = more.pop("environment", None)
    assert environment is None or isinstance(environment, dict)
    engine = fake_engine(directory / "engine")
    return Server(
        directory / "data", environment=environment, engine_command=engine, drain=1.0, **more
    )


def status(server: Server, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    return server.client.get("/v1/devices", headers=headers).status_code


def wait_status(server: Server, key: str, code: int) -> None:
    end = time.monotonic() + 10
    while status(server, key) != code:
        assert time.monotonic() < end, f"the key is never answered with {code}"
        time.sleep(0.05)


def test_the_service_follows_its_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    first = add_key(file, CI)
    with serve(tmp_path, keys=str(file)) as server:
        assert (status(server, first), status(server, KEY)) == (200, 401)
        second = rotate_key(file, "ci")
        wait_status(server, second, 200)
        assert status(server, first) == 401
        file.write_text("nonsense\n")
        assert server.process is not None
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert status(server, second) == 200
        log = [server.lines.get_nowait() for _ in range(server.lines.qsize())]
        assert sum("the API keys stay as they were" in line for line in log) == 1


def test_keys_come_from_a_secret_file_and_a_descriptor(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{KEY}\n")
    with serve(tmp_path, environment={"TOAST_API_KEYS_FILE": str(secret)}) as server:
        assert (status(server, KEY), status(server, "another-long-enough-key")) == (200, 401)
        secret.write_text("another-long-enough-key\n")
        wait_status(server, "another-long-enough-key", 200)
        assert status(server, KEY) == 401
    command = [sys.executable, "-m", "toast.service", "--port", "0", "--host", "0.0.0.0",
               "--keys-fd", "0", "--data", str(tmp_path / "other")]  # fmt: skip
    empty = subprocess.run(
        command, input="\n", capture_output=True, text=True, cwd=ROOT, check=False, timeout=60
    )
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "descriptor 0 holds no keys" in empty.stderr


def test_keys_cannot_be_read_in_proc(tmp_path: Path) -> None:
    environment = {"TOAST_API_KEYS": KEY, "AFTER": "kept"}
    with serve(tmp_path, environment=environment) as server:
        assert server.process is not None
        shown = Path(f"/proc/{server.process.pid}/environ").read_bytes()
        assert KEY.encode() not in shown
        assert b"TOAST_API_KEYS" not in shown
        assert b"AFTER=kept" in shown
        assert status(server, KEY) == 200


def test_a_scope_is_asked_of_a_key(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    reader = add_key(file, Caller(name="r", owner="x", scopes=frozenset({Scope.READ})))
    writer = add_key(file, Caller(name="w", owner="x", scopes=frozenset({Scope.SUBMIT})))
    with serve(tmp_path, keys=str(file)) as server:
        for key, method, path in (
            (reader, "POST", "/v1/modules"),
            (writer, "GET", "/v1/jobs"),
            (reader, "GET", "/v1/audit"),
            (reader, "DELETE", f"/v1/jobs/{'0' * 32}"),
        ):
            headers = {"Authorization": f"Bearer {key}"}
            answer = server.client.request(method, path, headers=headers)
            check_problem(answer, 403, "forbidden", "this needs the scope '")
        server.client.headers["Authorization"] = f"Bearer {writer}"
        module = server.upload("success")
        made = server.client.post("/v1/jobs", json={"module": module, "mesh": "data=2"})
        assert made.status_code == 202
        server.client.headers["Authorization"] = f"Bearer {reader}"
        assert server.finished(made.json()["id"])["state"] == "succeeded"
