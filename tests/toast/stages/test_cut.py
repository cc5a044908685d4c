"""Where a step is cut: what goes from stage to stage, and what is refused."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest

from tests.toast.microbatch.steps import lowered
from tests.toast.stages.steps import LAYERS, WIDTH, cut
from toast.analysis.errors import InvalidRequest
from toast.analysis.forms import decode
from toast.stages.cut import CutProgram, Cutting, cut_program
from toast.stages.homes import even_cuts, find_layers
from toast.stages.wiring import Phase, PipelineProgram, StageModule


def crossing(program: PipelineProgram, phase: Phase) -> list[tuple[str, int, int]]:
    """The values of a microbatch that go from stage to stage: name, source, target."""
    made = {
        name: module.stage
        for module in program.of(phase)
        for name in module.outputs
        if name.startswith("value:")
    }
    return [
        (name, made[name], module.stage)
        for module in program.of(phase)
        for name in module.inputs
        if name in made and made[name] != module.stage
    ]


def test_each_stage_sends_one_tensor_to_the_next() -> None:
    made = cut("inference", Cutting(stages=4, microbatches=2))
    sent = crossing(made.program, Phase.FORWARD)
    assert [(source, target) for _, source, target in sent] == [(0, 1), (1, 2), (2, 3)]
    for (name, source, _), _module in zip(sent, made.modules, strict=False):
        module = next(
            one
            for one, wired in zip(made.modules, made.program.modules, strict=True)
            if wired.phase is Phase.FORWARD and wired.stage == source
        )
        wired = next(one for one in made.program.of(Phase.FORWARD) if one.stage == source)
        results = re.search(r"func.func public @main\(.*\) -> \(?(.*?)\)? \{", str(module))
        assert results is not None
        kinds = re.findall(r"tensor<[^>]*>", results[1])
        assert kinds[wired.outputs.index(name)] == f"tensor<4x{WIDTH}xf32>"


def test_backward_work_sends_one_cotangent_back() -> None:
    program = cut("training", Cutting(stages=4, microbatches=2)).program
    back = [(source, target) for _, source, target in crossing(program, Phase.BACKWARD)]
    assert {pair for pair in back if pair != (3, 0)} == {(3, 2), (2, 1), (1, 0)}
    # The last stage makes a part of the gradient of the weight that the first one updates.
    assert len(back) == 4


def test_equal_stages_have_equal_modules() -> None:
    made = cut("training", Cutting(stages=4, microbatches=2))
    texts = {
        (wired.phase, wired.stage): text
        for wired, text in zip(made.program.modules, made.texts(), strict=True)
    }
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert texts[phase, 1] == texts[phase, 2]


def test_weights_are_on_one_stage_but_for_shared_ones() -> None:
    program = cut("training", Cutting(stages=2, microbatches=2)).program
    stages: dict[str, set[int]] = {}
    for module in program.modules:
        for name in module.inputs:
            if name.startswith("argument:"):
                argument = program.arguments[int(name.removeprefix("argument:"))]
                stages.setdefault(argument, set()).add(module.stage)
    shared = {name for name, found in stages.items() if len(found) > 1}
    assert shared == {"state['params']['embedding']"}


def test_the_norm_of_all_gradients_is_the_only_exchange_after_the_loop() -> None:
    whole = cut("training", Cutting(stages=2, microbatches=2))
    ends = whole.program.of(Phase.AFTER)
    made = {name: module.stage for module in ends for name in module.outputs}
    sent = {
        name
        for module in ends
        for name in module.inputs
        if name in made and made[name] != module.stage
    }
    assert max(module.number for module in ends) >= 1
    kinds = _kinds(whole)
    assert sent
    assert {kinds[name] for name in sent} == {"tensor<f32>"}


def _kinds(made: CutProgram) -> dict[str, str]:
    found: dict[str, str] = {}
    for wired, module in zip(made.program.modules, made.modules, strict=True):
        found |= _results(wired, str(module))
    return found


def _results(wired: StageModule, text: str) -> dict[str, str]:
    line = next(line for line in text.splitlines() if "@main(" in line)
    kinds = re.findall(r"tensor<[^>]*>", line.split(" -> ", 1)[1]) if " -> " in line else []
    return dict(zip(wired.outputs, kinds, strict=True))


def test_layers_are_counted_in_the_order_in_which_they_are_read() -> None:
    names = ["p['layers_10']['w']", "p['layers_2']['w']", "p['head']"]
    found = find_layers(names, [1, 0, 2])
    assert found.entries == ("p/layers_2", "p/layers_10")
    assert found.of_argument == {1: 0, 0: 1}


@pytest.mark.parametrize(("layers", "chunks", "cuts"), [(4, 2, (2,)), (5, 2, (3,)), (3, 3, (1, 2))])
def test_even_cuts(layers: int, chunks: int, cuts: tuple[int, ...]) -> None:
    assert even_cuts(layers, chunks) == cuts


@pytest.mark.parametrize(
    ("cutting", "says"),
    [
        (Cutting(stages=LAYERS + 1, microbatches=2), "4 layers cannot be cut into 5 parts"),
        (Cutting(stages=2, microbatches=3), "batch of 8 cannot be cut into 3 microbatches"),
        (Cutting(stages=2, microbatches=2, cuts=(1, 2)), "2 cuts make 3 chunks, not 2"),
        (Cutting(stages=3, microbatches=2, cuts=(3, 1)), "not in order between 1 and 3"),
    ],
)
def test_what_cannot_be_cut_is_refused(cutting: Cutting, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        cut("training", cutting)


def test_stacked_layers_are_refused() -> None:
    def step(stacked: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, stacked)[0]

    text = lowered(step, jnp.zeros((4, 8, 8)), jnp.zeros((6, 8))).encode()
    with pytest.raises(InvalidRequest, match="No repeated layers were found"):
        cut_program(
            decode(text).module, ["stacked", "x"], Cutting(stages=2, microbatches=2, batch=(1, 0))
        )
