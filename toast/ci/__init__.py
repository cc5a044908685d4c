"""A gate for continuous integration: planned models against a budget and a baseline.

`budget` reads what is demanded, `planning` plans here or on a service, `gate` compares, and
`markdown`, `junit`, `sarif`, `annotations` and `tables` say what was found.
"""

from __future__ import annotations
