"""Writes a plan back into the module as Shardy attributes.

Nothing of the program changes but shardings: arguments and results are annotated, and a
`sdy.sharding_constraint` stands wherever a decision was taken inside. The module is the flattened
one: its calls are inlined.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from toast.analysis.facts import keys
from toast.analysis.forms import Form, encode
from toast.analysis.load import Source
from toast.analysis.program import CONSTRAINT, PSEUDO
from toast.costmodel.network.mesh import Mesh
from toast.emit.jax_export import encode_export
from toast.emit.shardy import Shardings, add_mesh, constrained, verify
from toast.emit.specs import LayoutConstraint, Specs
from toast.plans.plan import Spec


def write(
    source: Source,
    mesh: Mesh,
    specs: Specs,
    constraints: list[LayoutConstraint],
    kept: frozenset[int] = frozenset(),
) -> bytes:
    """The sharded module, in the form that the module came in.

    `kept` are the values of the module's own constraints that the plan keeps.
    """
    program = source.program
    module = source.loaded.module
    attributes = Shardings()
    arguments = [specs.value(argument.value) for argument in program.arguments]
    results = [specs.use(result.use) for result in program.results]
    with module.context, ir.Location.unknown():
        _annotate(source.main, "arg_attrs", arguments, attributes)
        _annotate(source.main, "res_attrs", results, attributes)
        for one in constraints:
            _constrain(source, one, attributes)
        _settle_constraints(source, specs, kept, attributes)
        add_mesh(module, mesh)
        _tell_devices(module, mesh)
        _verify(source, mesh, specs, constraints, attributes)
        source.regions.restore(source.main)  # from here on handles of their stand-ins are dead
    if source.loaded.form is Form.EXPORT:
        return encode_export(source.loaded, module, mesh, arguments, results)
    return encode(source.loaded.form, module)


def _tell_devices(module: ir.Module, mesh: Mesh) -> None:
    integer = ir.IntegerType.get_signless(32)
    attributes = module.operation.attributes
    attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(integer, mesh.devices)
    attributes["mhlo.num_replicas"] = ir.IntegerAttr.get(integer, 1)


def _verify(
    source: Source, mesh: Mesh, specs: Specs, constraints: list[LayoutConstraint], made: Shardings
) -> None:
    """Have each layout verified once for each type of the tensors that are given it."""
    program = source.program
    given = [(argument.value, specs.value(argument.value)) for argument in program.arguments]
    given += [(program.sources[one.use], specs.use(one.use)) for one in program.results]
    given += [(one.value, spec) for one in constraints for spec in (*one.through, one.spec)]
    shapes, types = program.value_shape.data, program.value_type.data
    found = {
        (shapes[value], types[value], id(attribute)): (value, attribute)
        for value, attribute in ((value, made.of(spec)) for value, spec in given)
    }
    verify(mesh, [(_handle(source, value).type, attribute) for value, attribute in found.values()])


def _annotate(main: ir.Operation, name: str, specs: list[Spec], attributes: Shardings) -> None:
    given: list[Any] = [{} for _ in specs]
    if name in main.attributes:
        given = list(ir.ArrayAttr(main.attributes[name]))
    dictionaries, names = [], dict[str, None]()
    for item, spec in zip(given, specs, strict=True):
        pairs = {key: item[key] for key in names if key in item}
        if len(pairs) < len(item):  # to ask for names that others have takes less than to list all
            pairs = {key: item[key] for key in keys(item)}
            names |= dict.fromkeys(pairs)
        dictionaries.append(ir.DictAttr.get(pairs | {"sdy.sharding": attributes.of(spec)}))
    main.attributes[name] = ir.ArrayAttr.get(dictionaries)


def _constrain(source: Source, constraint: LayoutConstraint, attributes: Shardings) -> None:
    if constraint.uses:
        _constrain_uses(source, constraint, attributes)
        return
    value = _handle(source, constraint.value)
    users = [(use.owner, use.operand_number) for use in value.uses]
    owner = value.owner
    if isinstance(owner, ir.Block):
        at = ir.InsertionPoint.at_block_begin(owner)
    else:
        at = ir.InsertionPoint.after(owner.operation)
    pinned = _chain(value, constraint, attributes, at)
    for user, number in users:
        user.operands[number] = pinned


def _chain(
    value: Any, constraint: LayoutConstraint, attributes: Shardings, at: ir.InsertionPoint
) -> Any:
    """Constraints that take `value` to its layout, by way of its stations."""
    for spec in (*constraint.through, constraint.spec):
        value = constrained(value, attributes.of(spec), at)
    return value


def _constrain_uses(source: Source, constraint: LayoutConstraint, attributes: Shardings) -> None:
    """One constraint per block, before the first op there that wants the layout.

    The value may itself be pinned by now: a use is rewired from whatever it reads of it.
    """
    program = source.program
    first: dict[Any, Any] = {}
    for use in constraint.uses:
        op = program.user(use)
        user, number = _user(source, op), use - int(program.op_uses[op])
        block = user.block
        if block not in first:
            at = ir.InsertionPoint(user)
            first[block] = _chain(user.operands[number], constraint, attributes, at)
        user.operands[number] = first[block]


def _settle_constraints(
    source: Source, specs: Specs, kept: frozenset[int], attributes: Shardings
) -> None:
    """Give the module's own constraints that are kept their layout, and remove the others."""
    program = source.program
    for op in program.ops_named(CONSTRAINT):
        handle, value = source.handles[op], program.values_of(op)[0]
        if value in kept:
            handle.attributes["sharding"] = attributes.of(specs.value(value))
        else:
            handle.results[0].replace_all_uses_with(handle.operands[0])
            handle.erase()


def _user(source: Source, op: int) -> Any:
    """The MLIR operation whose operands a (pseudo) op's uses are."""
    handle = source.handles[op]
    if source.program.kind(op) in PSEUDO - {"loop_begin"}:
        return _terminator(source, op, handle)
    return handle


def _terminator(source: Source, op: int, handle: Any) -> Any:
    """The `return` behind a loop_end or branch_end; other pseudo ops stand for themselves."""
    kind = source.program.kind(op)
    if kind == "loop_end":
        return _last(handle.regions[1])
    if kind == "branch_end":
        first = int(source.program.op_uses[op])
        wanted = _handle(source, source.program.sources[first])
        for region in handle.regions:
            last = _last(region)
            if any(operand == wanted for operand in last.operands):
                return last
    return handle


def _last(region: Any) -> Any:
    operations = region.blocks[0].operations
    return operations[len(operations) - 1].operation


def _handle(source: Source, value: int) -> Any:
    """The MLIR value behind a value number."""
    program = source.program
    op = program.makers[value]
    handle, index = source.handles[op], value - int(program.op_values[op])
    kind = program.kind(op)
    if kind == "argument":
        return handle
    if kind == "loop_begin":
        inner = [*handle.regions[0].blocks[0].arguments, *handle.regions[1].blocks[0].arguments]
        return inner[index]
    return handle.results[index]
