"""Writes a plan in the form that a request asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toast.analysis.forms import Form
from toast.analysis.load import Source
from toast.costmodel.network.mesh import Mesh
from toast.costmodel.resolved import ResolvedPlan
from toast.emit.forms.annotated import annotated
from toast.emit.forms.closed import close
from toast.emit.lowering.write import (
    Lowered,
    lower_to_collectives,
    lower_to_local,
    lower_to_region,
)
from toast.emit.specs import LayoutConstraint, Specs
from toast.emit.writer import annotate, encode_written
from toast.request.request import FormName

MAX_INLINED_OPS = 500_000
"""The calls of a program of more ops stay: inlined they take half a KiB of memory an op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A written module, and what its user should know of how it was written."""

    data: bytes
    notices: tuple[str, ...] = ()


def write_form(  # noqa: PLR0913 - all that a plan comes to
    form: FormName | None,
    *,
    data: bytes,
    source: Source,
    mesh: Mesh,
    resolved: ResolvedPlan,
    specs: Specs,
    constraints: list[LayoutConstraint],
    kept: frozenset[int],
    version: str | None = None,
) -> Written:
    """The module in `data`, from which `source` was read, with a plan written into it.

    `kept` are the values of the module's own constraints that the plan keeps, `version` the
    StableHLO that the module is for.
    """
    module = source.loaded.module
    notices: tuple[str, ...] = ()
    match form or _usual(source):
        case "annotated":
            module = annotated(data, source, mesh, specs, constraints, kept)
        case "closed":
            close(source, mesh, specs, constraints, kept)
        case "collectives" | "local":
            lowered = _lowering(form, source.loaded.form)(source, mesh, resolved, specs)
            module, notices = lowered.module, lowered.notices
        case "flat":
            annotate(source, mesh, specs, constraints, kept)
    return Written(data=encode_written(source, module, mesh, specs, version), notices=notices)


def _usual(source: Source) -> FormName:
    """The form where none is asked for."""
    return "flat" if source.program.ops <= MAX_INLINED_OPS else "annotated"


def _lowering(form: FormName | None, container: Form) -> Callable[..., Lowered]:
    """What writes a form; the program of one device is a region where arguments are whole."""
    if form == "collectives":
        return lower_to_collectives
    return lower_to_region if container is Form.EXPORT else lower_to_local
