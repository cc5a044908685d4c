"""Pages from templates; every value is text and is escaped, but for what is `Markup`."""

from __future__ import annotations

from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from toast.costmodel.hardware.quantities import format_bytes, format_seconds

if TYPE_CHECKING:
    from jinja2 import Environment


def render_template(package: str, name: str, **values: Any) -> str:
    """The template `name` of a package, which may extend and import those of this one."""
    return _environment(package).get_template(name).render(**values)


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__package__)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": format_bytes,
        "count": "{:,}".format,
        "file_name": lambda location: PurePath(location).name,
        "percent": lambda share: f"{share:.1%}",
        "seconds": format_seconds,
    }
    return environment
