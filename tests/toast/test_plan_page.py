"""The page of a plan: all of it is there, it needs nothing else, and names are never markup."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.toast.explained import step
from tests.toast.html_reader import assert_needs_nothing_else, read
from tests.toast.planned import gemma_text, request
from tests.toast.samples import MIB, cost, make_plan, write_plan_directory
from toast.cli.app import app
from toast.pipeline.plan_module import make_plan as plan_module
from toast.plans.page import report_html
from toast.plans.plan import Plan
from toast.plans.time import RewritingTried, TimeAxes

HOSTILE = '</style></svg>"><img src=http://x/y onerror=alert(1)>$x$ {{7*7}}\x07'
NAMED = {
    "axes", "axis", "colour", "decisions", "description", "detail", "device", "dim", "dtype",
    "group", "location", "mesh", "name", "needed_by", "op", "place", "places", "reason",
    "resolutions", "resolved", "spec", "target", "value", "warnings",
}  # fmt: skip
SECTIONS = {
    "layout": "Layout of the arguments",
    "memory": "Memory over the schedule",
    "time": "Time of a step",
    "choices": "Choices of time against memory",
    "decisions": "Decisions",
    "conflicts": "Conflicts",
    "search": "How it was found",
}


@cache
def gemma() -> Plan:
    """Choices, conflicts that are resolved and decisions; some memory too little."""
    return plan_module(gemma_text(), request(memory=2 * MIB)).plan


@cache
def page() -> str:
    return report_html(gemma(), "A plan")


def test_every_section_is_on_the_page() -> None:
    reader = read(page())
    ids = {attributes.get("id") for _, attributes in reader.tags}
    for name, title in SECTIONS.items():
        assert name in ids
        assert title in reader.text
    assert "state/{mu,nu,params}/layers/*/down" in reader.text
    assert reader.classes.count("plot") == 2 * 3, "memory, time and choices, wide and narrow"
    assert reader.classes.count("graph") == 1
    assert "shard the key or the query side of attention" in reader.text
    assert "What each colour would cost otherwise" in reader.text
    assert "now over" in reader.text


def test_a_step_that_was_rewritten_says_how_and_what_else_was_tried() -> None:
    time = TimeAxes(
        argument="batch",
        dimension=0,
        arguments=["batch"],
        size=32,
        microbatches=4,
        tried=[
            RewritingTried(microbatches=1, step_seconds=0.5, peak_bytes=9 << 30, fits=False),
            RewritingTried(
                microbatches=4,
                recompute="all",
                step_seconds=0.6,
                peak_bytes=3 << 30,
                fits=True,
                chosen=True,
            ),
            RewritingTried(microbatches=8, reason="8 parts do not divide it"),
        ],
    )
    text = read(report_html(gemma().model_copy(update={"time": time}))).text
    assert "runs in 4 microbatches of 8" in text
    assert "that takes 6.00 GiB less memory and 100 ms more time" in text
    assert "8 parts do not divide it" in text
    assert "Rewritings that were tried" not in read(report_html(gemma())).text


def test_it_needs_no_other_file_and_no_network() -> None:
    assert_needs_nothing_else(page())
    assert "http" not in page().replace("http-equiv", "")
    assert "default-src 'none'" in page()


def test_plots_have_the_colours_of_the_page_and_words_for_who_cannot_see_them() -> None:
    reader = read(page())
    plots = [attributes for tag, attributes in reader.tags if "plot" in attributes.get("class", "")]
    assert all(plot["role"] == "img" and plot["aria-label"] for plot in plots)
    painted = [
        attributes.get("style", "") for tag, attributes in reader.tags if tag in ("path", "text")
    ]
    assert any("var(--first)" in style for style in painted)
    assert not any("#0102" in style for style in painted)


def test_the_same_plan_makes_the_same_page_whatever_style_the_caller_draws_in() -> None:
    import matplotlib as mpl

    with mpl.rc_context({"text.color": "red", "font.size": 30.0, "svg.fonttype": "path"}):
        assert report_html(gemma(), "A plan") == page()
        assert mpl.rcParams["text.color"] == "red"


def hostile(part: Any, key: str = "") -> Any:
    """A plan's JSON in which every name ends in markup."""
    if isinstance(part, dict):
        if key == "taken":
            return {axis + HOSTILE: bit for axis, bit in part.items()}
        return {name: hostile(value, name) for name, value in part.items()}
    if isinstance(part, list):
        return [hostile(each, key) for each in part]
    if isinstance(part, str) and key in NAMED:
        return part + HOSTILE
    return part


def test_names_are_text_and_never_markup() -> None:
    fields = json.loads(gemma().to_json())
    sent = fields["explanation"]["collectives"]
    found = hostile({**fields, "request": None, "warnings": [""]})
    found["explanation"]["collectives"] = [
        {**row, "reason": before["reason"]}
        for row, before in zip(found["explanation"]["collectives"], sent, strict=True)
    ]
    plan = Plan.model_validate(found)
    written = report_html(plan, HOSTILE)
    assert_needs_nothing_else(written)
    text = read(written).text
    assert HOSTILE in text
    assert text.count("onerror=alert(1)") > 100
    head = plan._repr_html_()
    assert_needs_nothing_else(head)
    assert "<img" not in head


def many(count: int) -> Plan:
    """As many arguments, no two of one shape."""
    tensors = [
        {
            "index": index,
            "name": f"state['params']['layers'][{index}]['attention']['kernel_{index}']",
            "shape": [index + 1, 64],
            "dtype": "bf16",
            "spec": [["data"], ["model"]],
        }
        for index in range(count)
    ]
    groups = [
        {key: value for key, value in each.items() if key != "index"}
        | {"arguments": [each["index"]]}
        for each in tensors
    ]
    return make_plan(arguments=tensors, groups=groups)


def test_eight_thousand_arguments_make_a_page_of_a_few_megabytes() -> None:
    written = report_html(many(8000))
    assert len(written.encode()) < 3_000_000
    text = read(written).text
    assert "4,900 more groups" in text
    assert "And 3,000 more groups; plan.json has all." in text


def test_names_of_a_large_group_are_cut() -> None:
    plan = many(500)
    group = plan.groups[0].model_copy(update={"arguments": list(range(500))})
    text = read(report_html(plan.model_copy(update={"groups": [group]}))).text
    assert "['kernel_19']" in text
    assert "['kernel_20']" not in text
    assert "and 480 more" in text


def test_a_plan_that_does_not_fit_says_what_stands_in_the_way() -> None:
    asked = request(memory=1000, forbid=("p/second=model",), rollouts=100)
    plan = plan_module(step(), asked).plan
    reader = read(report_html(plan))
    assert "What does not fit" in reader.text
    assert "What stands in the way" in reader.text
    assert "the request forbids 'model'" in reader.text
    assert "DOES NOT FIT" in reader.text
    assert "What does not fit" not in read(report_html(make_plan())).text


def test_a_plan_of_an_earlier_version_has_the_sections_that_it_can_have() -> None:
    older = Path(__file__).with_name("plan_schema_1.json")
    plan = Plan.from_json(older.read_bytes())
    assert plan.conflicts is None
    text = read(report_html(plan)).text
    assert "The plan does not say how conflicts are resolved" in text
    bare = report_html(make_plan())
    assert "The plan does not say where memory and time go" in read(bare).text
    assert_needs_nothing_else(bare)


def test_small_plans_have_small_pages() -> None:
    plan = make_plan(
        collectives=[], decisions=[], stages={}, unpriced=[], warnings=[], groups=[], arguments=[]
    )
    text = read(report_html(plan)).text
    assert "None: the unsharded layout is the best that was found." in text
    assert "none that is faster" in text


def test_a_notebook_shows_the_head_and_draws_nothing() -> None:
    plan = make_plan(predicted=cost(0.002, 20 * MIB, fits=False))
    reader = read(plan._repr_html_())
    assert "DOES NOT FIT: 20.00 MiB of 16.00 MiB" in reader.text
    assert "data parallel" in reader.text
    assert "the vocabulary of 50257 is divided by no axis" in reader.text
    assert "custom_call @mystery, 2 times: no rule" in reader.text
    script = (
        "import sys, toast\n"
        "plan = toast.Plan.from_json(sys.stdin.read())\n"
        "assert not {'jinja2', 'matplotlib'} & sys.modules.keys()\n"
        "plan._repr_html_()\n"
        "assert not {'jax', 'matplotlib', 'numba'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", script], input=plan.to_json(), text=True, check=True)


def test_a_plan_writes_its_own_report(tmp_path: Path) -> None:
    assert gemma().report(tmp_path / "page.html", "A plan").read_text(encoding="utf-8") == page()


def report(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["report", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_the_command_writes_beside_the_plan_or_where_it_is_told(tmp_path: Path) -> None:
    folder = write_plan_directory(tmp_path / "a plan")
    code, text, _ = report(folder)
    assert (code, text.strip()) == (0, f"Written to {folder}/report.html.")
    assert "Sharding plan: a plan" in read((folder / "report.html").read_text()).text
    assert report(folder / "plan.json", "-o", tmp_path / "new" / "page.html")[0] == 0
    assert (tmp_path / "new" / "page.html").read_text() == (folder / "report.html").read_text()


def test_what_cannot_be_read_or_written_is_refused(tmp_path: Path) -> None:
    code, _, error = report(tmp_path)
    assert code == 2
    assert "There is no plan" in error
    folder = write_plan_directory(tmp_path / "out")
    code, _, error = report(folder, "-o", tmp_path)
    assert code == 2
    assert "cannot be written" in " ".join(error.split())


@pytest.mark.parametrize("there", [True, False])
def test_open_shows_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    opened: list[str] = []

    def browser(url: str) -> bool:
        opened.append(url)
        return there

    monkeypatch.setattr("webbrowser.open", browser)
    folder = write_plan_directory(tmp_path)
    code, _, error = report(folder, "--open")
    assert code == 0
    assert opened == [(folder / "report.html").as_uri()]
    assert ("No browser" in error) is not there
