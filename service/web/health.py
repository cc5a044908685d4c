"""Whether this server can do what it is for, looked at anew for each question."""

from __future__ import annotations

from toast.service import problems
from toast.service.context import Context
from toast.service.work.dispatcher import Dispatcher

_OPERATOR = "Its operator finds the cause in the server's log."


def check_ready(context: Context, workers: Dispatcher) -> None:
    """Return where jobs can be taken in and run; raise `Draining` or `NotReady` where not.

    The database must take a write, the disk must have room above its floor and take a file, and
    the threads that run jobs and keep leases must be alive.
    """
    if context.notifier.draining:
        raise problems.Draining(
            "The service is shutting down.", "Use another replica.", headers={"Retry-After": "5"}
        )
    try:
        context.store.ping()
        context.disk.check()
    except (problems.DatabaseAway, problems.DiskFull) as error:
        raise _not_ready(error.message) from error
    if not context.disk.takes(context.work):
        raise _not_ready("The disk of the service takes no files.")
    if missing := workers.missing():
        raise _not_ready(f"Threads of the service ended: {', '.join(missing)}.")


def _not_ready(message: str) -> problems.NotReady:
    return problems.NotReady(message, _OPERATOR, headers={"Retry-After": "5"})
