"""`toast.autoshard`, and what it returns."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from toast.analysis.errors import InvalidMesh, InvalidRequest
from toast.plans.plan import Plan
from toast.plans.result import PlanResult
from toast.request.devices import device_of
from toast.request.settings import make_request
from toast.sharding import graphs
from toast.sharding.calls import Call, Place, is_array, take_apart
from toast.sharding.functions import Function, Names, Numbers, describe_function
from toast.sharding.meshes import (
    automatic,
    built_mesh,
    chosen_mesh,
    devices_of,
    explicit,
    slice_count,
)
from toast.sharding.planning import planned
from toast.sharding.running import PlannedCall, place
from toast.sharding.tracing import Traced, trace

_ABSENT = "There is no plan yet."
_AXIS_TYPES = re.compile(r"AxisType|context mesh|Auto axes|Explicit")
_HOW = "Call the function once, or plan with `prepare(*arguments)`: shapes are enough."


def autoshard(  # noqa: PLR0913 - what jax.jit takes, and where to plan
    function: Callable[..., Any],
    *example_arguments: Any,
    mesh: Any = None,
    device: str = "auto",
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers = None,
    donate_argnames: Names = None,
    client: Any = None,
    cache: bool = True,
    **settings: Any,
) -> Sharded:
    """The function with every array of it laid out over a mesh.

    It is planned at its first call, or at once with example arguments; later calls with other
    shapes are planned with the arguments of the first where they were.

    Args:
        function: anything that `jax.jit` takes, or what `jax.jit`, `nnx.jit` or
            `equinox.filter_jit` returned.
        *example_arguments: arrays or `jax.ShapeDtypeStruct`s; only shapes and types are used.
        mesh: a mesh of JAX, or `"data=2,model=4"`, or `"auto:8"`; the current mesh of JAX if
            absent, else the best over `jax.devices()`.
        device: the chip that the plan is priced for; `"auto"` is what the mesh is made of.
        static_argnums: arguments that are part of the program, as `jax.jit` has them.
        static_argnames: the same by name.
        donate_argnums: arguments whose memory the results may take.
        donate_argnames: the same by name.
        client: a `toast.Client` or the URL of a service to plan on; if absent `$TOAST_URL`, else
            a process on this machine.
        cache: whether to keep the plan on disk, and to take it from there.
        **settings: the rest of `toast.plan`'s (memory, pins, seed, rollouts, budget, ...).

    Raises:
        ToastError: as `toast.plan` does. Warns with `toast.PlanWarning`, and with its
            `toast.DoesNotFit` where no plan fits the memory.
    """
    given: Any = function
    if not callable(given):
        kind = type(function).__name__
        raise InvalidRequest(f"The {kind} given is not a function.", "Give what jax.jit takes.")
    described = describe_function(
        function,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
    )
    if settings.get("form") == "collectives":
        raise InvalidRequest(
            "XLA runs no module in the form collectives.", "Give form='local', or leave it out."
        )
    options = settings | {"device": device}
    sharded = Sharded(function, described, mesh=mesh, client=client, cache=cache, settings=options)
    if example_arguments:
        sharded.prepare(*example_arguments)
    return sharded


class Sharded:
    """A function with its plan; call it as the function that it was made from."""

    def __init__(
        self,
        function: Callable[..., Any],
        described: Function,
        *,
        mesh: Any,
        client: Any,
        cache: bool,
        settings: dict[str, Any],
    ) -> None:
        self.__wrapped__ = function
        self.__name__ = described.name
        self.__doc__ = function.__doc__
        self._function = described
        self._mesh, self._client, self._cache = mesh, client, cache
        self._settings = settings
        self._plans: dict[Hashable, PlannedCall] = {}
        self._first: PlannedCall | None = None
        self._lock = threading.RLock()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run one step on the mesh; the first call of its kind plans and compiles it."""
        call = take_apart(self._function, arguments, keywords)
        return self._planned_for(call).run(call)

    def __repr__(self) -> str:
        state = "planned" if self._first else "not planned yet"
        return f"<{self.__name__} sharded by toast, {state}>"

    def prepare(self, *arguments: Any, **keywords: Any) -> Sharded:
        """Plan for these arguments, arrays or `jax.ShapeDtypeStruct`s, without a call."""
        self._planned_for(take_apart(self._function, arguments, keywords))
        return self

    @property
    def plan(self) -> Plan:
        """The plan of the first call."""
        return self.result.plan

    @property
    def result(self) -> PlanResult:
        """The plan of the first call with its sharded module."""
        result = self._made.result
        if result is None:
            raise InvalidRequest(
                "There is no plan: the mesh has one device.", "Shard over two devices or more."
            )
        return result

    @property
    def mesh(self) -> Mesh:
        """The mesh that the function runs on."""
        return self._made.mesh

    @property
    def in_shardings(self) -> tuple[Any, ...]:
        """For each positional argument a tree like it of `NamedSharding`s, None for a static one.

        That of an object of flax.nnx is a state.
        """
        given = self._shardings()
        count = sum(isinstance(place, int) for place in given)
        return tuple(given[number] for number in range(count))

    @property
    def keyword_shardings(self) -> dict[str, Any]:
        """The same for each keyword argument, by name."""
        return {name: tree for name, tree in self._shardings().items() if isinstance(name, str)}

    @property
    def out_shardings(self) -> Any:
        """A tree of `NamedSharding`s like what the function returns."""
        made = self._made
        tree = made.traced.outcome.restore(made.outputs)
        return tree[0] if made.call.nodes else tree

    def shard(self, tree: Any, argument: int | str | None = None) -> Any:
        """An argument laid out over the mesh as the plan has it.

        Its structure and shapes say which one, or `argument` does, a position or a name. An object
        of flax.nnx is changed and returned. Before there is a plan the tree comes back as it is:
        the first call, which plans, lays its arguments out.
        """
        made = self._first
        if made is None:
            return tree
        is_graph = self._function.graph and graphs.holds_nodes(tree)
        value = graphs.states_of({"": tree})[""] if is_graph else tree
        shardings = _of_argument(made.call, made.inputs)[self._number(made.call, value, argument)]
        placed = jax.tree.map(_put, value, shardings)
        if not is_graph:
            return placed
        graphs.update({"": tree}, {"": placed})
        return tree

    @property
    def _made(self) -> PlannedCall:
        if self._first is None:
            raise InvalidRequest(_ABSENT, _HOW)
        return self._first

    def _shardings(self) -> dict[Place, Any]:
        made = self._made
        given: dict[Place, Any] = dict.fromkeys(made.call.constants)
        trees = _of_argument(made.call, made.inputs)
        return given | {
            one.place: tree for one, tree in zip(made.call.arguments, trees, strict=True)
        }

    def _number(self, call: Call, value: Any, argument: int | str | None) -> int:
        """Which argument of the planned call a value is."""
        names = ", ".join(one.name for one in call.arguments)
        for number, one in enumerate(call.arguments):
            if argument is not None and argument in (one.name, one.place):
                return number
            if argument is None and _alike(one.value, value):
                return number
        raise InvalidRequest(
            "The tree is no argument of the planned function."
            if argument is None
            else f"The planned function has no argument {argument!r}.",
            f"Its arguments: {names}. Give one as the function takes it.",
        )

    def _planned_for(self, call: Call) -> PlannedCall:
        key = call.key()
        found = self._plans.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in self._plans:
                self._plans[key] = self._plan(call)
                self._first = self._first or self._plans[key]
            return self._plans[key]

    def _plan(self, call: Call) -> PlannedCall:
        if call.within_trace():
            raise InvalidRequest(
                f"{self.__name__} is called within a function that JAX traces, and has no plan.",
                "Plan before, with `prepare(*arguments)`: shapes are enough.",
            )
        first, settings = self._first, dict(self._settings)
        mesh, text = chosen_mesh(self._mesh if first is None else first.mesh)
        devices = devices_of(mesh, text)
        device = device_of(devices) if settings["device"] == "auto" else settings["device"]
        on_progress = settings.pop("on_progress", None)
        traced = _traced(call, mesh, devices[0].platform)
        if len(devices) == 1:
            return PlannedCall.of(call, traced, None, mesh or _one())
        if first is not None:
            settings["pins"] = (*settings.get("pins", ()), *_as_before(first, traced))
        for name in ("pins", "forbid", "decisions"):
            if settings.get(name) is not None:
                settings[name] = tuple(settings[name])
        if mesh is None and "@" not in text and (count := slice_count(devices)) > 1:
            settings.setdefault("slices", count)
        asked = text if mesh is None or "@" in text else mesh
        request = make_request(**(settings | {"mesh": asked, "device": device}))
        result = planned(
            traced,
            request,
            client=self._client,
            cached=self._cache,
            on_progress=on_progress,
        )
        return PlannedCall.of(call, traced, result, mesh or built_mesh(result.plan.mesh))


def _put(leaf: Any, sharding: NamedSharding) -> Any:
    """A leaf laid out, where it is an array; JAX takes numbers as they are."""
    if isinstance(leaf, jax.Array):
        return place(leaf, sharding)
    return jax.device_put(leaf, sharding) if is_array(leaf) else leaf


def _traced(call: Call, mesh: Mesh | None, platform: str) -> Traced:
    """The program of a call.

    It is traced without a mesh, where JAX says which result takes the memory of which argument; or,
    where constraints name axes alone, with the mesh that is given.
    """
    if jax.sharding.get_mesh().empty:
        try:
            return trace(call, None, platform)
        except (RuntimeError, ValueError):
            if mesh is None:
                raise
    try:
        return trace(call, None if mesh is None else automatic(mesh), platform)
    except ValueError as error:
        if not explicit(mesh) or not _AXIS_TYPES.search(str(error)):
            raise
        raise InvalidMesh(
            f"The function works with explicit axes, which a plan decides: {error}.",
            "Take jax.sharding.reshard, out_sharding= and meshes with explicit axes out of it.",
        ) from error


def _one() -> Mesh:
    return Mesh(jax.devices()[:1], ("d0",))


def _of_argument(call: Call, shardings: list[NamedSharding]) -> list[Any]:
    """For each argument a tree like it of shardings; what is no array is whole."""
    whole = NamedSharding(shardings[0].mesh, PartitionSpec()) if shardings else None
    return call.values_with(shardings, static=whole)


def _alike(one: Any, other: Any) -> bool:
    left, right = jax.tree.leaves(one), jax.tree.leaves(other)
    return jax.tree.structure(one) == jax.tree.structure(other) and all(
        getattr(a, "shape", ()) == getattr(b, "shape", ()) for a, b in zip(left, right, strict=True)
    )


def _as_before(first: PlannedCall, traced: Traced) -> list[str]:
    """Pins that keep arguments where the first plan has them."""
    plan = first.result.plan if first.result is not None else None
    before = {tensor.name: tensor for tensor in plan.arguments} if plan is not None else {}
    pins = []
    for name, number in zip(traced.names, traced.in_order_of_program(), strict=True):
        tensor, spec = before.get(name), traced.inputs[number].spec
        if tensor is not None and tuple(tensor.shape) == getattr(spec, "shape", ()):
            entries = ("+".join(axes) or "None" for axes in tensor.spec)
            pins.append(f"{name}={','.join(entries)}")
    return pins
