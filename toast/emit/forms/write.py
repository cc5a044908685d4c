"""Writes a plan in the form that a request asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toast.analysis.errors import InvalidRequest
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A written module, and what its user should know of how it was written."""

    data: bytes
    notices: tuple[str, ...] = ()


def write_form(  # noqa: PLR0913 - all that a plan comes to
    form: FormName,
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
    if version is not None and source.loaded.form not in (Form.PORTABLE, Form.EXPORT):
        raise InvalidRequest(
            "A target version is for a portable artifact or a jax.export artifact, and the module "
            f"came as {source.loaded.form.name.lower()}.",
            "Leave it out, or give the module as a portable artifact.",
        )
    module = source.loaded.module
    notices: tuple[str, ...] = ()
    match form:
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


def _lowering(form: FormName, container: Form) -> Callable[..., Lowered]:
    """What writes a form; the program of one device is a region where arguments are whole."""
    if form == "collectives":
        return lower_to_collectives
    return lower_to_region if container is Form.EXPORT else lower_to_local
