"""What is done with a model: trained by some optimizer, asked, filled with a prompt, or decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

Kind = Literal["train", "infer", "prefill", "decode"]
KINDS: tuple[Kind, ...] = ("train", "infer", "prefill", "decode")
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "adafactor", "lion")
POLICIES = (
    "everything_saveable",
    "nothing_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "save_only_these_names",
    "save_anything_except_these_names",
)
"""Of `jax.checkpoint_policies`; the last two are about the names in `families.linen_text`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One use of a model.

    `bf16` computes in that type (training keeps f32 weights), `policy` is what a checkpoint of each
    layer saves, `deep` has all layers of the published model.
    """

    kind: Kind
    optimizer: str = ""
    bf16: bool = False
    policy: str = ""
    deep: bool = False

    def __str__(self) -> str:
        words = (self.kind, self.optimizer, "bf16" * self.bf16, self.policy, "deep" * self.deep)
        return "-".join(word for word in words if word)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The variant that a name means; ValueError for one that means none."""
        kind, *words = text.split("-")
        known = next((one for one in KINDS if one == kind), None)
        if known is None:
            raise ValueError(f"{kind!r} is no kind of program")
        optimizer = next((word for word in words if word in OPTIMIZERS), "")
        policy = next((word for word in words if word in POLICIES), "")
        found = cls(
            kind=known,
            optimizer=optimizer,
            bf16="bf16" in words,
            policy=policy,
            deep="deep" in words,
        )
        if str(found) != text:
            raise ValueError(f"{text!r} is no variant; it may be {str(found)!r}")
        return found
