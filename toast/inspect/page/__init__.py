"""An inspection as one HTML page, for a person: `toast inspect MODULE --html FILE`."""

from __future__ import annotations

from toast.inspect.page.document import render_page

__all__ = ["render_page"]
