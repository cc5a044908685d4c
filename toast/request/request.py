"""What a caller asks of the planner, as one record that travels between processes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

FormName = Literal["flat", "annotated", "closed", "collectives", "local"]
"""How a plan is written into its module (docs/forms.md)."""

Accumulate = Literal["program", "f32"]
"""In which type sums over the microbatches are kept: the program's own, or at least f32."""
GROUP_POLICIES = ("keep", "all", "products")
"""What the backward pass makes again of a group of layers: nothing, all, all but products."""
POLICIES = ("none", "all", "products", "auto")
POLICY_WORDS = "none, all, products, auto, or GROUP=keep, GROUP=all, GROUP=products"
MOST_MICROBATCHES = 65_536
CONFIRM_PLANS, CONFIRM_SECONDS = 4, 1800.0
"""How many plans are compiled, and how long that may take, where nobody says otherwise."""


class PlanRequest(BaseModel):
    """The settings of one planning job; the module travels beside it as bytes.

    `pins` are `PATTERN=axis,None,...`: the layout that matching arguments must have; `forbid` are
    `PATTERN=axis,...`: axes that they must not be sharded over.

    `mesh` is `name=size` pairs separated by commas, each with the networks that it lies over or
    none (`data=2@infiniband,model=4`); `slices` how many slices of TPUs or nodes of GPUs its
    devices are in: which axes cross between them is then chosen; `device` a name of the catalogue
    or the path of a device file, which the service refuses; `memory` bytes per device (the chip's
    own when absent); `budget` seconds of search; `threads` 0 means one per core. `penalty` is
    C of the reward, what bytes above the memory weigh against time; `overlap` (0 to 1) the part of
    the communication that can hide behind computation. `prove` asks for a lower bound on the cost
    of every plan; `decisions` (`COLOUR=axis` or `COLOUR=axis:bits`, as `choices` of a plan has
    them) for the plan that they make, without a search. `refine` asks for refinements below the
    colour level after all that; a bound does not hold for those, so not for `prove` too. `advice`
    asks, where nothing fits, what would: for some seconds more. `without`
    names passes that the compiler is taken not to do, for developers (`costmodel/passes/registry`).
    `form` is that of the sharded module: if absent flat, or annotated where a program has so many
    ops that inlined calls would fill the memory; `target_version` the version of StableHLO that a
    portable artifact or a `jax.export` artifact is written for, the newest when absent.

    `searches` asks for so many searches with seeds from `seed` on, of which the best plan is taken:
    at once on a cluster, where the service has one, else one after another within the budget.

    `confirm` asks for so many plans to be compiled with the compiler of the chips, which has to be
    installed, and for the best of those and of the controls to be taken; `confirm_time` is how many
    seconds compiling may take, `CONFIRM_SECONDS` when absent.

    `microbatches` are the parts in which the batch runs one after the other: a number, or `auto`
    for what is fastest among those that fit; `fit` asks for that only where no layout fits.
    `batch` names the batch as `ARGUMENT:DIMENSION`, which is found when absent; `accumulate` the
    type that sums over the parts are kept in: that of the program, or f32 for narrower floats.

    `recompute` says which layers the backward pass makes again: `none`, `all`, `products`, `auto`
    for all groups of layers, or `GROUP=POLICY` for one of them; `fit` looks at that too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mesh: str
    slices: int | None = Field(default=None, ge=1, le=1 << 16)
    device: str = "tpu-v5e"
    memory: int | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0, lt=2**63)
    searches: int = Field(default=1, ge=1, le=64)
    rollouts: int | None = Field(default=None, ge=1, le=100_000_000)
    budget: float | None = Field(default=None, gt=0, le=86_400)
    threads: int = Field(default=0, ge=0, le=256)
    planner: str = "mcts"
    penalty: float | None = Field(default=None, gt=0, le=1e9, allow_inf_nan=False)
    overlap: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    pins: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    prove: bool = False
    decisions: tuple[str, ...] | None = None
    refine: bool = False
    advice: bool = True
    without: tuple[str, ...] = Field(default=(), max_length=32)
    form: FormName | None = None
    target_version: str | None = Field(default=None, pattern=r"^\d{1,4}\.\d{1,4}\.\d{1,4}$")
    confirm: int | None = Field(default=None, ge=1, le=32)
    confirm_time: float | None = Field(default=None, gt=0, le=86_400)
    microbatches: int | Literal["auto"] | None = Field(default=None)
    batch: str | None = Field(default=None, max_length=1000)
    accumulate: Accumulate = "program"
    recompute: tuple[Annotated[str, Field(max_length=1000)], ...] = Field(default=(), max_length=64)
    fit: bool = False

    @field_validator("recompute")
    @classmethod
    def _known_policies(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            _, equals, policy = one.rpartition("=")
            if policy not in (GROUP_POLICIES if equals else POLICIES):
                raise ValueError(f"{one!r} should be {POLICY_WORDS}")
        return value

    @field_validator("microbatches")
    @classmethod
    def _some_microbatches(cls, value: int | str | None) -> int | str | None:
        if isinstance(value, int) and not 1 <= value <= MOST_MICROBATCHES:
            raise ValueError(f"should be 1 to {MOST_MICROBATCHES}, or auto")
        return value
