"""The examples lower abstractly, in every form, with the names of their arguments."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples import forms, gemma, mlp
from toast.analysis.forms import Form, decode, detect
from toast.verify.inputs import describe_arguments

EXPECTED = {
    "text": Form.TEXT,
    "bytecode": Form.BYTECODE,
    "portable": Form.PORTABLE,
    "export": Form.EXPORT,
}


@pytest.mark.parametrize("form", forms.FORMS)
def test_every_form_is_recognised_and_keeps_its_names(form: str) -> None:
    data = forms.serialize(mlp.make_step(mlp.PRESETS["tiny"]), form)
    assert detect(data) is EXPECTED[form]
    loaded = decode(data)
    with loaded.module.context:
        names = [argument.name for argument in describe_arguments(loaded.module)]
    assert names[:2] == ["params['b1']", "params['b2']"]


def test_writing_one_form_changes_no_other() -> None:
    step = mlp.make_step(mlp.PRESETS["tiny"])
    before = forms.serialize(step, "bytecode")
    forms.serialize(step, "portable")
    assert forms.serialize(step, "bytecode") == before


@pytest.mark.parametrize("script", ["block_sparse.py", "gemma.py", "mlp.py"])
def test_the_scripts_write_files(tmp_path: Path, script: str) -> None:
    path = Path(forms.__file__).parent / script
    out = tmp_path / "new" / "step.mlirbc"
    command = [sys.executable, str(path), "--preset", "tiny", "--form", "bytecode", "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert detect(out.read_bytes()) is Form.BYTECODE


def test_the_full_size_has_its_numbers_and_allocates_nothing() -> None:
    config = gemma.PRESETS["gemma_2b"]
    state, batch = gemma.arguments(config)
    leaves = jax.tree.leaves(state["params"])
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)
    assert 2.4e9 < sum(leaf.size for leaf in leaves) < 2.6e9
    assert {str(leaf.dtype) for leaf in leaves} == {"bfloat16"}
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(state["mu"])} == {"float32"}
    assert batch["tokens"].shape == (32, 2048)


def test_the_step_learns_and_donates() -> None:
    config = replace(gemma.PRESETS["tiny"], learning_rate=3e-3)
    step = gemma.make_step(config)
    random = np.random.default_rng(0)
    state = step.arguments[0]
    params = jax.tree.map(
        lambda a: jnp.asarray(random.normal(0, 0.05, a.shape), a.dtype), state["params"]
    )

    def zeros() -> gemma.Tree:
        return jax.tree.map(jnp.zeros_like, params)

    current = {"params": params, "mu": zeros(), "nu": zeros(), "count": jnp.int32(0)}
    tokens = jnp.asarray(random.integers(0, 16, (config.batch, config.seq)), jnp.int32)
    data = {"tokens": tokens, "targets": jnp.roll(tokens, -1, axis=1)}
    losses = []
    for _ in range(8):
        current, loss = step.function(current, data)
        losses.append(float(loss))
    assert losses[-1] < losses[0] - 0.3
    assert int(current["count"]) == 8
    assert "tf.aliasing_output" in step.lower().as_text()


def test_attention_looks_back_only() -> None:
    config = gemma.PRESETS["tiny"]
    weights = gemma.param_shapes(config, jnp.float32)["layers"][0]
    random = np.random.default_rng(1)
    weights = jax.tree.map(lambda a: jnp.asarray(random.normal(0, 0.3, a.shape), a.dtype), weights)
    x = jnp.asarray(random.normal(size=(1, 8, config.d_model)), jnp.float32)
    changed = x.at[:, 5:].add(1.0)
    first, second = gemma.attention(weights, x), gemma.attention(weights, changed)
    assert np.allclose(first[:, :5], second[:, :5], atol=1e-6)
    assert not np.allclose(first[:, 5:], second[:, 5:], atol=1e-2)


def test_rotary_keeps_lengths_and_depends_on_distance_alone() -> None:
    random = np.random.default_rng(2)
    vector = jnp.asarray(random.normal(size=16), jnp.float32)
    turned = gemma.rotary(jnp.broadcast_to(vector, (1, 6, 16)))[0]
    assert np.allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(vector), rtol=1e-5)
    products = np.asarray(turned @ turned.T)
    assert np.allclose(products[0, 2], products[3, 5], rtol=1e-4)
