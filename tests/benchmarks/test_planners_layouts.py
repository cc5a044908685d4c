"""Layouts by hand mean what their names say, on every family of programs and kind of mesh."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.accuracy.cases import Bench
from benchmarks.accuracy.records import read_records
from benchmarks.fit.programs import PROGRAMS as FITTED
from benchmarks.planners.layouts import LAYOUTS, TACTICS, choices, groups_of, layout
from benchmarks.planners.models import models
from benchmarks.planners.zoo_programs import PROGRAMS
from benchmarks.zoo.lowering import PROGRAMS as LOWERED
from examples import mlp
from examples.forms import Step, serialize
from examples.models import gns, gpt, itx, t2b, t7b, transformer, unet
from toast.costmodel.resolved import resolve
from toast.emit.specs import Specs
from toast.plans.plan import Spec

TARGET = "tpu-v5e:2x4"
WIDE, CUBE = "data=2,model=4", "x=2,y=2,z=2"
T2B = replace(t2b.PRESETS["tiny"], layers=2)
STEPS: dict[str, Step] = {
    "transformer": transformer.make_step(T2B),
    "gpt": gpt.make_step(gpt.PRESETS["tiny"]),
    "itx": itx.make_step(itx.PRESETS["tiny"]),
    "gns": gns.make_step(gns.PRESETS["tiny"]),
    "unet": unet.make_step(unet.PRESETS["tiny"]),
    "mlp": mlp.make_step(mlp.PRESETS["tiny"]),
}
_BENCHES: dict[tuple[str, str], Bench] = {}


def bench(family: str, mesh: str = WIDE) -> Bench:
    if (family, mesh) not in _BENCHES:
        module = serialize(STEPS[family], "bytecode")
        _BENCHES[family, mesh] = Bench.of(module, mesh, TARGET)
    return _BENCHES[family, mesh]


def arguments(some: Bench, family: str, name: str) -> dict[str, Spec]:
    specs = Specs(resolve(some.evaluator, layout(some.problem, family, name)))
    return {a.name: specs.value(a.value) for a in some.evaluator.analysis.program.arguments}


def at_use(some: Bench, family: str, name: str, ending: str) -> list[Spec]:
    """The layouts in which products read an argument."""
    program = some.evaluator.analysis.program
    specs = Specs(resolve(some.evaluator, layout(some.problem, family, name)))
    (value,) = [a.value for a in program.arguments if a.name.endswith(ending)]
    return [
        specs.use(use)
        for use in range(len(program.use_value))
        if program.use_value[use] == value
        and program.kind(program.user(use)) == "stablehlo.dot_general"
    ]


PAIRS = [(family, name) for family in STEPS for name in LAYOUTS[family]]


@pytest.mark.parametrize(("family", "name"), PAIRS)
def test_every_layout_shards_and_uses_all_that_it_names(family: str, name: str) -> None:
    """On a tiny program of its family: no tactic of it is without effect."""
    some = bench(family)
    state = layout(some.problem, family, name)
    axes = {action.axis for action in state}
    whole = some.evaluator.cost(())
    assert axes == {0, 1}
    assert some.evaluator.cost(state).key != whole.key
    for ending, dim, _ in choices(family, name, ["data", "model"]):
        groups = groups_of(some.evaluator, ending, dim)
        assert {action.group for action in state} >= set(groups) != set()


@pytest.mark.parametrize("family", LAYOUTS)
def test_every_tactic_is_of_some_layout(family: str) -> None:
    used = {part.partition(":")[0] for text in LAYOUTS[family].values() for part in text.split()}
    assert used == set(TACTICS[family])


def test_every_program_has_layouts() -> None:
    planned = {model.family for model in models().values()}
    fitted = {program.family for program in FITTED.values()} - {""}
    assert planned | fitted == set(LAYOUTS)
    assert set(LAYOUTS) == {*STEPS, *PROGRAMS}


def test_public_programs_are_of_the_zoo_and_of_both_halves() -> None:
    facts = {row["key"]: row["half"] for row in read_records(LOWERED) if "digest" in row}
    halves = [facts[program] for program, _ in PROGRAMS.values()]
    assert halves.count("held-out") >= 4
    assert halves.count("tuning") >= 4


def test_axes_are_the_rows_and_the_models() -> None:
    rows = choices("mlp", "data+megatron", ["x", "y", "z"])
    assert rows == (("x", 0, "x"), ("x", 0, "y"), ("['w1']", -1, "z"))
    every = choices("mlp", "data", ["data", "model"])
    assert every == (("x", 0, "data"), ("x", 0, "model"))


def test_fully_sharded_parameters_are_whole_at_use() -> None:
    some = bench("transformer")
    found = arguments(some, "transformer", "fsdp")
    assert found["batch['tokens']"] == [["data", "model"], []]
    assert found["state['params']['layers'][0]['up']"] == [["data", "model"], []]
    assert found["state['mu']['layers'][1]['down']"] == [[], ["data", "model"]]
    uses = at_use(some, "transformer", "fsdp", "state['params']['layers'][0]['up']")
    assert uses
    assert all(spec == [[], []] for spec in uses)


def test_the_mixture_of_megatron_and_fully_sharded_parameters() -> None:
    some = bench("transformer")
    found = arguments(some, "transformer", "fsdp+megatron")
    assert found["batch['tokens']"] == [["data"], []]
    assert found["state['params']['layers'][0]['up']"] == [["data"], ["model"]]
    assert found["state['params']['layers'][0]['query']"] == [["data"], ["model"], []]
    assert found["state['params']['layers'][0]['output']"] == [["model"], [], ["data"]]
    uses = at_use(some, "transformer", "fsdp+megatron", "state['params']['layers'][0]['up']")
    assert all(spec == [[], ["model"]] for spec in uses)


def test_sequence_parallelism_adds_no_layout_of_parameters_to_megatron() -> None:
    some = bench("transformer")
    plain = arguments(some, "transformer", "fsdp+megatron")
    sequence = arguments(some, "transformer", "fsdp+megatron+sequence")
    changed = {name for name in plain if plain[name] != sequence[name]}
    assert changed == {"batch['tokens']", "batch['targets']"}
    assert sequence["batch['tokens']"] == [["data"], ["model"]]


def test_a_cache_is_split_by_texts_where_heads_are_not() -> None:
    found = arguments(bench("itx"), "itx", "data+megatron+multi-query")
    cache = [spec for name, spec in found.items() if name.startswith("cache")]
    assert cache
    assert all(spec == [["data", "model"], [], []] for spec in cache)
    assert found["params['layers'][0]['up']"][-1] == ["model"]


def test_three_axes_give_the_rows_two() -> None:
    found = arguments(bench("transformer", CUBE), "transformer", "data+megatron")
    assert found["batch['tokens']"] == [["x", "y"], []]
    assert found["state['params']['layers'][0]['up']"] == [[], ["z"]]


def test_scanned_layers_are_laid_out_like_unrolled_ones() -> None:
    step = transformer.make_step(replace(t7b.PRESETS["tiny"], scan=True))
    some = Bench.of(serialize(step, "bytecode"), WIDE, TARGET)
    for name in LAYOUTS["transformer"]:
        scanned = arguments(some, "transformer", name)
        unrolled = arguments(bench("transformer"), "transformer", name)
        for weight in ("query", "up", "down", "output"):
            spec = scanned[f"state['params']['layers']['{weight}']"]
            assert spec == [[], *unrolled[f"state['params']['layers'][0]['{weight}']"]], name
