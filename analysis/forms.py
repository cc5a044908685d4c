"""The four forms in which a module travels, recognised by content and never by name.

They are StableHLO text, MLIR bytecode, a StableHLO portable artifact (VHLO bytecode) and a
serialized `jax.export.Exported`. `decode` reads any of them; `encode` writes a module in the form
wanted.
"""

from __future__ import annotations

import enum
import hashlib
import io
import re
from dataclasses import dataclass
from typing import Any

import jax
from jax.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from toast.analysis.errors import InvalidModule, InvalidRequest

_BYTECODE = b"ML\xefR"
_VHLO_PRODUCER = b"StableHLO_v"
_PLACE = re.compile(r":(\d+):(\d+)")


class Form(enum.Enum):
    """A form of module; the value is the file suffix that it is written with."""

    TEXT = ".mlir"
    BYTECODE = ".mlirbc"
    PORTABLE = ".vhlo"
    EXPORT = ".jax_export"

    @property
    def suffix(self) -> str:
        """File suffix; both bytecode forms are `.mlirbc`, as MLIR's tools call them."""
        return ".mlirbc" if self is Form.PORTABLE else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A parsed module with what is needed to write it back.

    `argument_names` are pytree paths where the form carries them beside the module, else None; the
    names in the module come before them. `exported` is set for the EXPORT form only, `platforms`
    names what it was lowered for.
    """

    form: Form
    module: ir.Module
    argument_names: tuple[str, ...] | None = None
    platforms: tuple[str, ...] = ()
    exported: jax.export.Exported | None = None


def digest(module: ir.Module) -> str:
    """Equal for modules that say the same, wherever in the user's program they say it."""
    with module.context:
        text: str = module.operation.get_asm(enable_debug_info=False)
    return hashlib.sha256(text.encode()).hexdigest()


def detect(data: bytes) -> Form:
    """Which form `data` is in; raises `InvalidModule` for what can be none of them."""
    if not data.strip():
        raise InvalidModule("The module is empty.", "Send StableHLO text, bytecode or an export.")
    if data.startswith(_BYTECODE):
        return Form.PORTABLE if _VHLO_PRODUCER in data[4:40] else Form.BYTECODE
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return Form.EXPORT
    return Form.EXPORT if "\0" in text else Form.TEXT


def decode(data: bytes) -> Loaded:
    """Parse and verify a module in any form; raises `InvalidModule` with the place of the error."""
    form = detect(data)
    if form is Form.EXPORT:
        return _decode_export(data)
    with new_context():
        module = _parse_portable(data) if form is Form.PORTABLE else _parse(data, form)
    return Loaded(form=form, module=module)


def encode(form: Form, module: ir.Module, version: str | None = None) -> bytes:
    """Write `module` in `form`; an export's module is a portable artifact.

    `version` is the StableHLO that reads a portable artifact, None for the newest.
    """
    with module.context:
        match form:
            case Form.TEXT:
                text: str = module.operation.get_asm(enable_debug_info=True)
                return text.encode()
            case Form.BYTECODE:
                return bytecode(module)
            case Form.PORTABLE | Form.EXPORT:
                return portable(module, version)


def new_context() -> Any:
    """An MLIR context with StableHLO, CHLO, func and Shardy registered."""
    return jax_mlir.make_ir_context()


def bytecode(module: ir.Module) -> bytes:
    """The module as MLIR bytecode."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def portable(module: ir.Module, version: str | None = None) -> bytes:
    """The module as a portable artifact; shardings travel as the Shardy dialect inside it.

    Serializing turns a module into VHLO in place, so a copy is serialized. Raises `InvalidRequest`
    for a `version` of StableHLO that is older than one of the module's ops.
    """
    newest = stablehlo.get_current_version()
    version = newest if version is None else version
    copy = ir.Module.parse(bytecode(module))
    try:
        data: bytes = stablehlo.serialize_portable_artifact(copy, version, True)
    except ValueError:
        raise InvalidRequest(
            f"The module has ops that StableHLO {version} does not have.",
            f"Give a newer target version, up to {newest}.",
        ) from None
    return data


def check_version(form: Form, version: str | None) -> None:
    """Refuse a version of StableHLO that a module in this form cannot be written for."""
    if version is None:
        return
    if form not in (Form.PORTABLE, Form.EXPORT):
        raise InvalidRequest(
            "A target version is for a portable artifact or a jax.export artifact, and the module "
            f"came as {form.name.lower()}.",
            "Leave it out, or give the module as a portable artifact.",
        )
    oldest, newest = stablehlo.get_minimum_version(), stablehlo.get_current_version()
    if not _numbers(oldest) <= _numbers(version) <= _numbers(newest):
        raise InvalidRequest(
            f"This jaxlib does not write StableHLO {version}.", f"Give {oldest} to {newest}."
        )


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def _parse(data: bytes, form: Form) -> ir.Module:
    try:
        return ir.Module.parse(data)
    except ir.MLIRError as error:
        raise _parse_error(error, form) from None


def _parse_portable(data: bytes) -> ir.Module:
    try:
        return stablehlo.deserialize_portable_artifact(ir.Context.current, data)
    except (ir.MLIRError, ValueError) as error:
        raise InvalidModule(
            f"The StableHLO portable artifact cannot be read: {_first_line(error)}.",
            "It is truncated, or was written by a newer StableHLO than this jaxlib reads.",
        ) from None


def _parse_error(error: Any, form: Form) -> InvalidModule:
    for diagnostic in error.error_diagnostics:
        place = _PLACE.search(str(diagnostic.location))
        where = f" at line {place[1]}, column {place[2]}" if form is Form.TEXT and place else ""
        return InvalidModule(
            f"The module does not parse{where}: {diagnostic.message}.",
            "Send the unmodified output of jax.jit(f).lower(...), or of another StableHLO tool."
            if form is Form.TEXT
            else "The file may be truncated; upload it again.",
        )
    return InvalidModule(
        "The module does not parse: the bytes are not a complete MLIR module.",
        "The file may be truncated; upload it again.",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0].rstrip(".")


def _decode_export(data: bytes) -> Loaded:
    blob: Any = data  # jax asks for a bytearray, which would be a copy, and only reads it
    try:
        exported = jax.export.deserialize(blob)
    except Exception:  # the flatbuffer reader raises whatever the bytes lead it to
        raise InvalidModule(
            "The bytes are neither StableHLO text, MLIR bytecode nor a jax.export artifact.",
            "Send one of these forms, complete and uncompressed.",
        ) from None
    with new_context():
        module = _parse_portable(exported.mlir_module_serialized)
    return Loaded(
        form=Form.EXPORT,
        module=module,
        argument_names=_argument_names(exported),
        platforms=tuple(exported.platforms),
        exported=exported,
    )


def _argument_names(exported: jax.export.Exported) -> tuple[str, ...] | None:
    """Names of the arguments that the module kept, for a module that has lost its own.

    An export does not know what its function calls its parameters: they are `arg0`, `arg1`, ...
    """
    tree = jax.tree_util.tree_unflatten(exported.in_tree, range(exported.in_tree.num_leaves))
    names = [_argument_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    kept = exported.module_kept_var_idx
    if any(index >= len(names) for index in kept):
        return None
    return tuple(names[index] for index in kept)


def _argument_name(path: tuple[Any, ...]) -> str:
    """The name of a leaf of `(args, kwargs)`."""
    parameter, rest = path[1], jax.tree_util.keystr(path[2:])
    if isinstance(parameter, jax.tree_util.DictKey):
        return f"{parameter.key}{rest}"
    return f"arg{parameter.idx}{rest}"
