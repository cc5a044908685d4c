"""What is kept of a layer for the backward pass, and what came of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Policy(enum.StrEnum):
    """What the backward pass of a layer does without.

    `keep` leaves a layer as it is. `all` makes everything again from what the layer reads.
    `products` makes again all but the results of products with weights: those cost most to make
    again for their size. A product of two activations, such as the scores of attention, has batch
    dimensions, is large, and is made again.
    """

    KEEP = "keep"
    ALL = "all"
    PRODUCTS = "products"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAccount:
    """What was done to one group of layers.

    `kept_bytes` is what the forward pass of the group keeps for the backward pass, arguments of the
    program left out, `before_bytes` the same in the module as it came in: on all devices together.
    `recomputed` counts the ops that run again, all layers together. `blocked` names ops that cannot
    run twice; what they make is kept.
    """

    name: str
    layers: int
    policy: Policy
    before_bytes: int
    kept_bytes: int
    recomputed: int
    blocked: tuple[str, ...] = ()
