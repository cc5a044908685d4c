"""What every command shares: errors in two sentences, answers, a progress bar, a gentle Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from toast.analysis.errors import ToastError
from toast.costmodel.hardware.quantities import format_bytes, format_seconds
from toast.plans.report import make_console
from toast.process.runner import Event
from toast.search.progress import COMPILING
from toast.verify.verification import Verdict

EXIT_BAD_INPUT, EXIT_DOES_NOT_FIT, EXIT_INTERRUPTED = 2, 3, 130
EXIT_DIFFERENT = 1
EXIT_OF_VERDICT: dict[Verdict, int] = {"equal": 0, "differs": EXIT_DIFFERENT, "untold": 4}
"""The exit codes of `verify`."""


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn an error that input caused into two sentences on stderr and exit code 2."""
    try:
        yield
    except ToastError as error:
        show_error(error)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except KeyboardInterrupt:
        make_console(stderr=True).print("Interrupted.")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def show_error(error: ToastError) -> None:
    """What is wrong, then what to do."""
    console = make_console(stderr=True)
    console.print(Text.assemble(("error: ", "bold red"), error.message), soft_wrap=True)
    if error.hint:
        console.print(Text(f"  {error.hint}"), soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a command answers: tables or one JSON document on stdout, all else on stderr.

    `quiet`: no tables and no progress; of what was written only the path.
    """

    quiet: bool = False
    as_json: bool = False

    def tables(self, *parts: RenderableType) -> None:
        """What a person reads."""
        if not self.quiet and not self.as_json:
            for part in parts:
                make_console().print(part, soft_wrap=isinstance(part, str))

    def document(self, text: str) -> None:
        """What a program reads."""
        if self.as_json:
            typer.echo(text.rstrip("\n"))

    def written(self, path: Path, sentence: str) -> None:
        """Say where something was written; in quiet mode nothing but the path."""
        if self.as_json:
            return
        if self.quiet:
            typer.echo(str(path))
        else:
            make_console().print(sentence, soft_wrap=True)

    def names(self, names: Iterable[str], *tables: RenderableType) -> None:
        """Tables; in quiet mode only the names of their rows, one a line."""
        self.tables(*tables)
        if self.quiet and not self.as_json:
            typer.echo("\n".join(names))

    def progress(self) -> ProgressBar:
        """A bar, which a quiet command does not show."""
        return ProgressBar(quiet=self.quiet)

    def interrupts(self) -> AbstractContextManager[Interrupt]:
        """While inside, the first Ctrl-C asks for an end; a quiet command does not speak of it."""
        return stop_on_interrupt(quiet=self.quiet)


class Interrupt:
    """Whether Ctrl-C was pressed once; pressed twice it interrupts as usual."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.asked, self._quiet = False, quiet

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.asked

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """The handler of SIGINT."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        if self._quiet:
            return
        make_console(stderr=True).print("Stopping; the best plan so far is kept.")


@contextmanager
def stop_on_interrupt(*, quiet: bool = False) -> Iterator[Interrupt]:
    """While inside, the first Ctrl-C asks the search to stop with the best plan so far."""
    interrupt = Interrupt(quiet=quiet)
    earlier = signal.signal(signal.SIGINT, interrupt.on_signal)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, earlier)


class ProgressBar:
    """A bar on stderr fed by progress events.

    Where stderr is no terminal it says only that kernels are compiled, which nobody expects, and
    which plans are; quiet, not even that.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        console = make_console(stderr=True)
        self._silent = quiet or not console.is_terminal
        self._speaks = not quiet
        self._quiet, self._detail = quiet, ""
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[best]}"),
            console=console,
            transient=True,
            disable=self._silent,
        )
        self._task = self._progress.add_task("starting", total=1.0, best="")

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, event: Event) -> None:
        """Show one progress event; an event of another kind changes nothing."""
        if event.get("event", "progress") != "progress":
            return
        if self._silent and self._speaks and event.get("stage") == COMPILING:
            self._speaks = False
            self._progress.console.print(f"{COMPILING.capitalize()}.")
        detail = str(event.get("detail") or "")
        self._tell_detail(detail)
        self._progress.update(
            self._task,
            completed=float(event.get("fraction") or 0.0),
            description=str(event.get("stage", "working")),
            best=detail or best_so_far(event),
        )

    def _tell_detail(self, detail: str) -> None:
        """A line for each detail, which takes long, where no bar shows it; each once."""
        if detail and self._silent and not self._quiet and detail != self._detail:
            self._progress.console.print(f"{detail[:1].upper()}{detail[1:]}.", soft_wrap=True)
        self._detail = detail

    def stage(self, name: str) -> None:
        """Show a stage of work that has no fraction."""
        self._progress.update(self._task, description=name, total=None)


def best_so_far(event: Event) -> str:
    """What the best plan so far takes; nothing before one was priced."""
    seconds, peak = event.get("best_seconds"), event.get("best_bytes")
    if not seconds or not peak:
        return ""
    return f"best {format_seconds(seconds)} a step, {format_bytes(peak)} per device"
