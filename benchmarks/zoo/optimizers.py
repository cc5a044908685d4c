"""The optimizers of optax that models are trained with, at usual settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def optimizer_of(name: str) -> Any:
    """The optimizer of a name; KeyError for another."""
    import optax

    makers: dict[str, Callable[[], Any]] = {
        "sgd": lambda: optax.sgd(0.1),
        "momentum": lambda: optax.chain(
            optax.add_decayed_weights(1e-4), optax.sgd(0.1, 0.9, nesterov=True)
        ),
        "adam": lambda: optax.adam(optax.exponential_decay(1e-3, 1000, 0.9)),
        "adamw": lambda: optax.chain(
            optax.clip_by_global_norm(1.0),
            optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 3e-4, 100, 10_000)),
        ),
        "adafactor": lambda: optax.adafactor(1e-3),
        "lion": lambda: optax.lion(1e-4, weight_decay=0.1),
    }
    return makers[name]()
