"""What values and ops are called: by scope, equation, weights and line."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import pytest

from tests.toast import transformer
from tests.toast.explained import Loaded, loaded
from tests.toast.transformer import attention, forward, line, mlp
from toast.analysis.locations import Location
from toast.labels.labels import Labels
from toast.labels.name_stack import NameStack, telling_part
from toast.labels.weights import short_name


def labels_of(found: Loaded) -> Labels:
    return Labels(found.source, found.problem.evaluator.analysis)


@cache
def told() -> set[tuple[str, str]]:
    """What each value of the transformer is called, and the line that makes it."""
    found = loaded(transformer.module())
    say = labels_of(found)
    return {(say.name(value), say.line_of(value)) for value in range(found.source.program.values)}


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("attention/bsd,dhk->bshk with wq", line(attention, "query =")),
        ("attention/bsd,dhk->bshk with wk", line(attention, "key =")),
        ("attention/bqhk,bshk->bhqs of wq and wk", line(attention, "scores =")),
        ("attention/bqhk,hkd->bqd with wo", line(attention, "return")),
        ("forward/gather with embed", line(forward, "stream = params")),
        ("forward/add behind wo", line(forward, "attention(p")),
        ("forward/add behind down", line(forward, "mlp(p")),
        ("mlp/dot_general with up/kernel", line(mlp, "tanh")),
        ("mlp/add with up/bias", line(mlp, "tanh")),
        (
            "forward/dot_general with head (result[1]['logits'])",
            line(forward, "logits:"),
        ),
        ("gradient of head, forward/dot_general", line(forward, "logits:")),
        ("gradient of wq, attention/bsd,dhk->bshk", line(attention, "query =")),
        ("gradient of attention/bsd,dhk->bshk with wq", line(attention, "query =")),
    ],
)
def test_values_of_a_transformer_have_telling_names(name: str, where: str) -> None:
    assert (name, where) in told()


def test_a_step_of_a_library_is_told_by_the_line_that_calls_it() -> None:
    found = Location.parse(
        'loc("jit(step)/dot_general"(callsite("Linear.__call__"'
        '("/x/lib/python3.11/site-packages/flax/nnx/nn/linear.py":298:10) at '
        'callsite("Block.__call__"("/home/me/model.py":11:8) at "step"("/home/me/main.py":3:1)))))'
    )
    assert (found.line, found.function) == ("/home/me/model.py:11", "Block.__call__")
    assert (telling_part(found.function), telling_part(found.callee)) == ("Block", "Linear")


def test_where_all_is_a_librarys_the_innermost_frame_is_told() -> None:
    found = Location.parse(
        'loc("jit(f)/add"(callsite("inner"("/a/site-packages/b/c.py":2:1) at '
        '"outer"("/a/site-packages/b/d.py":3:1))))'
    )
    assert (found.line, found.function, found.callee) == ("/a/site-packages/b/c.py:2", "inner", "")


def test_a_location_without_frames_has_no_function() -> None:
    found = Location.parse('loc("jit(f)/add"("a.py":3:8))')
    assert (found.line, found.function) == ("a.py:3", "")


@pytest.mark.parametrize(
    ("label", "scopes", "helper", "equation", "recomputed"),
    [
        ("jit(f)/jvp(Model/Block_3/query)/dot_general", ("Model", "Block_*", "query"), "", "", 0),
        ("jit(f)/transpose(jvp(a))/b,c->d/transpose", ("a",), "", "b,c->d", 0),
        ("jit(f)/jvp(jit(log_softmax))/reduce_max", (), "log_softmax", "", 0),
        ("jit(f)/jvp(jit(_where))/select_n", (), "", "", 0),
        ("jit(f)/transpose(jvp(jvp()))/checkpoint/rematted_computation/mul", (), "", "", 1),
        ("jit(f)/while/body/closed_call/mlp/add", ("mlp",), "", "", 0),
        ("", (), "", "", 0),
    ],
)
def test_name_stacks(
    label: str, scopes: tuple[str, ...], helper: str, equation: str, recomputed: int
) -> None:
    found = NameStack.parse(label)
    assert (found.scopes, found.helper, found.equation) == (scopes, helper, equation)
    assert found.recomputed == bool(recomputed)


@pytest.mark.parametrize(
    ("argument", "short"),
    [
        ("params['layers'][0]['wq']", "wq"),
        ("state.params['Block_0']['up']['kernel']", "up/kernel"),
        ("params['layers'][3]['scale']", "scale"),
        ("model.states[0][12]", ""),
        ("x", "x"),
    ],
)
def test_short_names_of_arguments(argument: str, short: str) -> None:
    assert short_name(argument) == short


def test_named_scopes_come_before_functions_and_recomputed_values_are_said_to_be() -> None:
    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        @jax.checkpoint
        def block(w: jax.Array, x: jax.Array) -> jax.Array:
            with jax.named_scope("gate"):
                return jnp.tanh(x @ w)

        return jax.grad(lambda w: jnp.sum(jnp.tanh(block(w, x) @ w)))(w)

    weight, batch = (jax.ShapeDtypeStruct((n, 64), jnp.float32) for n in (64, 8))
    found = loaded(jax.jit(step).lower(weight, batch).as_text(debug_info=True).encode())
    say = labels_of(found)
    names = {say.name(value) for value in range(found.source.program.values)}
    assert "gate/dot_general with w" in names
    assert "recomputed gate/dot_general with w" in names
