"""Layers recomputed: the same numbers, less kept, and what stands in the way."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples.variants import TINY, Variant, module_of
from tests.toast.recompute.layered import ROWS, WIDTH, check_same, dense, recomputed, step_of
from toast.recompute.policy import Policy

BOTH = pytest.mark.parametrize("scan", [False, True])
POLICIES = pytest.mark.parametrize("policy", [Policy.ALL, Policy.PRODUCTS])
FEW = [("t2b", "tiny", False), ("t2b", "tiny", True)]
MORE = [one for one in TINY if one not in FEW]

STEPS: dict[str, Any] = {
    "tanh": lambda x, _: jnp.tanh(x),
    "norm": lambda x, _: x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-3),
    "product": lambda x, w: jnp.sin(x @ w) @ w.T,
    "scores": lambda x, _: jax.nn.softmax(x @ x.T) @ x,
    "kept": lambda x, _: x + 1.0,
    "branch": lambda x, _: jax.lax.cond(jnp.sum(x) > 0, jnp.sin, jnp.cos, x),
    "loop": lambda x, _: jax.lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) + i * y, x),
    "narrow": lambda x, _: x.astype(jnp.bfloat16).astype(jnp.float32) * 0.5,
}


@BOTH
@POLICIES
def test_each_layer_keeps_what_it_is_handed(scan: bool, policy: Policy) -> None:
    (account,) = check_same(step_of(4, scan=scan), policy)
    handed, product = ROWS * WIDTH * 4, ROWS * 2 * WIDTH * 4
    assert account.name == ("weights/layers" if scan else "weights/layers/*")
    assert account.layers == 4
    assert account.recomputed > 0
    inputs = 4 if scan else 3  # what the first unrolled layer is handed is an argument
    # the second product of a layer is read by nothing but its sine, which is made again of it
    products = 4 * (product + handed) if policy == Policy.PRODUCTS else 0
    assert account.kept_bytes <= (inputs + 1) * handed + products
    assert account.kept_bytes < account.before_bytes


@settings(max_examples=6)
@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5),
    layers=st.integers(2, 4),
    scan=st.booleans(),
    policy=st.sampled_from([Policy.ALL, Policy.PRODUCTS]),
)
def test_random_layers_make_the_same_numbers(
    names: list[str], layers: int, scan: bool, policy: Policy
) -> None:
    def layer(x: Any, w: Any, number: int) -> Any:
        for name in names:
            x = STEPS[name](x, w)
        return dense(x, w, number)

    accounts = check_same(step_of(layers, scan=scan, layer=layer), policy, 1e-5)
    assert all(account.kept_bytes <= account.before_bytes for account in accounts)


@POLICIES
@pytest.mark.parametrize("variant", FEW)
def test_a_model_makes_the_same_numbers(variant: Variant, policy: Policy) -> None:
    accounts = check_same(module_of(variant), policy, 1e-5)
    assert accounts
    assert all(account.recomputed for account in accounts)


@pytest.mark.nightly
@POLICIES
@pytest.mark.parametrize("variant", MORE)
def test_every_model_makes_the_same_numbers(variant: Variant, policy: Policy) -> None:
    check_same(module_of(variant), policy, 1e-5)


@BOTH
def test_dropout_drops_the_same_again(scan: bool) -> None:
    def layer(x: Any, w: Any, number: int) -> Any:
        key = jax.random.fold_in(jax.random.key(3), number + jnp.int32(jnp.sum(w) > 0))
        kept = jax.random.bernoulli(key, 0.5, x.shape)
        return dense(jnp.where(kept, x, 0.0) * 2.0, w, number)

    (account,) = check_same(step_of(3, scan=scan, layer=layer), Policy.ALL)
    assert account.recomputed


@BOTH
def test_layers_with_a_checkpoint_are_left_alone(scan: bool) -> None:
    module = step_of(3, scan=scan, remat=True)
    written, accounts = recomputed(module, Policy.ALL)
    assert not accounts
    assert written.count("dot_general") == recomputed(module, Policy.KEEP)[0].count("dot_general")


def test_an_op_with_side_effects_runs_once_and_is_named() -> None:
    module, changed = re.subn(
        r"stablehlo\.sine (%\w+) : (\S+)",
        r"stablehlo.custom_call @noisy(\1) {has_side_effect = true} : (\2) -> \2",
        step_of(3),
    )
    assert changed == 3
    written, (account,) = recomputed(module, Policy.ALL)
    assert written.count("@noisy") == changed
    assert "custom_call noisy" in " ".join(account.blocked) or not account.blocked
    assert account.recomputed


def test_copies_stand_behind_a_barrier_with_the_gradient() -> None:
    written, _ = recomputed(step_of(3), Policy.ALL)
    barriers = re.findall(r"optimization_barrier (.*?) :", written)
    assert len(barriers) == 3
    made = [re.findall(r"%\d+", one)[-1] for one in barriers]
    for gradient in made:  # the last that a barrier takes
        (name,) = re.findall(rf"{gradient} = .*? loc\((#loc\d+)\)", written)
        assert re.search(rf"^{name} = .*transpose\(jvp", written, re.MULTILINE)
    assert "transpose(jvp())/rematted_computation/" in written


def test_a_loop_stacks_nothing_but_what_is_handed_on() -> None:
    written, _ = recomputed(step_of(5, scan=True), Policy.ALL)
    stacks = re.findall(r"dynamic_update_slice .*-> tensor<5x(\S+?)>", written)
    assert sorted(stacks) == [f"{ROWS}x{WIDTH}xf32", f"{WIDTH}x{2 * WIDTH}xf32"]


def test_layers_without_names_are_told_by_equal_products() -> None:
    named = step_of(4)
    module = re.sub(r'loc\("(weights|x)[^"]*"\)', "loc(unknown)", named)
    assert module != named
    (account,) = check_same(module, Policy.ALL)
    assert account.name.startswith("layers at layered.py:")
    assert account.layers == 4
    assert account.kept_bytes == recomputed(named, Policy.ALL)[1][0].kept_bytes


def test_a_step_without_a_backward_pass_has_no_groups() -> None:
    text = jax.jit(jnp.sin).lower(jnp.zeros(3)).as_text(debug_info=True)
    assert recomputed(text, Policy.ALL)[1] == []
