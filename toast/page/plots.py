"""Matplotlib's figures as inline SVG that takes the colours and the font of its page.

Figures are drawn with colours that stand for a variable of the style sheet each, so that one figure
serves light and dark screens. Each is drawn twice, for wide and for narrow screens.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, SOFT, LINE = "#010203", "#010204", "#010205"
FIRST, SECOND, BAR, OVER, PAPER = "#010206", "#010207", "#010208", "#010209", "#01020a"
_VARIABLES = {
    INK: "ink", SOFT: "soft", LINE: "line", FIRST: "first", SECOND: "second", BAR: "bar",
    OVER: "conflict", PAPER: "paper",
}  # fmt: skip
_STYLE = {
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.labelcolor": SOFT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "svg.fonttype": "none",
    # The same figures make the same page.
    "svg.hashsalt": "toast",
    "text.color": INK,
    # Names come from users: a dollar sign is one.
    "text.parse_math": False,
    "xtick.color": LINE,
    "xtick.labelcolor": SOFT,
    "ytick.color": LINE,
    "ytick.labelcolor": SOFT,
}
_HREF = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"#([\w-]+)")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_LOCK = Lock()
"""Matplotlib's settings are those of the process; a service may draw in several threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The inches of a figure; `narrow` where it is for a phone."""

    width: float
    height: float
    narrow: bool


Draw = Callable[["Axes", Size], None]


def plain(text: str) -> str:
    """A name without what XML cannot hold: control characters and halves of surrogates."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def plot(name: str, draw: Draw, label: str, *, height: float) -> Markup:
    """A figure in both widths; `label` says in words what it shows, `height` is in inches."""
    sizes = {
        "wide": Size(width=12.2, height=height, narrow=False),
        "narrow": Size(width=3.7, height=height, narrow=True),
    }
    drawn = (
        _inline(_svg(draw, size), f"{name}-{key}", key, plain(label)) for key, size in sizes.items()
    )
    return Markup("\n").join(drawn)


def _svg(draw: Draw, size: Size) -> str:
    """The SVG as Matplotlib writes it, whatever style the caller's own figures have."""
    from matplotlib import style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    written = io.StringIO()
    with _LOCK, style.context(["default", _STYLE]), warnings.catch_warnings():
        # Only the widths of labels are guessed wrong; the page's own font draws them.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(size.width, size.height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.subplots(), size)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", metadata=nothing)
    return written.getvalue()


def _inline(svg: str, name: str, kind: str, label: str) -> Markup:
    """An `<svg>` of HTML: no namespaces, no ids but those it refers to, colours by variable."""
    root = ET.fromstring(svg)
    width, height = (float(root.attrib.pop(key).removesuffix("pt")) for key in ("width", "height"))
    root.attrib = {
        "class": f"plot {kind}",
        "role": "img",
        "aria-label": label,
        "viewBox": root.attrib["viewBox"],
        "width": f"{width * 4 / 3:.0f}",
        "height": f"{height * 4 / 3:.0f}",
    }
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}style", "}metadata")):
                parent.remove(child)
    elements = list(root.iter())
    used = {found for element in elements for found in _referred(element)}
    for element in elements:
        _make_inline(element, used, name)
    return Markup(ET.tostring(root, encoding="unicode"))


def _variable(colour: re.Match[str]) -> str:
    name = _VARIABLES.get(colour[0])
    return f"var(--{name})" if name else colour[0]


def _referred(element: ET.Element) -> list[str]:
    """The ids that an element refers to."""
    values = [value for key, value in element.attrib.items() if key != "id"]
    return [found for value in values for found in _REFERENCE.findall(value)]


def _make_inline(element: ET.Element, used: set[str], name: str) -> None:
    """An element as HTML has it, its ids begun with the name of the figure."""
    element.tag = element.tag.rpartition("}")[2]
    if element.attrib.get("id", "") not in used:
        element.attrib.pop("id", None)
    if _HREF in element.attrib:
        element.attrib["href"] = element.attrib.pop(_HREF)
    if "id" in element.attrib:
        element.attrib["id"] = f"{name}-{element.attrib['id']}"
    for key in element.attrib.keys() & {"href", "clip-path"}:
        element.attrib[key] = _REFERENCE.sub(rf"#{name}-\1", element.attrib[key])
    for key in element.attrib.keys() & {"style", "fill", "stroke"}:
        element.attrib[key] = _COLOUR.sub(_variable, element.attrib[key])
    if not (element.text or "").strip():
        element.text = None
    if element.tail and not element.tail.strip():
        element.tail = "\n"
