"""Training steps of the examples and of public libraries, in microbatches and whole."""

from __future__ import annotations

import pytest

from examples.forms import serialize
from examples.libraries import LIBRARIES
from tests.examples.variants import TINY, Variant, module_of
from tests.toast.microbatch.steps import close, drawn, in_parts, run
from toast.analysis.forms import decode
from toast.microbatch.blocked import Blocked
from toast.microbatch.time_axis import TimeAxis

FEW = [("t2b", "tiny", True), ("gpt", "tiny", False)]
BLOCKED = {
    "gat": "each node attends to all",
    "gns": "nodes add up what comes over edges",
    "wideresnet": "batch norm",
}
"""Models whose examples have to do with each other, and why."""
MORE = [one for one in TINY if one not in FEW and one[0] not in (*BLOCKED, "itx")]
STEPS = [name for name in LIBRARIES if name.startswith(("optax", "nnx", "equinox"))]


def check(module: bytes) -> None:
    inputs = drawn(module)
    parts, cut = in_parts(module, 2)
    assert cut.needs.sums
    assert close(run(module, inputs), run(parts, inputs), 1e-4)


@pytest.mark.parametrize("variant", FEW)
def test_a_training_step_in_parts_gives_the_same(variant: Variant) -> None:
    check(module_of(variant))


@pytest.mark.nightly
@pytest.mark.parametrize("variant", MORE)
def test_every_training_step_in_parts_gives_the_same(variant: Variant) -> None:
    check(module_of(variant))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_a_library_in_parts_gives_the_same(name: str) -> None:
    builder = LIBRARIES[name]
    if builder.missing():
        pytest.skip(f"not installed: {', '.join(builder.missing())}; see `.[libraries]`")
    check(serialize(builder.presets["tiny"](), "bytecode"))


@pytest.mark.parametrize("name", BLOCKED)
def test_a_model_whose_examples_meet_is_refused(name: str) -> None:
    axis = TimeAxis(decode(module_of((name, "tiny", False))).module)
    with pytest.raises(Blocked) as refused:
        axis.best()
    assert f"{name}.py:" in refused.value.op
