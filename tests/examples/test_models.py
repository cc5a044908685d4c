"""The registry of models: sizes as published, steps that lower and run, scanned like unrolled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.forms import serialize
from examples.models import MODELS, Model, itx
from examples.models.common import Tree
from tests.examples.real_arrays import random_arguments


def variants() -> Iterator[tuple[str, str, bool]]:
    """Every model and preset, unrolled and, where it can be, scanned."""
    for name, model in MODELS.items():
        for preset in model.presets:
            yield name, preset, False
            if model.has_scan:
                yield name, preset, True


def is_tiny(variant: tuple[str, str, bool]) -> bool:
    return variant[1].startswith("tiny")


TINY = [variant for variant in variants() if is_tiny(variant)]
FULL = [variant for variant in variants() if not is_tiny(variant)]


def argument_names(lowered: jax.stages.Lowered) -> list[str]:
    return [str(jax.tree_util.keystr(path)) for path, _ in _leaves(lowered.args_info[0])]


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
    with pytest.raises((FrozenInstanceError, AttributeError)):
        config.batch = 1


@pytest.mark.parametrize("name", MODELS)
def test_the_parameters_are_as_many_as_published(name: str) -> None:
    model = MODELS[name]
    for preset, stated in model.published.items():
        assert model.count(model.config(preset)) == pytest.approx(stated, rel=0.1), preset


def test_the_inference_transformer_is_smaller_at_its_stated_sizes_than_stated() -> None:
    model = MODELS["itx"]
    assert "paper" not in model.published
    assert model.count(model.config("paper")) == pytest.approx(0.92e9, rel=0.01)


@pytest.mark.parametrize("variant", [variant for variant in variants() if variant[2]])
def test_scanned_layers_have_the_same_parameters(variant: tuple[str, str, bool]) -> None:
    name, preset, _ = variant
    model = MODELS[name]
    unrolled, scanned = model.config(preset), model.config(preset, scan=True)
    assert model.count(scanned) == model.count(unrolled)
    assert len(jax.tree.leaves(model.params(scanned))) < len(
        jax.tree.leaves(model.params(unrolled))
    )


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
def test_every_size_lowers_abstractly(variant: tuple[str, str, bool]) -> None:
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


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.has_scan])
def test_a_scanned_module_holds_a_loop_and_fewer_ops(name: str) -> None:
    model = MODELS[name]
    unrolled, scanned = (
        model.lower(model.config("paper", scan=scan)).as_text() for scan in (False, True)
    )
    assert "stablehlo.while" in scanned
    assert "stablehlo.while" not in unrolled
    assert len(scanned) < len(unrolled)


def test_the_arguments_are_named_by_their_paths() -> None:
    model = MODELS["gns"]
    step = model.make_step(model.config("tiny"))
    text = serialize(step, "text").decode()
    assert "state['params']['steps'][1]['edge']['hidden'][0]['kernel']" in text
    assert "batch['senders']" in text


@pytest.mark.parametrize("variant", TINY)
def test_a_real_step_has_finite_results(variant: tuple[str, str, bool]) -> None:
    name, preset, scan = variant
    model = MODELS[name]
    step = model.make_step(model.config(preset, scan=scan))
    state, value = step.function(*random_arguments(step.arguments))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state, value)))


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.has_scan])
def test_scanned_and_unrolled_compute_the_same(name: str) -> None:
    model = MODELS[name]
    unrolled, scanned = (model.make_step(model.config("tiny", scan=scan)) for scan in (False, True))
    arguments = random_arguments(unrolled.arguments)
    loss = jax.device_get(scanned.function(*stack_like(scanned.arguments, arguments))[1])
    assert np.allclose(loss, unrolled.function(*arguments)[1], rtol=1e-4, atol=1e-5)


def stack_like(shapes: Any, arrays: Any) -> Any:
    """The arrays of an unrolled model with its lists of layers stacked, to fit `shapes`."""
    if isinstance(shapes, dict):
        return {key: stack_like(shapes[key], arrays[key]) for key in shapes}
    if isinstance(shapes, tuple):
        return tuple(stack_like(*pair) for pair in zip(shapes, arrays, strict=True))
    if isinstance(shapes, list):
        return [stack_like(*pair) for pair in zip(shapes, arrays, strict=True)]
    return arrays


def test_decoding_token_by_token_agrees_with_a_prefill() -> None:
    model: Model = MODELS["itx"]
    decode, prefill = (model.make_step(model.config(p)) for p in ("tiny", "tiny_prefill"))
    params, cache, tokens = random_arguments(prefill.arguments)
    empty: Tree = jax.tree.map(jnp.zeros_like, cache)
    copy = jax.tree.map(jnp.copy, empty)
    filled, expected = prefill.function(params, empty, tokens)
    logits = None
    for position in range(tokens.shape[1]):
        copy, logits = decode.function(params, copy, tokens[:, position], jnp.int32(position))
    assert np.allclose(logits, expected, rtol=1e-4, atol=1e-4)
    for left, right in zip(jax.tree.leaves(copy), jax.tree.leaves(filled), strict=True):
        assert np.allclose(left, right, rtol=1e-4, atol=1e-5)


def test_a_rotation_depends_on_distance_alone() -> None:
    vector = jnp.asarray(np.random.default_rng(0).normal(size=16), jnp.float32)
    repeated = jnp.broadcast_to(vector, (1, 4, 16))
    early = itx.rotary(repeated, jnp.arange(4))[0]
    late = itx.rotary(repeated, jnp.arange(4) + 100)[0]
    assert np.allclose(early @ early.T, late @ late.T, rtol=1e-3, atol=1e-3)
    assert not np.allclose(early, late, atol=1e-2)
