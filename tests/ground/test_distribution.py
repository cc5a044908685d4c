"""What is installed: pins, packages and the data files inside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.ground.repository import ROOMS, ROOT, name_of, pyproject

PIN = re.compile(r"^([A-Za-z0-9._-]+)==([A-Za-z0-9.!+]+)$")
PROJECT = pyproject()["project"]
DATA_SUFFIXES = {".toml", ".json", ".ini", ".mako", ".html", ".css", ".js"}


def pins() -> dict[str, str]:
    """The version of each distribution in `constraints.txt`, by canonical name."""
    found: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            match = PIN.match(line)
            assert match, f"not a plain pin: {line}"
            found[canonicalize_name(match[1])] = match[2]
    return found


def direct(extra: str | None = None) -> list[Requirement]:
    """The requirements of the distribution itself, or of one extra."""
    listed = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    return [Requirement(text) for text in listed]


@pytest.mark.parametrize(
    "requirement",
    [*direct(), *direct("dev"), *direct("aot"), *direct("aot-cuda")],
    ids=lambda r: str(r.name),
)
def test_every_direct_dependency_is_pinned_to_a_version_that_it_allows(
    requirement: Requirement,
) -> None:
    version = pins().get(canonicalize_name(requirement.name))
    assert version is not None, f"{requirement.name} is not in constraints.txt"
    assert requirement.specifier.contains(version, prereleases=True)


def test_pins_name_no_place_to_fetch_from() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert " @ " not in text


def test_the_tpu_compiler_goes_with_the_pinned_jax() -> None:
    jax = next(r for r in direct("aot") if r.name == "jax")
    assert jax.extras == {"tpu"}
    assert jax.specifier == SpecifierSet(f"=={pins()['jax']}")
    assert pins()["jaxlib"] == pins()["jax"]


def test_the_gpu_compiler_goes_with_the_pinned_jax() -> None:
    ours = [r for r in direct("aot-cuda") if r.name.startswith("jax")]
    assert {str(r.specifier) for r in ours} == {f"=={pins()['jax']}"}
    assert {r.name for r in ours} == {"jax", "jax-cuda12-pjrt", "jax-cuda12-plugin"}


def test_the_distribution_is_one_package_and_the_command() -> None:
    patterns = pyproject()["tool"]["setuptools"]["packages"]["find"]["include"]
    assert patterns == ["toast", "toast.*"]
    assert PROJECT["scripts"] == {"toast": "toast.cli:main"}


def test_every_data_file_in_a_room_is_installed_with_it() -> None:
    data = pyproject()["tool"]["setuptools"]["package-data"]
    missing = []
    for room in ROOMS:
        folder = ROOT / room
        patterns = [*data["*"], *data.get(f"toast.{room}", [])]
        installed = {path for pattern in patterns for path in folder.glob(pattern)}
        wanted = {path for path in folder.rglob("*") if path.suffix in DATA_SUFFIXES}
        missing += [name_of(path) for path in wanted - installed]
    assert missing == []


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "toast"])
def test_a_room_is_a_link_inside_the_package(room: str) -> None:
    link = ROOT / "toast" / room
    assert link.is_symlink()
    assert link.readlink() == Path("..") / room


@pytest.mark.parametrize("room", ROOMS)
def test_every_folder_of_python_in_a_room_is_a_package(room: str) -> None:
    folders = {path.parent for path in (ROOT / room).rglob("*.py")}
    bare = [folder for folder in folders if not (folder / "__init__.py").exists()]
    assert [name_of(folder) for folder in bare] == []
