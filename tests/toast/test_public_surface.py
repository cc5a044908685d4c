"""What `import toast` gives, and what it does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import toast


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import toast",
        "import toast.process.runner, toast.cli, toast.client, toast.demo",
        "import toast; toast.ToastError, toast.Plan, toast.Client, toast.plan",
    ],
)
def test_nothing_heavy_is_imported(statement: str) -> None:
    assert not loaded_after(statement) & {"jax", "jaxlib", "numba", "scipy"}


def test_every_public_name_exists_once() -> None:
    assert dir(toast) == sorted(toast.__all__)
    for name in toast.__all__:
        assert getattr(toast, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'autoshred'"):
        _ = toast.autoshred
