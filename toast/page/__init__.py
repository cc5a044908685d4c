"""What all pages share: the template engine, the look, drawn graphs, plots that take its colours.

It knows neither plans nor inspections: they give it plain values.
"""

from __future__ import annotations
