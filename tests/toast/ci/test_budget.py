"""Budget files: what they may say, and where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toast.ci.budgets import PLAIN, budget_file
from toast.analysis.errors import InvalidRequest
from toast.ci.baseline import read_baseline
from toast.ci.budget import read_budget

WHOLE = """\
baseline = "old.json"
[defaults]
mesh = "data=2,model=4"
device = "tpu-v5p"
budget = "5s"
pins = ["x=data,None"]
[defaults.tolerance]
memory = "10%"
step = "0%"
[defaults.limits]
memory = "2GiB"
[models.small]
module = "mlp.mlir"
[models.large]
module = "mlp.mlir"
mesh = "data=4"
threads = 2
tolerance = { memory = "2.5%" }
[models.large.limits]
memory = "1MiB"
step = "20ms"
communication = 4096
"""


def test_a_model_says_what_the_defaults_do_not(tmp_path: Path) -> None:
    budget = read_budget(budget_file(tmp_path, WHOLE))
    assert budget.baseline == tmp_path / "old.json"
    small, large = budget.models
    assert (small.request.mesh, large.request.mesh) == ("data=2,model=4", "data=4")
    assert {model.request.device for model in budget.models} == {"tpu-v5p"}
    assert {model.request.budget for model in budget.models} == {5.0}
    assert small.request.pins == ("x=data,None",)
    assert (small.request.threads, large.request.threads) == (1, 2)
    assert small.limits.value("memory") == 2 << 30
    assert small.limits.value("step") is None
    assert [large.limits.value(n) for n in ("memory", "step", "communication")] == [
        1 << 20, pytest.approx(0.02), 4096,
    ]  # fmt: skip
    assert (small.allowed("memory"), large.allowed("memory")) == (0.1, 0.025)
    assert large.allowed("step") == 0
    assert large.allowed("communication") > 0


def test_each_figure_has_the_line_that_limits_it(tmp_path: Path) -> None:
    _, large = read_budget(budget_file(tmp_path, WHOLE)).models
    rows = WHOLE.splitlines()
    assert rows[large.line - 1] == "[models.large]"
    assert rows[large.lines["step"] - 1] == 'step = "20ms"'


def test_a_device_file_lies_beside_the_budget(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "costmodel/hardware/chips/cpu.toml"
    (tmp_path / "mine.toml").write_text(source.read_text())
    path = budget_file(tmp_path, PLAIN + 'device = "mine.toml"\n')
    assert read_budget(path).models[0].request.device == str(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[models.mlp\n", "is no TOML: .*line 1"),
        ("", "models is missing"),
        ("[modles.mlp]\n", "line 1: modles is not known; did you mean .models..?"),
        ("models = 3\n", "line 1: models has to be a table"),
        ('[models."a/b"]\n', "has to be a name of letters"),
        ("[models.mlp]\nmesh='data=2'\n", "line 1: models.mlp.module is missing"),
        ("[models.mlp]\nmodule='none.mlir'\n", "line 2: models.mlp.module names .*none.mlir"),
        ("[models.mlp]\nmodule='mlp.mlir'\n", "models.mlp.mesh is missing"),
        (PLAIN + "mash = 'data=2'\n", "line 6: models.mlp.mash .* did you mean 'mesh'"),
        (PLAIN + "seed = -1\n", "models.mlp: The setting 'seed' is out of range"),
        (PLAIN + "device = 'abacus'\n", "models.mlp: .*'abacus'"),
        (PLAIN.replace("data=2", "data=two"), "models.mlp: .*mesh"),
        (PLAIN + "limits = { time = '1s' }\n", "models.mlp.limits.time is not known"),
        (PLAIN + "limits = { step = '1 fortnight' }\n", "step has to be a duration such as 20ms"),
        (PLAIN + "limits = { memory = 'much' }\n", "memory has to be a size such as 2GiB"),
        (PLAIN + "limits = { memory = true }\n", "memory has to be text, and is True"),
        (PLAIN + "tolerance = { step = '5' }\n", 'step has to be a share such as "5%"'),
        (PLAIN + "tolerance = { step = '-5%' }\n", "step has to be a share"),
        ("[defaults]\nmodule='mlp.mlir'\n" + PLAIN, "line 2: defaults.module is not known"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as caught:
        read_budget(budget_file(tmp_path, content))
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no baseline"),
        ('{"schema": 9}', "is no baseline: schema"),
        ('{"schema": 1, "models": {"a": {"mesh": "x=1"}}}', "models.a.device"),
        ('{"schema": 1, "extra": 1}', "extra"),
    ],
)
def test_a_broken_baseline_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "toast.baseline.json"
    path.write_text(content)
    with pytest.raises(InvalidRequest, match=said) as caught:
        read_baseline(path)
    assert "--update-baseline" in caught.value.hint


def test_no_baseline_is_an_empty_one(tmp_path: Path) -> None:
    assert read_baseline(tmp_path / "none.json").models == {}
