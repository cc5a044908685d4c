"""Known layouts that mix on meshes of two and three axes, found from bare modules with no hint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.planners.layouts import Choice, named
from examples.models import itx, unet
from tests.search.known_layouts.planned import Planned, collectives, plan_step
from tests.search.known_layouts.steps import attention_forward, mlp_training
from toast.search.local_search import local_search
from toast.search.progress import Control


def over(plan: Planned, kind: str) -> set[tuple[str, ...]]:
    """The axes over which there are collectives of a kind."""
    return {axes for found, axes in plan.collectives() if found == kind}


def pair_axes(plan: Planned) -> set[str]:
    """The axes over which pairs of weights are split: the first by columns, the second by rows."""
    columns, rows = plan.at_use("['up']"), plan.at_use("['down']")
    assert {use.split(",")[0] for use in columns} == {use.split(",")[1] for use in rows} == {"None"}
    split = {use.split(",")[1] for use in columns}
    assert split == {use.split(",")[0] for use in rows}
    return {axis for axes in split for axis in axes.split("+")}


def test_rows_and_megatron_on_two_axes() -> None:
    """16,384 rows, weights of 8192 x 32768, 32 chips as 8 x 4: rows over one, pairs over the other.

    All rows over 32 chips would gather whole weights, all weights over 32 would sum whole
    activations; the mixture sends a part of both. What the rows' axis leaves whole of a parameter
    it splits for storage (FSDP).
    """
    step = mlp_training(layers=2, width=8192, hidden=32768, tokens=16384)
    plan = plan_step(step, "data=8,model=4")
    (pairs,) = pair_axes(plan)
    (rows,) = {"data", "model"} - {pairs}
    assert all(rows in layout.split(",")[0] for layout in plan.layouts("['x']"))
    for weight in ("['up']", "['down']"):
        assert all(rows in layout and pairs in layout for layout in plan.layouts(weight))
    sums = over(plan, "all_reduce") | over(plan, "reduce_scatter")
    assert {(pairs,), (rows,)} <= sums
    mixed: tuple[Choice, ...] = (
        ("['x']", 0, "data"),
        ("['up']", 0, "data"),
        ("['up']", 1, "model"),
    )
    by_rows: tuple[Choice, ...] = tuple(
        (name, 0, axis) for name in ("['x']", "['up']") for axis in ("data", "model")
    )
    by_pairs: tuple[Choice, ...] = tuple(("['up']", 1, axis) for axis in ("data", "model"))
    assert plan.found.cost <= plan.price(*mixed)
    assert plan.price(*mixed) < min(plan.price(*by_rows), plan.price(*by_pairs))


def test_all_rows_on_two_axes_where_there_are_many() -> None:
    """65,536 rows on the same chips: gathering whole weights costs less than sums of activations.

    A mixture whose rows are over the axes in another order than the mesh's would be the best, if
    XLA scattered the gradients of the layer that has no pairs, but it sums them whole: compiled,
    that takes 178 ms, and all rows 152.7. What is found instead takes 152.0, all scattered.
    """
    step = mlp_training(layers=2, width=8192, hidden=32768, tokens=65536)
    plan = plan_step(step, "data=8,model=4")
    rows: list[Choice] = [
        (name, 0, axis) for name in ("['x']", "['up']") for axis in ("data", "model")
    ]
    crossed: list[Choice] = [
        ("['x']", 0, "model"),
        ("[0]['up']", 1, "data"),
        ("['x']", 0, "data"),
        ("[1]['up']", 1, "model"),
        ("[1]['up']", 1, "data"),
        ("['up']", 0, "model"),
    ]
    assert plan.found.cost <= plan.price(*rows) < plan.price(*crossed)
    state, _ = named(plan.problem, crossed)
    sent = collectives(plan.problem.evaluator, state)
    both = ("data", "model")
    # the gradients of two weights, and the loss
    assert sent["all_reduce", both] == 3
    assert ("reduce_scatter", both) not in sent
    assert {axis for axes in over(plan, "reduce_scatter") for axis in axes} == set(both)


def test_rows_and_parameters_and_megatron_on_three_axes() -> None:
    """The same on 64 TPU v5p in a cube: some axes for rows and storage, some for the pairs.

    Pairs over all 64 would sum whole activations, rows over all 64 gather whole weights.
    """
    step = mlp_training(layers=2, width=8192, hidden=32768, tokens=65536)
    plan = plan_step(step, "data=4,fsdp=4,model=4", device="tpu-v5p")
    axes = ("data", "fsdp", "model")
    assert 0 < len(pair_axes(plan)) < len(axes)
    assert all(layout.split(",")[0] != "None" for layout in plan.layouts("['x']"))
    for weight in ("['up']", "['down']"):
        assert all(axis in layout for layout in plan.layouts(weight) for axis in axes)
    mixed: list[Choice] = [(name, 0, axis) for name in ("['x']", "['up']") for axis in axes[:2]]
    mixed.append(("['up']", 1, "model"))
    pairs: list[Choice] = [("['up']", 1, axis) for axis in axes]
    rows: list[Choice] = [(name, 0, axis) for name in ("['x']", "['up']") for axis in axes]
    assert plan.found.cost <= plan.price(*mixed)
    assert plan.price(*mixed) < min(plan.price(*pairs), plan.price(*rows))


def test_batch_and_sequence_and_megatron_on_three_axes() -> None:
    """Two texts of 2,048, width 8192, on 64 TPU v5p: an axis each for texts, positions and heads.

    More than two texts there are not. Weights of a gigabyte a layer take long to read whole for
    256 rows a chip, so a third axis splits them; positions take the rest, through a conflict. What
    each layer adds to is split along positions by the third axis too, as Megatron's sequence
    parallelism does: what its sums are scattered to is gathered for the next product.
    """
    step = attention_forward(
        layers=2, batch=2, seq=2048, width=8192, heads=32, size=256, shared=True, hidden=32768
    )
    plan = plan_step(step, "data=2,seq=8,model=4", device="tpu-v5p")
    assert plan.layouts("x") == {"data,seq+model,None"}
    assert plan.layouts("['query']") == {"None,model,None"}
    assert plan.layouts("['output']") == {"model,None,None"}
    assert plan.layouts("['up']") == {"None,model"}
    assert plan.layouts("['down']") == {"model,None"}
    sent = plan.collectives()
    assert sent["reduce_scatter", ("model",)] == sent["all_gather", ("model",)] == pytest.approx(4)


def test_decoding_with_a_cache() -> None:
    """Batch, Megatron and multi-query: eight texts of 8,192, an inference transformer of 5 B, cut.

    The cache has no heads, so it is split by texts, over all axes; hidden layers are split by
    columns and rows over all axes too, and so are attention's weights, along what is summed: for
    one position each, activations are cheaper to move than weights to read.
    """
    config = replace(itx.PRESETS["paper_5b"], layers=2, batch=8, prompt=8192, seq=8192)
    plan = plan_step(itx.make_step(config), "data=4,model=2")
    both = ["data", "model"]
    assert plan.arguments()["tokens"] == [both]
    cache = [spec for name, spec in plan.arguments().items() if name.startswith("cache")]
    assert cache == [[both, [], []]] * 4
    assert plan.layouts("['up']") == {"None,data+model"}
    assert plan.layouts("['down']") == {"data+model,None"}
    for name in ("query", "key", "value"):
        assert {layout.split(",")[0] for layout in plan.layouts(f"['{name}']")} == {"data+model"}
    alone = [("tokens", 0, "data"), ("['up']", 1, "model"), ("['query']", 1, "model")]
    assert plan.found.cost < plan.price(*alone)


def test_batch_and_channels_of_a_unet() -> None:
    """Two images on 2 x 4 chips: an image on each half of them, and its channels over four.

    One resolution of the published U-Net. Pixels are not offered: where a filter has several output
    features XLA adds up results that are not partial (see `toast.analysis.halos`). Channels over
    all eight would gather twice as many pixels on each, and put them in blocks, and 64 channels
    fill half of the matrix unit: compiled they take a quarter longer.
    """
    config = replace(
        unet.PRESETS["paper"],
        channels=512,
        widen=(1,),
        down_blocks=1,
        up_blocks=2,
        batch=2,
        image=64,
    )
    plan = plan_step(unet.make_step(config), "data=2,model=4", rollouts=1000)
    alone, _ = named(plan.problem, [("batch['images']", 0, "data")])
    cost, _ = plan.problem.cost(alone)
    by_image = local_search(plan.problem, alone, cost, Control())
    assert plan.layouts("batch['images']") == {"data,None,None,None"}
    # The two differ in where single filters lie, by a thousandth.
    assert plan.found.cost <= 1.002 * by_image.cost
    data, model = range(2)
    split = [action for action in plan.found.state if action.axis == model]
    channels = (*split, *(replace(action, axis=data) for action in split))
    assert plan.problem.cost(channels)[0] > 1.05 * plan.found.cost
    filters = {
        name: spec
        for name, spec in plan.arguments().items()
        if name.startswith("state['params']") and len(spec) == 4
    }
    assert all(spec[:2] == [[], []] for spec in filters.values())
    by_channel = [name for name, spec in filters.items() if "model" in spec[2] + spec[3]]
    # All but those of the first and the last convolution, which have three colours.
    assert len(by_channel) >= len(filters) - 2
