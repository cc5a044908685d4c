"""Functions of `haiku`: called with `train`, and the inputs by their names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import haiku as hk
import jax

from benchmarks.zoo.families.rows import Inputs, Made
from benchmarks.zoo.variant import Variant
from examples.libraries.common import Tree, key


def make(kind: Any, settings: Mapping[str, Any], inputs: Inputs, variant: Variant) -> Made:
    """The parameters and the state of a transformed function, and its call."""
    del variant

    def called(train: bool, **inputs: Any) -> Tree:
        return kind(**settings)(train, **inputs)

    transformed = hk.transform_with_state(called)
    params, state = jax.eval_shape(
        lambda key, inputs: transformed.init(key, train=True, **inputs), key(), dict(inputs)
    )

    def apply(variables: Tree, inputs: Tree, dropout: jax.Array | None) -> tuple[Tree, Tree]:
        call = partial(transformed.apply, variables["params"], variables["state"], dropout)
        outputs, state = call(train=dropout is not None, **inputs)
        return outputs, {"state": state}

    return Made(variables={"params": params, "state": state}, apply=apply)
