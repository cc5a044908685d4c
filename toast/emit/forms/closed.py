"""The form *closed*: every value annotated, so that Shardy has nothing to propagate.

The calls are inlined. An op says in which layout it makes its results; where they are kept or
wanted otherwise there is a constraint, as in the other annotated forms. A constant that is wanted
in shards is there once for each layout.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from toast.analysis.facts import SDY
from toast.analysis.load import Source
from toast.analysis.program import ARGUMENT, BRANCH_END, CONSTRAINT, LOOP_BEGIN, RETURN
from toast.costmodel.network.mesh import Mesh
from toast.emit.shardy import Shardings
from toast.emit.specs import LayoutConstraint, Specs
from toast.emit.writer import annotate, handle_of, user_of
from toast.plans.plan import Spec

_WITHOUT_RESULTS = frozenset({ARGUMENT, RETURN, LOOP_BEGIN, BRANCH_END, CONSTRAINT})


def close(
    source: Source,
    mesh: Mesh,
    specs: Specs,
    constraints: list[LayoutConstraint],
    kept: frozenset[int],
) -> None:
    """Write a plan into the module of `source`, and the layout of every value with it."""
    with source.main.context, ir.Location.unknown():
        attributes = Shardings()
        _annotate_ops(source, specs, constraints, attributes)
        _split_constants(source, specs, attributes)
    annotate(source, mesh, specs, constraints, kept)
    source.loaded.module.operation.verify()


def _annotate_ops(
    source: Source, specs: Specs, constraints: list[LayoutConstraint], attributes: Shardings
) -> None:
    program = source.program
    made = {one.value: [*one.through, one.spec][0] for one in constraints if not one.uses}
    for op in range(program.ops):
        values = program.values_of(op)
        if not values or program.kind(op) in _WITHOUT_RESULTS:
            continue
        layouts = []
        for value in values:
            whole: Spec = [[] for _ in program.shape(value)]
            found = whole if program.constant[value] else specs.value(value)
            layouts.append(made.get(value, found))
        annotate_op(source.handles[op], layouts, attributes)


def annotate_op(op: Any, layouts: list[Spec], attributes: Shardings) -> None:
    """Have an op say the layouts of its results."""
    found = [attributes.of(spec) for spec in layouts]
    op.attributes[SDY] = sdy.TensorShardingPerValueAttr.get(found)


def _split_constants(source: Source, specs: Specs, attributes: Shardings) -> None:
    """Give what wants a constant in shards a copy of it that is made so."""
    program = source.program
    copies: dict[tuple[int, str], Any] = {}
    for use, value in enumerate(program.sources):
        op = program.user(use)
        if not program.constant[value] or _is_constant(source, op):
            continue
        want = specs.use(use)
        if not any(want):
            continue
        key = value, str(want)
        if key not in copies:
            original = handle_of(source, value)
            copies[key] = _copied(original, want, attributes)
        user_of(source, op).operands[use - int(program.op_uses[op])] = copies[key]
    for op in reversed(range(program.ops)):
        if _is_constant(source, op) and not any(
            list(one.uses) for one in source.handles[op].results
        ):
            source.handles[op].erase()


def _is_constant(source: Source, op: int) -> bool:
    values = source.program.values_of(op)
    return bool(values) and all(bool(source.program.constant[value]) for value in values)


def _copied(value: Any, want: Spec, attributes: Shardings) -> Any:
    op = value.owner.operation
    copy = op.clone(ip=ir.InsertionPoint.after(op)).operation
    whole: list[Spec] = [[[] for _ in ir.RankedTensorType(one.type).shape] for one in copy.results]
    number = list(op.results).index(value)
    whole[number] = want
    annotate_op(copy, whole, attributes)
    return copy.results[number]
