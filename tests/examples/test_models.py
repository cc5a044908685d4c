"""The registry of models: sizes as published, and steps that lower, unrolled and scanned."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import jax
import pytest

from examples.forms import serialize
from examples.models import MODELS
from tests.examples.variants import FULL, SCANNED, TINY, Variant


def _leaves(tree: Any) -> list[tuple[Any, Any]]:
    return jax.tree_util.tree_flatten_with_path(tree)[0]


def test_the_registry_has_the_models_of_both_papers() -> None:
    assert list(MODELS) == ["t2b", "t7b", "gns", "unet", "itx", "gpt", "wideresnet", "gat"]
    assert all(name == model.name for name, model in MODELS.items())
    assert all({"paper", "tiny"} <= set(model.presets) for model in MODELS.values())
    assert [name for name, model in MODELS.items() if not model.has_scan] == ["unet", "gat"]


@pytest.mark.parametrize("name", MODELS)
def test_a_configuration_cannot_be_changed(name: str) -> None:
    config = MODELS[name].config("tiny")
    with pytest.raises(FrozenInstanceError):
        setattr(config, fields(config)[0].name, 1)


@pytest.mark.parametrize("name", MODELS)
def test_the_parameters_are_as_many_as_published(name: str) -> None:
    model = MODELS[name]
    for preset, stated in model.published.items():
        assert model.count(model.config(preset)) == pytest.approx(stated, rel=0.1), preset


def test_the_inference_transformer_is_smaller_at_its_stated_sizes_than_stated() -> None:
    model = MODELS["itx"]
    assert "paper" not in model.published
    assert model.count(model.config("paper")) == pytest.approx(0.92e9, rel=0.01)


@pytest.mark.parametrize("variant", [variant for variant in TINY + FULL if variant[2]])
def test_scanned_layers_have_the_same_parameters(variant: Variant) -> None:
    name, preset, _ = variant
    model = MODELS[name]
    unrolled, scanned = model.config(preset), model.config(preset, scan=True)
    assert model.count(scanned) == model.count(unrolled)


@pytest.mark.parametrize("name", ["unet", "gat"])
def test_a_model_without_layers_refuses_to_scan(name: str) -> None:
    with pytest.raises(ValueError, match="no layers"):
        MODELS[name].config("tiny", scan=True)


@pytest.mark.parametrize("name", MODELS)
def test_tiny_sizes_divide_by_a_mesh_of_eight(name: str) -> None:
    model = MODELS[name]
    leaves = jax.tree.leaves(model.params(model.config("tiny")))
    # A convolution's window and the colours of an image belong to nobody's mesh.
    sizes = {size for leaf in leaves for size in leaf.shape if size > 7}
    assert sizes
    assert all(size % 8 == 0 for size in sizes)


@pytest.mark.parametrize("variant", TINY + FULL)
def test_every_size_lowers_abstractly(variant: Variant) -> None:
    name, preset, scan = variant
    model = MODELS[name]
    config = model.config(preset, scan=scan)
    step = model.make_step(config)
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(step.arguments))
    lowered = step.lower()
    donated = [path for path, leaf in _leaves(lowered.args_info[0]) if leaf.donated]
    kept = [path for path, leaf in _leaves(lowered.args_info[0]) if not leaf.donated]
    held = 1 if name == "itx" else 0
    assert donated
    assert {path[0].idx for path in donated} == {held}
    assert held not in {path[0].idx for path in kept}


@pytest.mark.parametrize("name", SCANNED)
def test_scanned_layers_are_a_loop(name: str) -> None:
    model = MODELS[name]
    unrolled, scanned = (
        model.lower(model.config("tiny", scan=scan)).as_text() for scan in (False, True)
    )
    assert "stablehlo.while" in scanned
    assert "stablehlo.while" not in unrolled


def test_a_scanned_module_does_not_grow_with_its_layers() -> None:
    model = MODELS["itx"]
    unrolled, scanned = (
        model.lower(model.config("paper", scan=scan)).as_text() for scan in (False, True)
    )
    assert len(scanned) * 8 < len(unrolled)


def test_the_arguments_are_named_by_their_paths() -> None:
    model = MODELS["gns"]
    step = model.make_step(model.config("tiny"))
    text = serialize(step, "text").decode()
    assert "state['params']['steps'][1]['edge']['hidden'][0]['kernel']" in text
    assert "batch['senders']" in text
