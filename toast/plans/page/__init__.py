"""A plan as one HTML page, and the head of it for notebooks."""

from __future__ import annotations

from toast.plans.page.document import report_html
from toast.plans.page.head import head_html

__all__ = ["head_html", "report_html"]
