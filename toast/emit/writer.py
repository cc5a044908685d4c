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
from toast.emit.pinning import pin_uses, pin_value, unpin
from toast.emit.shardy import Shardings, add_mesh, verify
from toast.emit.specs import LayoutConstraint, Specs
from toast.plans.plan import Spec

_ALIAS, _DONOR = "tf.aliasing_output", "jax.buffer_donor"


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
    annotate(source, mesh, specs, constraints, kept)
    return encode_written(source, source.loaded.module, mesh, specs)


def annotate(
    source: Source,
    mesh: Mesh,
    specs: Specs,
    constraints: list[LayoutConstraint],
    kept: frozenset[int] = frozenset(),
) -> None:
    """Write a plan into the module of `source`, whose calls are inlined for that."""
    program = source.program
    module = source.loaded.module
    attributes = Shardings()
    arguments = [specs.value(argument.value) for argument in program.arguments]
    results = [specs.use(result.use) for result in program.results]
    with module.context, ir.Location.unknown():
        annotate_function(source.main, "arg_attrs", arguments, attributes)
        annotate_function(source.main, "res_attrs", results, attributes)
        release(source.main, arguments, results)
        for one in constraints:
            _constrain(source, one, attributes)
        # The values of constraints that are not kept are given layouts too, and go after this.
        _verify(source, mesh, specs, constraints, attributes)
        _settle_constraints(source, specs, kept, attributes)
        add_mesh(module, mesh)
        tell_devices(module, mesh)
        source.regions.restore(source.main)  # from here on handles of their stand-ins are dead


def encode_written(
    source: Source, module: ir.Module, mesh: Mesh, specs: Specs, version: str | None = None
) -> bytes:
    """A module that a plan was written into, in the form that the program came in."""
    if source.loaded.form is not Form.EXPORT:
        return encode(source.loaded.form, module, version)
    arguments = [specs.value(argument.value) for argument in source.program.arguments]
    results = [specs.use(result.use) for result in source.program.results]
    return encode_export(source.loaded, module, mesh, arguments, results, version)


def tell_devices(module: ir.Module, mesh: Mesh) -> None:
    """Have the module say for how many devices it is."""
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
    verify(
        mesh, [(handle_of(source, value).type, attribute) for value, attribute in found.values()]
    )


def annotate_function(
    main: ir.Operation, name: str, specs: list[Spec], attributes: Shardings
) -> None:
    """Give arguments (`arg_attrs`) or results (`res_attrs`) of a function their layouts."""
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


def release(main: ir.Operation, arguments: list[Spec], results: list[Spec]) -> None:
    """Have donated arguments lend their buffers to any result where their own has another layout.

    Compilers refuse a result in the buffer of an argument that is not as large on a device.
    """
    if "arg_attrs" not in main.attributes:
        return
    rows = []
    for row, spec in zip(ir.ArrayAttr(main.attributes["arg_attrs"]), arguments, strict=True):
        moved = _ALIAS in row and results[ir.IntegerAttr(row[_ALIAS]).value] != spec
        rows.append(_lending(row) if moved else row)
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(rows)


def _lending(row: Any) -> ir.DictAttr:
    pairs = {key: row[key] for key in keys(row) if key != _ALIAS}
    return ir.DictAttr.get(pairs | {_DONOR: ir.BoolAttr.get(True)})


def _constrain(source: Source, constraint: LayoutConstraint, attributes: Shardings) -> None:
    specs = [*constraint.through, constraint.spec]
    if not constraint.uses:
        pin_value(handle_of(source, constraint.value), specs, attributes)
        return
    program = source.program
    users = []
    for use in constraint.uses:
        op = program.user(use)
        users.append((user_of(source, op), use - int(program.op_uses[op])))
    pin_uses(users, specs, attributes)


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
            unpin(handle)


def user_of(source: Source, op: int) -> Any:
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
        wanted = handle_of(source, source.program.sources[first])
        for region in handle.regions:
            last = _last(region)
            if any(operand == wanted for operand in last.operands):
                return last
    return handle


def _last(region: Any) -> Any:
    operations = region.blocks[0].operations
    return operations[len(operations) - 1].operation


def handle_of(source: Source, value: int) -> Any:
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
