"""The whole job on a real model: `python -m toast.demo`, or `make demo`.

Starts the service on loopback with its embedded store, lowers a training step of a Gemma-style
transformer with Adam, uploads it, follows the progress, downloads the sharded module and the plan,
runs it on eight virtual devices against the unsharded module, prints the account, and stops what
it started. The results stay in `demo-out/`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO

from rich.console import Console

from toast.analysis.errors import InvalidRequest, ToastError
from toast.cli.app import check_output, save
from toast.cli.submit import show
from toast.cli.terminal import EXIT_BAD_INPUT, EXIT_OF_VERDICT, ProgressBar, show_error
from toast.client import Client, JobEvent
from toast.plans.report import make_console, render
from toast.plans.result import PlanResult
from toast.process.runner import package_environment, python_module
from toast.request.settings import make_request
from toast.verify.report import render_verification
from toast.verify.verification import verify

MESH, DEVICE = "data=2,model=4", "tpu-v5e"
OUTPUT = Path("demo-out")
READY = "TOAST service listening on "
START_SECONDS = 60.0
STOP_SECONDS = 15.0
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "gemma.py"


class Interrupts:
    """SIGINT and SIGTERM as KeyboardInterrupt, held back while a process is started or stopped.

    An interrupt inside `subprocess.Popen` would leave a process that nobody knows of.
    """

    def __init__(self) -> None:
        self._held = 0
        self._pending = False

    def install(self) -> None:
        """Take both signals from now on."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Inside, an interrupt waits; it is raised at the end."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if self._pending and not self._held:
            self._pending = False
            raise KeyboardInterrupt

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if not self._held:
            raise KeyboardInterrupt
        self._pending = True


INTERRUPTS = Interrupts()


@contextlib.contextmanager
def running_service(directory: Path) -> Iterator[str]:
    """The URL of a service that keeps its data in `directory`; it is stopped at the end."""
    flags = ["--host", "127.0.0.1", "--port", "0", "--data", str(directory / "data")]
    log = directory / "service.log"
    command = [*python_module("toast.service"), *flags]
    with log.open("wb") as errors, running(command, stderr=errors) as process:
        yield _wait_until_ready(process, log)


@contextlib.contextmanager
def running(command: list[str], stderr: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has ended, whatever happens inside, when this is left.

    It has a session of its own: Ctrl-C reaches this process alone, which then stops it in order.
    """
    process: subprocess.Popen[bytes] | None = None
    try:
        with INTERRUPTS.held():
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=package_environment(),
                start_new_session=True,
            )
        yield process
    finally:
        if process is not None:
            with INTERRUPTS.held():
                _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> str:
    """Read stdout up to the line with the address; a timer ends a service that never says it."""
    assert process.stdout is not None
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            text = line.decode(errors="replace")
            if READY in text:
                return text.partition(READY)[2].strip()
    finally:
        timer.cancel()
    last = log.read_text(errors="replace").strip().splitlines()[-3:]
    raise InvalidRequest(f"The service did not start: {' '.join(last)}", "Run `toast serve`.")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL to its whole group if it does not end."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def lower_example(path: Path) -> bytes:
    """The StableHLO of the example's demo preset, lowered in a process of its own."""
    command = [sys.executable, str(EXAMPLE), "--preset", "demo", "-o", str(path)]
    with tempfile.TemporaryFile() as errors:
        with running(command, stderr=errors) as process:
            failed = process.wait() != 0
        errors.seek(0)
        last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
    if failed:
        raise InvalidRequest(f"The example could not be lowered: {last}.", f"Run {EXAMPLE}.")
    return path.read_bytes()


def plan_over_http(console: Console, url: str, module: bytes) -> PlanResult:
    """Upload, submit, follow, download."""
    with Client(url) as client, ProgressBar() as bar:
        identity = client.upload(module)
        console.print(f"Uploaded as {identity[:16]}...")
        job = client.submit_request(identity, make_request(mesh=MESH, device=DEVICE))
        console.print(f"Job {job}: {MESH} on {DEVICE}.")
        follow = _teller(console) if not console.is_terminal else partial(show, bar)
        client.wait(job, on_event=follow)
        return client.answer(job)


def _teller(console: Console) -> Callable[[JobEvent], None]:
    """Progress for a log, where no bar can be drawn: a line for each new state and stage."""
    seen: set[str] = set()

    def tell(event: JobEvent) -> None:
        name = str(event.data.get("state") or event.data.get("stage"))
        if name not in seen:
            seen.add(name)
            share = event.data.get("fraction")
            console.print(f"  {name}" + ("" if share is None else f", {share:.0%}"))

    return tell


def demo(console: Console, output: Path) -> int:
    """The whole job; returns the exit code. Raises ToastError for what goes wrong."""
    started = time.perf_counter()
    check_output(output)
    with tempfile.TemporaryDirectory(prefix="toast-demo-") as name:
        directory = Path(name)
        with running_service(directory) as url:
            console.print(f"Service at {url}.")
            module = lower_example(directory / "step.mlir")
            console.print(f"Lowered a Gemma-style training step: {len(module):,} bytes of text.")
            answer = plan_over_http(console, url, module)
        save(output, answer.plan, module, answer.module, answer.suffix)
    console.print("Planned; the service is stopped. Running both modules on virtual devices.\n")
    with ProgressBar() as bar:
        verification = verify(output, on_stage=bar.stage)
    console.print(render(answer.plan), "", render_verification(verification, rows=5))
    seconds = time.perf_counter() - started
    console.print(f"\n{output}/ has the plan and both modules; {seconds:.0f} s in all.")
    return EXIT_OF_VERDICT[verification.verdict]


def main() -> int:
    """`python -m toast.demo`."""
    INTERRUPTS.install()
    try:
        return demo(make_console(), OUTPUT)
    except ToastError as error:
        show_error(error)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        make_console(stderr=True).print("Interrupted; everything that was started is stopped.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
