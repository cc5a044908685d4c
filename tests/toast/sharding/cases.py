"""Functions of every kind, sharded over 8 virtual devices: `python -m tests.toast.sharding.cases`.

Runs in a process of its own, because the number of devices is fixed at its start. Prints for each
case what it returned, or the error, as one JSON object. Plans are made in this process, which saves
seconds for each.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import toast
from toast.client import JobEvent
from toast.pipeline.plan_module import make_plan
from toast.plans.result import PlanResult
from toast.request.request import PlanRequest
from toast.sharding import planning
from toast.sharding.plan_cache import plans_folder

Case = Callable[[], dict[str, Any]]
CASES: dict[str, Case] = {}
PLANNED: list[PlanRequest] = []
"""The requests for which a plan was made."""
QUICK: dict[str, Any] = {"rollouts": 60, "threads": 1, "cache": False}
EXPLICIT = jax.make_mesh(
    (2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Explicit,) * 2
)
AUTO = Mesh(EXPLICIT.devices, EXPLICIT.axis_names)
RANDOM = np.random.default_rng(0)
W = jnp.asarray(RANDOM.normal(size=(64, 64), scale=0.1), "float32")
X = jnp.asarray(RANDOM.normal(size=(32, 64)), "float32")


def case(function: Case) -> Case:
    """A case under the name of its function."""
    CASES[function.__name__] = function
    return function


def in_this_process(module: bytes, request: PlanRequest, _on_progress: Any = None) -> PlanResult:
    """As `toast.api.plan_module`."""
    PLANNED.append(request)
    return make_plan(module, request)


def difference(expected: Any, actual: Any) -> float:
    """The largest between the arrays of two trees of the same structure."""
    assert jax.tree.structure(expected) == jax.tree.structure(actual)

    def far(left: Any, right: Any) -> float:
        if jnp.issubdtype(getattr(left, "dtype", int), jax.dtypes.prng_key):
            left, right = jax.random.key_data(left), jax.random.key_data(right)
        assert jnp.shape(left) == jnp.shape(right)
        assert jnp.result_type(left) == jnp.result_type(right)
        return float(
            np.abs(np.asarray(left, "float64") - np.asarray(right, "float64")).max(initial=0)
        )

    return max(map(far, jax.tree.leaves(expected), jax.tree.leaves(actual)), default=0.0)


def layout(step: Any, number: int = 0) -> str:
    """The specs of an argument, to see that something is sharded."""
    return str([one.spec for one in jax.tree.leaves(step.in_shardings[number])])


def product(w: jax.Array, x: jax.Array) -> jax.Array:
    """The smallest function that is worth a plan."""
    return jnp.tanh(x @ w)


class State(NamedTuple):
    """What a training loop carries."""

    params: dict[int, jax.Array]
    key: jax.Array
    step: int | jax.Array


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["w", "unused"], meta_fields=["scale"]
)
@dataclass
class Layer:
    """A registered dataclass, one of whose fields is part of the program."""

    w: jax.Array
    unused: jax.Array
    scale: float


def train(state: State, batch: jax.Array) -> tuple[State, dict[str, jax.Array]]:
    """A step with keys of whole numbers, a typed key and a counter that begins as a number."""
    key, drop = jax.random.split(state.key)

    def loss(params: dict[int, jax.Array]) -> jax.Array:
        kept = jax.random.bernoulli(drop, 0.9, batch.shape)
        return jnp.mean((jnp.tanh(batch * kept @ params[3]) @ params[11]) ** 2)

    value, gradient = jax.value_and_grad(loss)(state.params)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, state.params, gradient)
    return State(params, key, state.step + 1), {"loss": value}


def first_state() -> State:
    """The state before training; a copy each time, as a step may take its memory."""
    return State({3: W + 0, 11: W.T + 0}, jax.random.key(7), 0)


@case
def a_training_state_on_an_explicit_mesh() -> dict[str, Any]:
    step = toast.autoshard(train, mesh=EXPLICIT, donate_argnums=0, memory="60KiB", **QUICK)
    state, expected = step.shard(first_state()), first_state()
    for _ in range(3):
        state, metrics = step(state, X)
        expected, wanted = jax.jit(train)(expected, X)
    again = step.shard(first_state())
    specs = step.plan.partition_specs(state)
    return {
        "difference": difference((expected, wanted), (state, metrics)),
        "plans": len(PLANNED),
        "layout": layout(step),
        "names": [tensor.name for tensor in step.plan.arguments],
        "same_layout": all(
            one.sharding.spec == spec
            for one, spec in zip(again.params.values(), specs.params.values(), strict=True)
        ),
        "key_spec": str(specs.key),
        "explicit": "Explicit" in str(state.params[3].sharding.mesh),
        "sum": str(jax.typeof(state.params[3] + 1)),
        "device": step.plan.device,
    }


@case
def a_training_state_in_microbatches() -> dict[str, Any]:
    """Dropout, donation and a counter, with the batch in four parts."""
    step = toast.autoshard(train, mesh=EXPLICIT, donate_argnums=0, microbatches=4, **QUICK)
    state, expected = step.shard(first_state()), first_state()
    for _ in range(3):
        state, metrics = step(state, X)
        expected, wanted = jax.jit(train)(expected, X)
    return {
        "difference": difference((expected, wanted), (state, metrics)),
        "parts": step.plan.time and step.plan.time.microbatches,
    }


@case
def layers_recomputed() -> dict[str, Any]:
    """Unrolled layers, made again in the backward pass."""

    def loss(layers: list[jax.Array], x: jax.Array) -> jax.Array:
        for w in layers:
            x = x + jnp.sin(jnp.tanh(x @ w) @ w.T)
        return jnp.mean(x * x)

    layers = [W * scale for scale in (1.0, 0.5, 0.25)]
    step = toast.autoshard(jax.grad(loss), mesh=AUTO, recompute=["all"], **QUICK)
    made = step(layers, X)
    return {
        "difference": difference(jax.jit(jax.grad(loss))(layers, X), made),
        "layers": step.plan.recompute and [one.layers for one in step.plan.recompute.groups],
    }


@case
def explicit_arrays_under_an_explicit_mesh() -> dict[str, Any]:
    step = toast.autoshard(product, memory="24KiB", **QUICK)
    with jax.set_mesh(EXPLICIT):
        w = jax.device_put(W, PartitionSpec(None, "model"))
        result = step(w, jax.device_put(X, PartitionSpec("data")))
        further = result + 1
    return {
        "difference": difference(product(W, X) + 1, further),
        "mesh": str(step.mesh.axis_types),
        "layout": layout(step),
    }


@case
def the_best_mesh_over_all_devices() -> dict[str, Any]:
    step = toast.autoshard(product, W, X, **QUICK)
    return {
        "difference": difference(product(W, X), step(W, X)),
        "devices": step.mesh.size,
        "asked": PLANNED[-1].mesh,
    }


@case
def one_device() -> dict[str, Any]:
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    step = toast.autoshard(product, W, X, mesh=mesh, **QUICK)
    return {"difference": difference(product(W, X), step(W, X)), "plans": len(PLANNED)}


@case
def a_registered_dataclass_with_an_unused_leaf() -> dict[str, Any]:
    def apply(layer: Layer, x: jax.Array) -> jax.Array:
        return x @ layer.w * layer.scale

    layer = Layer(W, jnp.ones((8, 8)), 3.0)
    step = toast.autoshard(apply, mesh=AUTO, memory="24KiB", **QUICK)
    result = step(layer, X)
    specs = step.plan.partition_specs(layer)
    lowered = toast.plan(jax.jit(apply).lower(layer, X), mesh=AUTO, rollouts=20, threads=1)
    return {
        "difference": difference(apply(layer, X), result),
        "unused": str(specs.unused),
        "scale": specs.scale,
        "of_lowered": str(lowered.plan.partition_specs(layer).unused),
        "device": lowered.plan.device,
    }


@case
def static_and_keyword_arguments() -> dict[str, Any]:
    def apply(power: int, w: jax.Array, x: jax.Array, *, scale: float, mode: str) -> jax.Array:
        return (x @ w) ** power * scale if mode == "product" else x

    jitted = jax.jit(apply, static_argnums=0, static_argnames="mode")
    results = [
        toast.autoshard(apply, static_argnums=0, static_argnames=["mode"], mesh=AUTO, **QUICK),
        toast.autoshard(jitted, mesh=AUTO, **QUICK),
    ]
    far = []
    for step in results:
        for power, mode in ((2, "product"), (3, "product"), (2, "none")):
            expected = apply(power, W, X, scale=2.0, mode=mode)
            far.append(difference(expected, step(power, W, X, scale=2.0, mode=mode)))
    return {
        "difference": max(far),
        "plans": len(PLANNED),
        "static": results[0].in_shardings[0],
        "keywords": list(results[0].keyword_shardings),
    }


@case
def a_jitted_function_keeps_its_donation() -> dict[str, Any]:
    step = toast.autoshard(jax.jit(train, donate_argnums=0), mesh=AUTO, **QUICK)
    step.prepare(first_state(), X)
    state = step.shard(first_state())
    step(state, X)
    return {"deleted": [state.params[3].is_deleted(), X.is_deleted()]}


@case
def constraints_and_shardings_of_a_jitted_function() -> dict[str, Any]:
    def apply(w: jax.Array, x: jax.Array) -> jax.Array:
        hidden = jax.lax.with_sharding_constraint(x @ w, PartitionSpec(None, "data"))
        return hidden @ w

    step = toast.autoshard(apply, mesh=EXPLICIT, **QUICK)
    by_rows = NamedSharding(AUTO, PartitionSpec("model"))
    jitted = toast.autoshard(jax.jit(product, in_shardings=(by_rows, None)), mesh=AUTO, **QUICK)
    return {
        "difference": difference(X @ W @ W, step(W, X)) + difference(product(W, X), jitted(W, X)),
        "pins": [pin.spec for pin in step.plan.pins],
        "jitted": [pin.spec for pin in jitted.plan.pins],
    }


@case
def shard_maps_are_kept() -> dict[str, Any]:
    specs = {
        "in_specs": (PartitionSpec("data", "model"), PartitionSpec("model", None)),
        "out_specs": PartitionSpec("data", None),
    }

    def multiply(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.psum(jax.jit(jnp.matmul)(x, w), "model")

    def loss(w: jax.Array, x: jax.Array, dot: Any) -> jax.Array:
        def layer(carried: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jnp.tanh(dot(carried, w)), None

        last, _ = jax.lax.scan(layer, x, None, length=2)
        return jnp.sum(jax.jit(dot)(last * 2, w) * jax.jit(dot)(x, w)) / x.size

    def sharded(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.value_and_grad(loss)(w, x, jax.shard_map(multiply, **specs))

    def partly(w: jax.Array, x: jax.Array) -> jax.Array:
        some = {"axis_names": {"model"}, "out_specs": PartitionSpec()}
        some["in_specs"] = (PartitionSpec(None, "model"), PartitionSpec("model"))
        return jnp.tanh(jax.shard_map(multiply, **some)(x, w)) @ w

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step = toast.autoshard(sharded, W, X, mesh=EXPLICIT, **QUICK)
        part = toast.autoshard(partly, W, X, mesh=AUTO, **QUICK)
        try:
            here = jax.shard_map(multiply, mesh=AUTO, **specs)
            toast.autoshard(lambda w, x: here(x, w), W, X, mesh="a=2,b=4", **QUICK)
        except toast.ToastError as error:
            refused = str(error)
    expected = jax.value_and_grad(loss)(W, X, jnp.matmul)
    return {
        "difference": difference(expected, step(W, X))
        + difference(jnp.tanh(X @ W) @ W, part(W, X)),
        "warnings": sorted({str(one.message).partition(".")[0] for one in caught}),
        "regions": jax.export.deserialize(bytearray(step.result.module))
        .mlir_module()
        .count("sdy.manual_computation"),
        "refused": refused,
    }


@case
def other_shapes_keep_the_layout() -> dict[str, Any]:
    step = toast.autoshard(product, mesh=EXPLICIT, memory="17KiB", **QUICK)
    first, second = step(W, X), step(W, X[:30])
    return {
        "difference": difference((product(W, X), product(W, X[:30])), (first, second)),
        "layout": layout(step),
        "pins": list(PLANNED[1].pins),
    }


@case
def warnings_of_ours() -> dict[str, Any]:
    found = {}
    big = jnp.ones((64, 1 << 13))
    calls: dict[str, Callable[[], Any]] = {
        "nothing fits": lambda: toast.autoshard(product, W, X, mesh=AUTO, memory="1KiB", **QUICK),
        "unused axis": lambda: toast.autoshard(product, W, X, mesh="data=2,model=3", **QUICK),
        "closed over": lambda: toast.autoshard(lambda x: x @ big, X, mesh=AUTO, **QUICK),
    }
    for name, call in calls.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        ours = [one for one in caught if issubclass(one.category, toast.PlanWarning)]
        found[name] = [
            [one.category.__name__, str(one.message), one.filename == __file__] for one in ours
        ]
    return found


@case
def errors() -> dict[str, Any]:
    def callback(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x[0, 0])
        return x

    def explicit(w: jax.Array, x: jax.Array) -> jax.Array:
        return jax.sharding.reshard(x, PartitionSpec("data")) @ w

    planned = toast.autoshard(product, W, X, mesh=AUTO, **QUICK)
    calls: dict[str, Callable[[], Any]] = {
        "no plan yet": lambda: toast.autoshard(product).plan,
        "a callback": lambda: toast.autoshard(callback, X, mesh=AUTO, **QUICK),
        "explicit axes": lambda: toast.autoshard(explicit, W, X, mesh=EXPLICIT, **QUICK),
        "another tree": lambda: planned.shard({"w": W}),
        "no argument": lambda: planned.plan.partition_specs({"nothing": W}),
        "too many devices": lambda: toast.autoshard(product, W, X, mesh="a=32,b=2", **QUICK),
        "no function": lambda: toast.autoshard(W),
        "no plan in a trace": lambda: jax.eval_shape(toast.autoshard(product, mesh=AUTO), W, X),
        "no client": lambda: toast.autoshard(product, W, X, mesh=AUTO, client=3, **QUICK),
    }
    found = {}
    for name, call in calls.items():
        try:
            call()
        except toast.ToastError as error:
            found[name] = [type(error).__name__, error.message, error.hint]
    return found


@case
def a_plan_is_kept_on_disk() -> dict[str, Any]:
    quick = QUICK | {"cache": True}

    def planned(**changes: Any) -> Any:
        return toast.autoshard(product, W, X, mesh=AUTO, **(quick | changes))

    first = planned()
    second = planned()
    counts = [len(PLANNED)]
    for changes in ({"memory": "24KiB"}, {"device": "tpu-v4"}, {"seed": 1}, {"mesh": "a=2,b=4"}):
        toast.autoshard(product, W, X, **({"mesh": AUTO} | quick | changes))
        counts.append(len(PLANNED))
    toast.autoshard(lambda w, x: product(w, x) * 2, W, X, mesh=AUTO, **quick)
    counts.append(len(PLANNED))
    for entry in plans_folder().iterdir():
        entry.write_bytes(b"not a plan")
    planned()
    return {
        "counts": [*counts, len(PLANNED)],
        "same": first.plan == second.plan,
        "difference": difference(product(W, X), second(W, X)),
    }


class Service:
    """A client of a service that plans here."""

    def __init__(self, url: str = "", key: str | None = None) -> None:
        self.asked = [url, key]
        self._job: tuple[bytes, PlanRequest] | None = None

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        SERVICES.append(self)

    def submit_request(self, module: bytes, request: PlanRequest) -> str:
        self._job = module, request
        return "job"

    def wait(self, _job: str, *, on_event: Any = None) -> None:
        on_event(JobEvent(number=1, kind="progress", data={"stage": "search"}))

    def answer(self, _job: str) -> PlanResult:
        assert self._job is not None
        return make_plan(*self._job)


SERVICES: list[Service] = []


@case
def arrays_of_every_type() -> dict[str, Any]:
    def apply(inputs: dict[str, Any]) -> dict[str, Any]:
        return {
            "whole": inputs["u8"].astype("float32").sum(0),
            "masked": jnp.where(inputs["mask"], inputs["x"], 0),
            "complex": inputs["complex"] * 2,
            "half": inputs["half"] @ inputs["half"].T,
            "wide": inputs["wide"] * 2,
            "same": (inputs["x"], inputs["x"], inputs["empty"]),
            "mode": inputs["mode"],
            "none": None,
            "number": 3,
        }

    inputs = {
        "u8": np.ones((8, 16), "uint8"),
        "mask": np.asarray(X) > 0,
        "x": X,
        "complex": jnp.ones((8, 8), "complex64"),
        "half": jnp.ones((16, 16), "bfloat16"),
        "wide": np.ones(8, "float64"),
        "empty": jnp.zeros((0, 4)),
        "mode": "sum",
    }
    step = toast.autoshard(apply, mesh=AUTO, **QUICK)
    result = step(inputs)
    mode = result.pop("mode")
    del inputs["mode"]
    expected = jax.jit(lambda given: apply(given | {"mode": None}))(inputs)
    del expected["mode"]
    return {
        "difference": difference(jax.tree.map(jnp.abs, expected), jax.tree.map(jnp.abs, result)),
        "mode": mode,
    }


@case
def batches_of_keys() -> dict[str, Any]:
    def apply(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
        noise = jax.vmap(lambda key: jax.random.normal(key, (16,)))(keys)
        return noise, jax.vmap(jax.random.split)(keys)

    keys = jax.random.split(jax.random.key(0, impl="rbg"), 64)
    step = toast.autoshard(apply, keys, mesh=EXPLICIT, **QUICK)
    return {
        "difference": difference(jax.jit(apply)(keys), step(step.shard(keys))),
        "rank": len(step.in_shardings[0].spec),
    }


@case
def within_a_jitted_function() -> dict[str, Any]:
    step = toast.autoshard(product, W, X, mesh=AUTO, **QUICK)
    result = jax.jit(lambda w, x: step(w, x) * 2)(W, X)
    return {"difference": difference(product(W, X) * 2, result)}


@case
def a_service_plans() -> dict[str, Any]:
    events: list[Any] = []
    given = Service()
    step = toast.autoshard(
        product, W, X, mesh=AUTO, client=given, on_progress=events.append, **QUICK
    )
    vars(planning)["Client"] = Service
    os.environ |= {"TOAST_URL": "http://somewhere", "TOAST_API_KEY": "secret"}
    other = toast.autoshard(product, W, X, mesh=AUTO, **QUICK)
    del os.environ["TOAST_URL"]
    return {
        "difference": difference((product(W, X),) * 2, (step(W, X), other(W, X))),
        "events": events,
        "asked": [one.asked for one in SERVICES],
        "here": len(PLANNED),
    }


@case
def names_are_those_of_the_parameters() -> dict[str, Any]:
    def apply(params: dict[str, Any], batch: jax.Array) -> jax.Array:
        return batch @ params["layers"][0]["w"]

    arguments = ({"layers": [{"w": W}]}, X)
    exported = jax.export.export(jax.jit(apply))(*arguments)
    pin = ["params/**=None,model"]
    settings: dict[str, Any] = {"mesh": AUTO, "rollouts": 20, "threads": 1, "pins": pin}
    plans = [
        toast.plan(jax.jit(apply).lower(*arguments), **settings).plan,
        toast.plan(exported, **settings).plan,
        toast.autoshard(apply, *arguments, cache=False, **settings).plan,
    ]
    return {
        "names": [[tensor.name for tensor in plan.arguments] for plan in plans],
        "specs": [plan.arguments[0].spec for plan in plans],
    }


def main() -> None:
    """Run the cases that are named, or all."""
    vars(planning)["plan_module"] = in_this_process
    for name in sys.argv[1:] or list(CASES):
        PLANNED.clear()
        try:
            found = CASES[name]()
        except Exception:
            found = {"error": traceback.format_exc()}
        sys.stdout.write(json.dumps({"case": name, **found}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
