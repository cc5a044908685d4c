"""The exported program of a call: containers of arrays in, containers of arrays out."""

from __future__ import annotations

import hashlib
import inspect
import keyword
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh

from toast.analysis.errors import UnsupportedModule
from toast.costmodel.hardware.quantities import format_bytes
from toast.plans.notices import ClosedOverArrays, notify
from toast.sharding import graphs
from toast.sharding.calls import SCALARS, Call
from toast.sharding.containers import Containers

LARGE_BYTES = 1 << 20
"""Arrays that a function closes over are part of the program; above this they are reported."""
_FILE = re.compile(r'"([^"\n]+)":\d+:\d+')
_LOCATION = re.compile(r'^#loc.*\n| loc\((?:[^()"\n]|"(?:[^"\\\n]|\\.)*")*\)', re.MULTILINE)
_TARGETS = re.compile(r"targets have no compatibility guarantees:\s*(.+?)\.\s", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array as the program has it: a typed key is its data, `key` the way back."""

    spec: Any
    key: Any = None

    @classmethod
    def of(cls, leaf: Any) -> Leaf:
        """The leaf of an array, of what stands for one, or of a number."""
        if isinstance(leaf, SCALARS):
            return cls(leaf)
        dtype = leaf.dtype
        spec = jax.ShapeDtypeStruct(
            leaf.shape, dtype, weak_type=bool(getattr(leaf, "weak_type", False))
        )
        if not jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
            return cls(spec)
        kinds: list[Any] = []

        def data_of(key: Any) -> Any:
            kinds.append(jax.random.key_impl(key))
            return jax.random.key_data(key)

        return cls(jax.eval_shape(data_of, spec), kinds[0])

    def enter(self, array: Any) -> Any:
        """The array for the program."""
        return array if self.key is None else jax.random.key_data(array)

    def leave(self, array: Any) -> Any:
        """The program's array for people."""
        if self.key is not None:
            return jax.random.wrap_key_data(array, impl=self.key)
        return _weakly_typed(array) if getattr(self.spec, "weak_type", False) else array

    @property
    def rank(self) -> int:
        """The rank that people see."""
        return len(getattr(self.spec, "shape", ())) - (self.key is not None)


def _weakly_typed(array: Any) -> Any:
    """As the function's own result: an export forgets which types were those of plain numbers.

    The next step takes the array for what it is, so a counter that began as `0` would be planned
    for twice.
    """
    try:
        from jax._src.lax.lax import _convert_element_type
    except ImportError:  # another version of JAX: it is planned for twice
        return array
    return _convert_element_type(array, weak_type=True)


@dataclass(slots=True)
class TraceOutcome:
    """What a call returns: a tree of arrays and of static values, by leaf."""

    tree: Any
    static: list[tuple[bool, Any]]
    leaves: list[Leaf]
    containers: Containers

    def numbered(self) -> Any:
        """The tree of results with the number of each array, and without what is static."""
        numbers = iter(range(len(self.leaves)))
        values = [None if static else next(numbers) for static, _ in self.static]
        return jax.tree.unflatten(self.tree, values)

    def restore(self, arrays: Sequence[Any]) -> Any:
        """The results with these arrays, of which there is one for each leaf that is no static."""
        remaining = iter(arrays)
        values = [value if static else next(remaining) for static, value in self.static]
        return jax.tree.unflatten(self.tree, values)


@dataclass(frozen=True, slots=True)
class LoweredProgram:
    """A lowered program, which is exported where there is no plan of it yet."""

    text: str
    export: Callable[[], jax.export.Exported]


@dataclass(frozen=True, slots=True)
class Traced:
    """A program and how the arrays of a call go in and come out."""

    program: LoweredProgram
    inputs: list[Leaf]
    names: list[str]
    containers: list[Containers]
    splits: list[int]
    outcome: TraceOutcome

    def pack(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays of a call as the arguments of the program."""
        ends = [sum(self.splits[: number + 1]) for number in range(len(self.splits))]
        return [
            one.pack(arrays[end - count : end])
            for one, count, end in zip(self.containers, self.splits, ends, strict=True)
        ]

    def identity(self) -> bytes:
        """The same for programs that are the same, whoever calls them.

        Locations name the callers too, so of those only the files count, with their times: an
        explanation of a plan has lines of the source.
        """
        text = self.program.text
        files = sorted(set(_FILE.findall(text)))
        sources = [f"{file} {_changed(file)}" for file in files]
        bare = _LOCATION.sub("", text)
        return hashlib.sha256("\n".join([bare, *self.names, *sources]).encode()).digest()

    def in_order_of_program(self) -> list[int]:
        """The numbers of the inputs in the order of the program's arguments."""
        found: list[int] = []
        for one in self.containers:
            start = len(found)
            found += [start + index for index in one.order]
        return found

    def in_order(self, items: Sequence[Any]) -> list[Any]:
        """What came in the order of the program's arguments, in that of the call's arrays."""
        found: list[Any] = []
        for one, count in zip(self.containers, self.splits, strict=True):
            start = len(found)
            found += one.restore(items[start : start + count])
        return found


def _changed(file: str) -> int:
    try:
        return Path(file).stat().st_mtime_ns
    except OSError:
        return 0


def trace(call: Call, mesh: Mesh | None, platform: str) -> Traced:
    """Export what `call` does for devices of `platform`; nothing is run."""
    inputs = [Leaf.of(leaf) for leaf in call.arrays]
    paths = _paths(call)
    counts = [len(found) for found in paths]
    containers = [Containers.of(found) for found in paths]
    parameters = _parameters([one.name for one in call.arguments])
    made: list[TraceOutcome] = []

    def program(*packed: Any) -> Any:
        arrays: list[Any] = []
        for one, argument in zip(containers, packed, strict=True):
            arrays += one.unpack(argument)
        arrays = [leaf.leave(array) for leaf, array in zip(inputs, arrays, strict=True)]
        positional, keywords, nodes = call.arguments_with(arrays)
        result = call.function.call(*positional, **keywords)
        outcome, results = _outcome((result, graphs.states_of(nodes)) if nodes else result, call)
        made.append(outcome)
        return results

    program.__name__ = program.__qualname__ = call.function.name
    program.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    donated = [n for n, one in enumerate(call.arguments) if one.name in call.function.donated]
    jitted = jax.jit(program, donate_argnums=tuple(donated), keep_unused=True)
    shell = Traced(None, inputs, [], containers, counts, None)  # type: ignore[arg-type]
    packed = shell.pack([leaf.spec for leaf in inputs])
    with _current(mesh), warnings.catch_warnings():
        # Whether memory can be shared is seen when the planned program is compiled.
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        stage = jitted.trace(*packed)
        _report_closed_over(stage.jaxpr.consts, call.function.name)
        lowered = stage.lower(lowering_platforms=(platform,))

    def export() -> jax.export.Exported:
        with _current(mesh), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            return _export(jitted, packed, platform)

    names = [name for parameter, one in zip(parameters, packed, strict=True) for name in
             _leaf_names(parameter.name, one)]  # fmt: skip
    lowered_program = LoweredProgram(lowered.as_text(debug_info=True), export)
    return Traced(lowered_program, inputs, names, containers, counts, made[-1])


def _current(mesh: Mesh | None) -> AbstractContextManager[Any]:
    """Constraints of a function may name axes alone: those of the mesh."""
    return nullcontext() if mesh is None or mesh.size == 1 else jax.set_mesh(mesh)


def _paths(call: Call) -> list[list[Any]]:
    """For each argument the paths of its arrays."""
    found: list[list[Any]] = [[] for _ in call.arguments]
    tree = jax.tree.unflatten(call.tree, range(len(call.leaves)))
    for path, index in jax.tree_util.tree_leaves_with_path(tree):
        if call.dynamic[index]:
            found[path[0].idx].append(path[1:])
    return found


def _leaf_names(parameter: str, packed: Any) -> list[str]:
    leaves = jax.tree_util.tree_leaves_with_path(packed)
    return [f"{parameter}{jax.tree_util.keystr(path)}" for path, _ in leaves]


def _parameters(names: Sequence[str]) -> list[inspect.Parameter]:
    found: list[str] = []
    for number, name in enumerate(names):
        fits = name.isidentifier() and not keyword.iskeyword(name) and name not in found
        found.append(name if fits else f"arg{number}")
    return [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in found]


def _outcome(result: Any, call: Call) -> tuple[TraceOutcome, Any]:
    """How the results of a call are put together, and their arrays in containers."""
    found = jax.tree_util.tree_leaves_with_path(result)
    static: list[tuple[bool, Any]] = []
    paths, arrays, leaves = [], [], []
    for path, given in found:
        counts = isinstance(given, SCALARS) and not call.function.scalars_static
        leaf = jax.numpy.asarray(given) if counts else given
        array = hasattr(leaf, "dtype")
        static.append((not array, None if array else leaf))
        if array:
            paths.append(path)
            leaves.append(Leaf.of(leaf))
            arrays.append(leaves[-1].enter(leaf))
    containers = Containers.of(paths)
    outcome = TraceOutcome(jax.tree.structure(result), static, leaves, containers)
    return outcome, containers.pack(arrays)


def _report_closed_over(constants: Sequence[Any], name: str) -> None:
    sizes = sorted((int(getattr(one, "nbytes", 0)) for one in constants), reverse=True)
    total = sum(sizes)
    if total < LARGE_BYTES:
        return
    notify(
        f"{name} closes over {len(sizes)} array{'s' * (len(sizes) > 1)} of {format_bytes(total)}, "
        f"the largest of {format_bytes(sizes[0])}: every device holds all of it. Pass arrays as "
        "arguments, which are laid out.",
        ClosedOverArrays,
    )


def _export(jitted: Any, packed: Sequence[Any], platform: str) -> jax.export.Exported:
    checks: list[Any] = []
    for _ in range(2):
        try:
            return jax.export.export(jitted, platforms=[platform], disabled_checks=checks)(*packed)
        except (ValueError, NotImplementedError) as error:
            targets = _TARGETS.search(f"{error} ")
            if checks or targets is None:
                raise _unsupported(error) from error
            # The program runs where it was traced, so no guarantee beyond this version is needed.
            custom = jax.export.DisabledSafetyCheck.custom_call
            checks = [custom(one.strip()) for one in targets[1].split(",")]
    raise AssertionError


def _unsupported(error: Exception) -> UnsupportedModule:
    reason = str(error).strip().splitlines()[0].rstrip(".")
    return UnsupportedModule(
        f"The function cannot be exported: {reason}.",
        "Take host callbacks (jax.debug.print, io_callback) out of the step, and see the chained "
        "error of JAX.",
    )
