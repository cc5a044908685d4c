"""The flags that `plan` and `submit` share, on a command of one's own."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from toast.cli import app
from toast.cli.request_flags import request_of, with_settings
from toast.request.request import PlanRequest
from toast.request.settings import make_request

SEEN: list[tuple[str, PlanRequest, int]] = []
WHERE = Annotated[str, typer.Argument()]
COUNT = Annotated[int, typer.Option("--count")]


@with_settings
def command(where: WHERE, request: PlanRequest, count: COUNT = 1) -> None:
    """What it says it does."""
    SEEN.append((where, request, count))


def called(*arguments: str) -> tuple[int, str]:
    own = typer.Typer()
    own.command()(command)
    done = CliRunner().invoke(own, list(arguments))
    return done.exit_code, done.output


def test_a_command_gets_the_request_that_its_flags_make() -> None:
    flags = (
        "--mesh",
        "data=2",
        "--pin",
        "w=None",
        "--pin",
        "v=data",
        "--refine",
        "--memory",
        "1GiB",
    )
    assert called("here", *flags, "--count", "3")[0] == 0
    wanted = make_request(mesh="data=2", pins=("w=None", "v=data"), refine=True, memory="1GiB")
    assert SEEN.pop() == ("here", wanted, 3)
    assert called("here", "--mesh", "data=2", "--without", "cse,fusion")[0] == 0
    assert SEEN.pop() == ("here", make_request(mesh="data=2", without=("cse", "fusion")), 1)
    assert called("here", "--mesh", "data=2")[0] == 0
    assert SEEN.pop() == ("here", make_request(mesh="data=2"), 1)


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--mesh", "data=2", "--overlap", "2"), "overlap"),
        (("--mesh", "data=2", "--prove", "--refine"), "do not go together"),
        (("--mesh", "poem"), "poem"),
        (("--mesh", "data=2", "--without", "cse,twins"), "no pass 'twins' to leave out"),
        ((), "--mesh"),
    ],
)
def test_what_would_not_do_never_reaches_the_command(flags: tuple[str, ...], part: str) -> None:
    code, output = called("here", *flags)
    assert code == 2
    assert part in output
    assert SEEN == []


def test_it_says_of_itself_what_the_command_says() -> None:
    assert command.__doc__ == "What it says it does."
    shown = called("--help")[1]
    assert "--count" in shown
    assert "--request" not in shown


def test_every_setting_of_a_request_has_a_flag() -> None:
    """But for the decisions of another plan, which `toast choose` sets."""
    settings = set(PlanRequest.model_fields) - {"decisions"}
    assert set(request_of.__annotations__) - {"return"} == settings
    commands = getattr(typer.main.get_command(app), "commands", {})
    for name in ("plan", "submit"):
        assert settings <= {parameter.name for parameter in commands[name].params}
