"""`toast.autoshard`: from a function to the same function, sharded, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from toast.api import plan
from toast.plans.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharded:
    """A sharded function with its plan; call it as the function it was made from.

    `in_shardings` and `out_shardings` are trees of `NamedSharding` in the form of the arguments
    `(args, kwargs)` and of the results: lay data out with them before the first call.
    """

    function: Callable[..., Any]
    plan: Plan
    in_shardings: Any
    out_shardings: Any

    def __call__(self, *arguments: Any) -> Any:
        """Run one step on the mesh."""
        return self.function(*arguments)


def autoshard(
    function: Callable[..., Any],
    *example_arguments: Any,
    mesh: jax.sharding.Mesh,
    device: str = "tpu-v5e",
    donate_argnums: int | Sequence[int] = (),
    **settings: Any,
) -> Sharded:
    """Lower `function`, plan it for `mesh`, and return it jitted with the plan's shardings.

    Args:
        function: anything that `jax.jit` takes; a jitted function is taken as it is.
        *example_arguments: arrays or `jax.ShapeDtypeStruct`s; only shapes and types are used.
        mesh: the devices to run on.
        device: the chip that the plan is priced for.
        donate_argnums: arguments whose memory the results may take.
        **settings: the rest of `toast.plan`'s (memory, seed, rollouts, budget, ...).

    Raises:
        ToastError: as `toast.plan` does.
    """
    jitted = jax.jit(function, donate_argnums=donate_argnums)
    platform = mesh.devices.flat[0].platform
    exported = jax.export.export(jitted, platforms=[platform])(*example_arguments)
    result = plan(exported, mesh=mesh, device=device, **settings)
    sharded = jax.export.deserialize(bytearray(result.module))
    arguments, keywords = jax.tree.unflatten(sharded.in_tree, sharded.in_shardings_jax(mesh))
    outputs = jax.tree.unflatten(sharded.out_tree, sharded.out_shardings_jax(mesh))
    call = jax.jit(
        sharded.call,
        in_shardings=tuple(arguments),
        out_shardings=outputs,
        donate_argnums=donate_argnums,
    )
    return Sharded(
        function=call,
        plan=result.plan,
        in_shardings=(tuple(arguments), keywords),
        out_shardings=outputs,
    )
