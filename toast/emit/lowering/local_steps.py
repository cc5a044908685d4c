"""The steps between layouts, on what one device holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toast.emit.lowering.code import Code
from toast.emit.lowering.steps import Step, StepKind


def take(code: Code, value: Any, step: Step) -> Any:
    """What a device holds after a step."""
    if step.kind is not StepKind.SLICE:
        code.sent.append((step.kind.value, step.over))
    match step.kind:
        case StepKind.SLICE:
            return cut(code, value, step.axes)
        case StepKind.GATHER:
            return _gather(code, value, step.axes)
        case StepKind.EXCHANGE:
            return _exchange(code, value, step)
        case StepKind.PERMUTE:
            return code.permute(value, code.devices.permuted(step.before, step.after))


def cut(code: Code, value: Any, axes: Sequence[Sequence[str]]) -> Any:
    """The part of what a device holds that it holds once these axes split the dimensions."""
    whole = code.shape(value)
    sizes = [n // code.devices.parts(on) for n, on in zip(whole, axes, strict=True)]
    starts = {dim: code.offset(on, sizes[dim]) for dim, on in enumerate(axes) if on}
    return code.dynamic_slice(value, starts, sizes)


def _gather(code: Code, value: Any, axes: Sequence[Sequence[str]]) -> Any:
    """All parts along the dimensions that lose axes, in one collective."""
    dims = [dim for dim, on in enumerate(axes) if on]
    if len(dims) == 1:
        return code.all_gather(value, axes[dims[0]], dims[0])
    shape = code.shape(value)
    over = [axis for on in axes for axis in on]
    stacked = code.all_gather(code.reshape(value, [1, *shape]), over, 0)
    return _merged(code, stacked, [(dim, code.devices.parts(axes[dim])) for dim in dims])


def _exchange(code: Code, value: Any, step: Step) -> Any:
    """Parts of the dimensions that get axes, for parts of those that lose them."""
    over = [axis for axes, _, _ in step.moves for axis in axes]
    counts = [code.devices.parts(axes) for axes, _, _ in step.moves]
    split = [(to, count) for (_, _, to), count in zip(step.moves, counts, strict=True)]
    joined = [(dim, count) for (_, dim, _), count in zip(step.moves, counts, strict=True)]
    return _merged(code, code.all_to_all(_split(code, value, split), over), joined)


def _split(code: Code, value: Any, split: Sequence[tuple[int, int]]) -> Any:
    """(dimension, parts): the parts of these dimensions as a first dimension, the first slowest."""
    shape, places, inner = list[int](), list[int](), list[int]()
    parts = dict(split)
    for dim, size in enumerate(code.shape(value)):
        if dim in parts:
            places.append(len(shape))
            shape.append(parts[dim])
        inner.append(len(shape))
        shape.append(size // parts.get(dim, 1))
    order_of = dict(zip(sorted(parts), places, strict=True))
    order = [*(order_of[dim] for dim, _ in split), *inner]
    apart = code.transpose(code.reshape(value, shape), order)
    count = 1
    for _, n in split:
        count *= n
    return code.reshape(apart, [count, *(shape[place] for place in inner)])


def _merged(code: Code, stacked: Any, joined: Sequence[tuple[int, int]]) -> Any:
    """(dimension, parts): the first dimension, which has these parts, in front of those."""
    inner = code.shape(stacked)[1:]
    counts = [count for _, count in joined]
    apart = code.reshape(stacked, [*counts, *inner])
    order, shape = list[int](), list[int]()
    place = {dim: number for number, (dim, _) in enumerate(joined)}
    for dim, size in enumerate(inner):
        if dim in place:
            order.append(place[dim])
        order.append(len(joined) + dim)
        shape.append(size * (counts[place[dim]] if dim in place else 1))
    return code.reshape(code.transpose(apart, order), shape)
