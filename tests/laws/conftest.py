"""One XLA child for all tests of the laws."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.laws.xla import Xla


@pytest.fixture(scope="session")
def xla() -> Iterator[Xla]:
    found = Xla()
    yield found
    found.close()
