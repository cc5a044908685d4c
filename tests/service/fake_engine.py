"""An engine that does what the module's first line says; it speaks the engine's protocol.

    python fake_engine.py PLAN.json DIR
    python fake_engine.py PLAN.json --spare

The line is `MODE [NUMBER]`: `success`, `slow SECONDS` (with progress; stops when asked),
`abort` (dies like a failed check), `error` (reports one of the user's), `hang` (deaf to all but
SIGKILL), `killed` (dies from outside, every time), `killed-once`, `stopped-once` (by SIGTERM),
`fill-once` (fills the disk and fails of it), `grow` (eats memory), `invalid` (writes a plan that is
none), `silent` (ends without a word), `mute` (lives without a word), `mute-once`, `pause-once`
(stops itself), `poison` (kills its parent, the server). All but the mute ones have a heartbeat. It
imports next to nothing, so that it starts quickly.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

LOCK = threading.Lock()
DEATHS = {
    "abort": ("F0000 Check failed: rank == 2 (3 vs. 2)", signal.SIGABRT),
    "killed": ("", signal.SIGKILL),
    "killed-once": ("", signal.SIGKILL),
    "stopped-once": ("", signal.SIGTERM),
}


def emit(event: str, **fields: object) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()


def beat() -> None:
    while True:
        emit("alive")
        time.sleep(0.2)


def spare_directory() -> Path | None:
    emit("ready")
    line = sys.stdin.readline()
    return Path(json.loads(line)["directory"]) if line.strip() else None


def progress(fraction: float, stage: str = "search") -> None:
    emit(
        "progress",
        stage=stage,
        fraction=fraction,
        rounds=1,
        rollouts=int(100 * fraction),
        evaluations=int(1000 * fraction),
        best_cost=1.0 - fraction / 2,
        best_bytes=1 << 20,
        seconds=fraction,
    )


def write_plan(plan: Path, directory: Path) -> None:
    """The template plan for this module; the sharded module is the module with a mark."""
    request = json.loads((directory / "request.json").read_text())
    record = json.loads(plan.read_text())
    record["device"] = request["device"]
    record["search"]["seed"] = request["seed"]
    suffix = ".mlirbc" if request["seed"] == 7 else ".mlir"
    (directory / f"sharded{suffix}").write_bytes(
        b"// sharded\n" + (directory / "module").read_bytes()
    )
    (directory / "summary.json").write_text(json.dumps(summary_of(record)))
    (directory / "plan.json").write_text(json.dumps(record))
    emit("done", suffix=suffix)


def summary_of(record: dict[str, Any]) -> dict[str, object]:
    cost = record["predicted"]
    return {
        "fits": cost["fits"],
        "verdict": cost.get("verdict") or ("fits" if cost["fits"] else "does not fit"),
        "step_seconds": cost["step_seconds"],
        "unsharded_step_seconds": record["unsharded"]["step_seconds"],
        "peak_bytes": cost["peak_bytes"],
        "memory_bytes": record["memory_bytes"],
        "advice": [],
        "termination": record["search"]["termination"],
    }


def asked_to_stop() -> threading.Event:
    asked = threading.Event()

    def read() -> None:
        for _line in sys.stdin:
            break
        asked.set()

    threading.Thread(target=read, daemon=True).start()
    return asked


def slow(seconds: float) -> None:
    """Progress ten times a second; whoever asks gets what there is."""
    asked, end = asked_to_stop(), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not asked.wait(0.1):
        progress(1 - left / seconds)


def hang(mode: str) -> None:
    if mode == "poison":
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(1)  # nobody is left to end it
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(60)


def die(line: str, number: signal.Signals) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
    os.kill(os.getpid(), number)
    time.sleep(60)


def fill(directory: Path) -> None:
    """Write until there is no room, and end as the engine does of an error of its own."""
    try:
        with (directory / "much").open("wb") as file:
            while True:
                file.write(b"x" * (1 << 20))
    except OSError as error:
        emit("error", code="engine_failed", message=f"OSError: {error}.", hint="Report it.")


def grow() -> None:
    kept = []
    while True:
        kept.append(b"x" * (16 << 20))
        time.sleep(0.02)


def mode_takes_number(words: list[str]) -> bool:
    return len(words) > 1 and words[0] == "slow"


def fall_silent(mode: str) -> None:
    if mode == "pause-once":
        progress(0.1)
        os.kill(os.getpid(), signal.SIGSTOP)
    hang(mode)


def main(plan: Path, directory: Path) -> int:
    words = (directory / "module").read_text(errors="replace").split() or ["error"]
    mode, number = words[0], float(words[1]) if mode_takes_number(words) else 0.0
    if words[0].endswith("-once") and not directory.name.endswith(".1"):
        mode = "success"
    if not mode.startswith("mute"):
        threading.Thread(target=beat, daemon=True).start()
    if mode in ("mute", "mute-once", "pause-once"):
        fall_silent(mode)
    elif mode == "slow":
        slow(number)
    elif mode in DEATHS:
        die(*DEATHS[mode])
    elif mode == "fill-once":
        fill(directory)
        return 1
    elif mode in ("hang", "poison"):
        hang(mode)
    elif mode == "grow":
        grow()
    elif mode == "silent":
        return 0
    elif mode == "error":
        emit("error", code="invalid_module", message="Line 3, column 7: no.", hint="Fix it.")
        return 2
    elif mode == "invalid":
        (directory / "plan.json").write_text("{}")
        (directory / "summary.json").write_text("{}")
        (directory / "sharded.mlir").write_text("")
        emit("done", suffix=".mlir")
        return 0
    else:
        progress(0.5)
    write_plan(plan, directory)
    return 0


if __name__ == "__main__":
    where = spare_directory() if sys.argv[2] == "--spare" else Path(sys.argv[2])
    code = 0 if where is None else main(Path(sys.argv[1]), where)
    sys.stdout.flush()
    os._exit(code)
