"""Every error that a user can cause, in one tree, each with a code.

An error says what is wrong and what to do about it, in one sentence each. The command line turns
any of them into exit code 2; the service into a 4xx `application/problem+json` whose `code` is the
same word.
"""

from __future__ import annotations

from typing import ClassVar


class ToastError(Exception):
    """Base of all errors caused by input.

    `message` says what is wrong, `hint` what to do. `code` is stable and documented in
    `docs/errors.md`; `status` is the HTTP status that the service answers with.
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 400

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class InvalidModule(ToastError):
    """The bytes are not a module, or not one that parses (with line and column where known)."""

    code = "invalid_module"
    status = 422


class UnsupportedModule(ToastError):
    """The module parses but has something that cannot be planned (dynamic shapes, no `main`)."""

    code = "unsupported_module"
    status = 422


class ModuleTooLarge(ToastError):
    """The module, or the plan for it, is larger than this service takes on."""

    code = "module_too_large"
    status = 422


class InvalidMesh(ToastError):
    """The mesh does not parse, repeats an axis, or has nothing to shard over."""

    code = "invalid_mesh"


class UnknownDevice(ToastError):
    """No device profile has that name."""

    code = "unknown_device"


class InvalidDevice(ToastError):
    """A device file is no TOML, or a figure in it is missing, unknown or impossible."""

    code = "invalid_device"


class InvalidRequest(ToastError):
    """A setting of the job is out of range or unknown (planner, memory, budget, rollouts)."""

    code = "invalid_request"


class EngineCrashed(ToastError):
    """XLA or MLIR aborted the engine process while it handled the module."""

    code = "engine_crashed"
    status = 422


ERRORS: tuple[type[ToastError], ...] = (
    InvalidModule,
    UnsupportedModule,
    ModuleTooLarge,
    InvalidMesh,
    UnknownDevice,
    InvalidDevice,
    InvalidRequest,
    EngineCrashed,
)
"""The table of error codes, most specific first."""


def from_code(code: str, message: str, hint: str = "") -> ToastError:
    """The error that another process reported as (`code`, `message`, `hint`)."""
    for kind in ERRORS:
        if kind.code == code:
            return kind(message, hint)
    return ToastError(message, hint)
