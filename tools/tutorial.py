"""Run the tutorial, and compare docs/tutorial.md with it, or write the page's blocks anew.

python -m tools.tutorial [--write]

A comment before each block of the page says what it holds:

    <!-- cell NAME -->     the cell `# %% NAME` of examples/tutorial.py
    <!-- output NAME -->   what that cell prints
    <!-- shell -->         commands, which run after all cells, in the folder where those ran
    <!-- shell output -->  what the commands before it print

What another machine would print otherwise is written as `...`: how long the search, the stages and
a verification took, and how far rounding moved the results of a verification.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
SCRIPT = ROOT / "examples" / "tutorial.py"
NEEDS = ("flax", "optax", "orbax")

_BLOCK = re.compile(
    r"(?P<head>^<!-- (?P<kind>cell|output|shell output|shell)(?: (?P<name>[\w-]+))? -->\n"
    r"```\w+\n)(?P<body>.*?)(?P<end>^```$)",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"^# %% ([\w-]+)\n", re.MULTILINE)
_TIME = r"[\d.,]+ (?:us|ms|s|min)"
_SEARCH = re.compile(rf"( evaluations in) {_TIME}\s")
_VERIFIED = re.compile(rf"(, seed \d+, in) {_TIME}")
_ROUNDING = re.compile(r" *\d\.\d+e[+-]\d+")
_STAGES = re.compile(r"^stage +time\n(?:^\S.*\n)+", re.MULTILINE)


def cells(script: str) -> dict[str, str]:
    """The cells of a script by name, in order."""
    _, *parts = _MARK.split(script)
    return {
        name: code.strip("\n") + "\n" for name, code in zip(parts[::2], parts[1::2], strict=True)
    }


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Kind, name and text of every block of a page that this program writes or runs."""
    for block in _BLOCK.finditer(page):
        yield block["kind"], block["name"] or "", block["body"]


def masked(text: str) -> str:
    """Output without the times of the machine that it was made on."""
    text = _ROUNDING.sub(" ...", _VERIFIED.sub(r"\1 ...", _SEARCH.sub(r"\1 ... ", text)))
    return _STAGES.sub(lambda found: re.sub(rf" +{_TIME}$", " ...", found[0], flags=re.M), text)


def rewritten(page: str, code: dict[str, str], printed: dict[str, str], shell: list[str]) -> str:
    """The page with every block as it should be; `shell` is what each group of commands printed."""
    group = iter(range(len(shell)))
    number = 0

    def text_of(block: re.Match[str]) -> str:
        nonlocal number
        kind, name = block["kind"], block["name"]
        if kind == "shell":
            number = next(group)
            return block[0]
        body = {"cell": code, "output": printed}[kind][name] if name else shell[number]
        return block["head"] + body + block["end"]

    return _BLOCK.sub(text_of, page)


def run_cells(code: dict[str, str]) -> dict[str, str]:
    """What each cell prints, all run in this process and in one namespace."""
    script, names = SCRIPT.read_text(), {"__name__": "__main__"}
    printed = {}
    for name, text in code.items():
        # Empty lines in front give the lines of the plan's source locations their numbers.
        before = script[: script.index(f"# %% {name}\n")].count("\n") + 1
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            exec(compile("\n" * before + text, str(SCRIPT), "exec"), names)
        printed[name] = masked(stdout.getvalue())
    return printed


def run_shell(commands: str) -> str:
    """What a group of commands prints; `toast` is that of this interpreter."""
    code = f'toast() {{ "{sys.executable}" -m toast "$@"; }}\nset -e\n{commands}'
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{commands}{done.stdout}{done.stderr}")
    return masked("".join(line.rstrip() + "\n" for line in done.stdout.splitlines()))


def prepare_environment(folder: Path) -> None:
    """Eight virtual devices, no plans of earlier runs, no service."""
    flags = ("force_host_platform_device_count=8", "backend_optimization_level=0")
    os.environ["XLA_FLAGS"] = " ".join(f"--xla_{flag}" for flag in flags)  # compiles fast
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ.pop("TOAST_URL", None)
    os.chdir(folder)


def main(arguments: list[str]) -> int:
    """0 where the page says what happens, or does so now; else 1 and the differences."""
    parser = argparse.ArgumentParser(prog="tools.tutorial", description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the page anew")
    write = parser.parse_args(arguments).write
    page, code = PAGE.read_text(), cells(SCRIPT.read_text())
    with tempfile.TemporaryDirectory(prefix="toast-tutorial-") as folder:
        prepare_environment(Path(folder))
        printed = run_cells(code)
        shell = [run_shell(text) for kind, _, text in blocks(page) if kind == "shell"]
        os.chdir(ROOT)
    true = rewritten(page, code, printed, shell)
    if write:
        PAGE.write_text(true)
        return 0
    difference = difflib.unified_diff(
        page.split("\n"), true.split("\n"), "written", "run", lineterm=""
    )
    print("\n".join(difference), end="")
    return int(page != true)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
