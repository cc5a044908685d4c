"""From one device to a planned flax.nnx transformer: the cells of docs/tutorial.md, in order.

python examples/tutorial.py

`python -m tools.tutorial` writes the cells and what they print into the page.
"""

from __future__ import annotations

# %% imports
import os

# Before jax is imported: eight virtual devices, where there are no real ones.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx
from jax.extend.backend import get_backend, get_compile_options
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import toast

# %% model
VOCABULARY, BATCH, LENGTH = 512, 16, 64


class Block(nnx.Module):
    """Attention and an MLP, each behind a norm."""

    def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.mlp_norm = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[batch, length, width] to the same."""
        mask = nnx.make_causal_mask(jnp.ones(x.shape[:2]))
        x = x + self.attention(self.norm(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.mlp_norm(x))))


class Transformer(nnx.Module):
    """Token ids [batch, length] to logits [batch, length, vocabulary]."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        rngs = nnx.Rngs(0)
        self.embed = nnx.Embed(VOCABULARY, width, rngs=rngs)
        self.blocks = nnx.List([Block(width, heads, rngs) for _ in range(layers)])
        self.norm = nnx.LayerNorm(width, rngs=rngs)

    def __call__(self, ids: jax.Array) -> jax.Array:
        """Logits of the token after each."""
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.embed.attend(self.norm(x))


def make(width: int = 256, heads: int = 8, layers: int = 2) -> tuple[Transformer, nnx.Optimizer]:
    """A model and its optimizer before training."""
    model = Transformer(width, heads, layers)
    return model, nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)


def train_step(model: Transformer, optimizer: nnx.Optimizer, ids: jax.Array) -> jax.Array:
    """One step of Adam, which changes the model and the optimizer; returns the loss."""

    def loss_of(model: Transformer) -> jax.Array:
        losses = optax.softmax_cross_entropy_with_integer_labels(model(ids[:, :-1]), ids[:, 1:])
        return losses.mean()

    loss, gradients = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradients)
    return loss


def batch(number: int) -> np.ndarray:
    """Batch `number`: each row counts upwards from a random token."""
    first = np.random.default_rng(number).integers(0, VOCABULARY, (BATCH, 1))
    return ((first + np.arange(LENGTH + 1)) % VOCABULARY).astype("int32")


# %% one-device
model, optimizer = make()
step = nnx.jit(train_step, donate_argnums=(0, 1))
for number in range(1, 16):
    loss = step(model, optimizer, batch(number))
    if number % 5 == 0:
        print(f"step {number}: loss {loss:.2f}")

# %% eight-devices
model, optimizer = make()
step = toast.autoshard(train_step, donate_argnums=(0, 1), threads=1)
for number in range(1, 16):
    loss = step(model, optimizer, batch(number))
    if number % 5 == 0:
        print(f"step {number}: loss {loss:.2f}")

# %% where
kernel = model.blocks[0].up.kernel
print("the mesh:", dict(step.mesh.shape))
print("the kernel:", kernel.shape, kernel.sharding.spec)
print("on each device:", kernel.sharding.shard_shape(kernel.shape))

# %% table
mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
settings = {"mesh": mesh, "device": "tpu-v5e", "donate_argnums": (0, 1), "threads": 1}
shapes = nnx.eval_shape(make)  # the model and the optimizer without arrays
step = toast.autoshard(train_step, *shapes, batch(0), **settings)
print(step.plan)

# %% figures
plan = step.plan
print(f"{plan.predicted.step_seconds * 1e6:.0f} us, {plan.predicted.peak_bytes / 2**20:.1f} MiB")
for row in plan.collectives:
    print(f"{row.count} {row.kind} over {row.axes}: {row.bytes / 2**20:.1f} MiB")

# %% specs
print(plan.partition_specs({"ids": batch(0)}))
specs = nnx.to_pure_dict(plan.partition_specs(nnx.state(shapes[0])))
print(specs["blocks"][0]["up"])

# %% choices
for number, choice in enumerate(plan.choices, 1):
    mib = choice.peak_bytes / 2**20
    print(f"{number}: {choice.step_seconds * 1e6:.0f} us, {mib:.1f} MiB")

# %% memory
step = toast.autoshard(train_step, *shapes, batch(0), memory="12MiB", **settings)
cost = step.plan.predicted
print(f"{cost.step_seconds * 1e6:.0f} us, {cost.peak_bytes / 2**20:.1f} MiB, fits: {cost.fits}")
specs = nnx.to_pure_dict(step.plan.partition_specs(nnx.state(shapes[0])))
print(specs["blocks"][0]["up"])

# %% does-not-fit
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    toast.autoshard(train_step, *shapes, batch(0), memory="2MiB", advice=False, **settings)
print(f"{caught[0].category.__name__}: {caught[0].message}")

# %% pins
pins = ["ids=data", "blocks/*/up/kernel=None,model", "blocks/*/down/kernel=model,None"]
step = toast.autoshard(train_step, *shapes, batch(0), pins=pins, **settings)
model_specs, optimizer_specs = (
    nnx.to_pure_dict(step.plan.partition_specs(nnx.state(each))) for each in shapes
)
print("model:", model_specs["blocks"][0]["down"]["kernel"])
print("Adam:", optimizer_specs["opt_state"][0]["mu"]["blocks"][0]["down"]["kernel"])

# %% large
large = nnx.eval_shape(lambda: make(width=4096, heads=32, layers=8))
tokens = jax.ShapeDtypeStruct((256, 1025), jnp.int32)
lowered = nnx.jit(train_step, donate_argnums=(0, 1)).lower(*large, tokens)
result = toast.plan(lowered, mesh="data=16,model=16", device="tpu-v5e", threads=1)
for name, cost in [
    ("this plan", result.plan.predicted),
    ("data parallel", result.plan.baselines[0]),
]:
    gib = cost.peak_bytes / 2**30
    print(f"{name}: {cost.step_seconds * 1e3:.0f} ms, {gib:.1f} GiB, fits: {cost.fits}")

# %% made-there
step = toast.autoshard(train_step, *shapes, batch(0), memory="12MiB", **settings)


def make_states() -> tuple[nnx.State, nnx.State]:
    """The arrays of a new model and its optimizer."""
    model, optimizer = make()
    return nnx.state(model), nnx.state(optimizer)


states = jax.jit(make_states, out_shardings=step.in_shardings[:2])()
model, optimizer = nnx.eval_shape(make)
nnx.update(model, states[0])
nnx.update(optimizer, states[1])
print(model.blocks[0].up.kernel.sharding.spec)

# %% moved-there
model, optimizer = make()
step.shard(model)
step.shard(optimizer)
print(model.blocks[0].up.kernel.sharding.spec)

# %% save
for number in range(1, 4):
    loss = step(model, optimizer, batch(number))
folder = Path("checkpoint").absolute()
states = {"model": nnx.state(model), "optimizer": nnx.state(optimizer)}
with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(folder, states, force=True)
print(f"loss {step(model, optimizer, batch(4)):.2f}")

# %% restore
other = toast.autoshard(train_step, *shapes, batch(0), memory="8MiB", **settings)
wanted = jax.tree.map(
    lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
    {"model": nnx.state(shapes[0]), "optimizer": nnx.state(shapes[1])},
    {"model": other.in_shardings[0], "optimizer": other.in_shardings[1]},
)
with ocp.StandardCheckpointer() as checkpointer:
    states = checkpointer.restore(folder, wanted)
model, optimizer = nnx.eval_shape(make)
nnx.update(model, states["model"])
nnx.update(optimizer, states["optimizer"])
print(model.embed.embedding.sharding.spec)
print(f"loss {other(model, optimizer, batch(4)):.2f}")

# %% local-data
layout = step.in_shardings[2]
rows = batch(5)  # with several processes: the rows of this process
ids = jax.make_array_from_process_local_data(layout, rows)
print(ids.shape, ids.sharding.spec)

# %% callback
rows = batch(5)
ids = jax.make_array_from_callback(rows.shape, layout, lambda index: rows[index])
print(f"loss {step(model, optimizer, ids):.2f}")

# %% exported
graph, state = nnx.split(model)
arrays, tree = jax.tree.flatten(state)


def logits(arrays: list[jax.Array], ids: jax.typing.ArrayLike) -> jax.Array:
    """What the model says, for `jax.export`, which keeps lists and dicts alone."""
    return nnx.merge(graph, jax.tree.unflatten(tree, arrays))(ids)


exported = jax.export.export(jax.jit(logits))(arrays, rows)
result = toast.plan(exported, mesh=mesh, device="tpu-v5e", memory="4MiB", threads=1)
Path("logits.jax_export").write_bytes(result.module)

# %% call-exported
sharded = jax.export.deserialize(bytearray(Path("logits.jax_export").read_bytes()))
shardings, _ = jax.tree.unflatten(sharded.in_tree, sharded.in_shardings_jax(mesh))
call = jax.jit(sharded.call, in_shardings=shardings)
found = call(arrays, rows)
print(found.sharding.spec)
np.testing.assert_allclose(found, logits(arrays, rows), rtol=1e-3, atol=1e-3)

# %% text
text = jax.jit(logits).lower(arrays, rows).as_text(debug_info=True)
Path("logits.mlir").write_text(text)
result = toast.plan("logits.mlir", mesh=mesh, device="tpu-v5e", memory="4MiB", threads=1)
options = get_compile_options(num_replicas=1, num_partitions=mesh.size)
program = get_backend().compile_and_load(result.module, list(mesh.devices.flat), options)

# %% run-text
plan = result.plan
named = {"arrays": arrays, "ids": rows}
shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), plan.partition_specs(named))
given = jax.tree.leaves(jax.device_put(named, shardings))
pieces = program.execute_sharded(given).disassemble_into_single_device_arrays()[0]

spec = PartitionSpec(*(tuple(axes) or None for axes in plan.results[0].spec))
shape = tuple(plan.results[0].shape)
found = jax.make_array_from_single_device_arrays(shape, NamedSharding(mesh, spec), pieces)
print(found.shape, found.sharding.spec)
np.testing.assert_allclose(found, logits(arrays, rows), rtol=1e-3, atol=1e-3)
