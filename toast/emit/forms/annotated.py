"""The form *annotated*: the input program, with shardings where something was decided.

Calls, names and whatever else stands in the module stay. A function whose calls are to be laid out
in several ways is copied, once for each further way; a copy is named after it, `NAME__layout1` and
so on. Without what is added here, copies included, the module is what came in; only branches that
never run are gone (`chosen_branches.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.calls import CALLS
from toast.analysis.chosen_branches import take_chosen_branches
from toast.analysis.facts import MHLO, SDY, keys
from toast.analysis.forms import decode
from toast.analysis.load import Source
from toast.analysis.manual import MANUAL
from toast.analysis.program import CONSTRAINT
from toast.costmodel.network.mesh import Mesh
from toast.emit.forms.sites import CallSite, Path, Site, Sites, entries_of
from toast.emit.pinning import pin_uses, pin_value, unpin
from toast.emit.shardy import MESH, Shardings, add_mesh
from toast.emit.specs import LayoutConstraint, Specs
from toast.emit.writer import annotate_function, tell_devices
from toast.plans.plan import Spec

COPY = "__layout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One constraint to add in a function, on result `index` of a site or on `(site, operand)`s.

    Without either it is what becomes of the constraint that stands at `site`: it gets the last of
    `specs`, or goes where there is none.
    """

    specs: tuple[tuple[tuple[str, ...], ...], ...]
    site: int = -1
    index: int = -1
    uses: tuple[tuple[int, int], ...] = ()


Variant = tuple[tuple[Edit, ...], tuple[tuple[int, int], ...]]
"""What one layout of a function is: its edits, and the variants of its calls that are not plain."""
PLAIN: Variant = ((), ())


def annotated(
    data: bytes,
    source: Source,
    mesh: Mesh,
    specs: Specs,
    constraints: list[LayoutConstraint],
    kept: frozenset[int],
) -> ir.Module:
    """The module in `data`, from which `source` was read, with a plan written into it."""
    module, program = decode(data).module, source.program
    with module.context, ir.Location.unknown():
        take_chosen_branches(module)
        sites = Sites(module)
        assert sites.ops == program.ops, "the module is read otherwise than the program was"
        edits = _edits(source, sites, specs, constraints, kept)
        _Variants(sites, edits, Shardings()).write()
        _drop_shardings(module)
        attributes, main = Shardings(), sites.function("main")
        arguments = [specs.value(argument.value) for argument in program.arguments]
        results = [specs.use(result.use) for result in program.results]
        annotate_function(main, "arg_attrs", arguments, attributes)
        annotate_function(main, "res_attrs", results, attributes)
        add_mesh(module, mesh)
        tell_devices(module, mesh)
        module.operation.verify()
    return module


def _edits(
    source: Source,
    sites: Sites,
    specs: Specs,
    constraints: list[LayoutConstraint],
    kept: frozenset[int],
) -> dict[Path, list[Edit]]:
    """The edits of each instance, in the order in which they are made."""
    program = source.program
    found: dict[Path, list[Edit]] = {}
    for one in constraints:
        chain = tuple(map(_frozen, (*one.through, one.spec)))
        if not one.uses:
            op = program.makers[one.value]
            path, site = sites.locate(op)
            edit = Edit(specs=chain, site=site, index=one.value - int(program.op_values[op]))
            found.setdefault(path, []).append(edit)
            continue
        users: dict[Path, list[tuple[int, int]]] = {}
        for use in one.uses:
            op = program.user(use)
            path, site = sites.locate(op)
            users.setdefault(path, []).append((site, use - int(program.op_uses[op])))
        for path, uses in users.items():
            found.setdefault(path, []).append(Edit(specs=chain, uses=tuple(uses)))
    for op in program.ops_named(CONSTRAINT):
        path, site = sites.locate(op)
        value = program.values_of(op)[0]
        chain = (_frozen(specs.value(value)),) if value in kept else ()
        found.setdefault(path, []).append(Edit(specs=chain, site=site))
    return found


def _frozen(spec: Spec) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, spec))


@dataclass(slots=True)
class _Variants:
    """The layouts in which each function is called; the most frequent keeps the function's name."""

    sites: Sites
    edits: dict[Path, list[Edit]]
    attributes: Shardings
    _counts: dict[str, Counter[Variant]] = field(default_factory=dict)
    _touched: set[Path] = field(default_factory=set)

    def write(self) -> None:
        """Edit every function, and copy those that are called in more than one layout."""
        self._touched = {path[:length] for path in self.edits for length in range(len(path) + 1)}
        self._variant("main", ())
        self._count_plain()
        names = {name: self._named(name, counts) for name, counts in self._counts.items()}
        made: dict[str, ir.Operation] = {}
        for name, named in names.items():
            original = self.sites.function(name)
            at = ir.InsertionPoint.after(original)
            for new in named.values():
                if new != name:
                    made[new] = original.clone(at)
                    made[new].attributes["sym_name"] = ir.StringAttr.get(new)
        numbered = {name: list(counts) for name, counts in self._counts.items()}
        for name, named in names.items():
            for variant, new in named.items():
                function = made.get(new) or self.sites.function(name)
                self._edit(function, new == "main", variant, numbered, names)

    def _variant(self, name: str, path: Path) -> int:
        """The number of the variant of an instance, among those of its function."""
        calls = []
        if path in self._touched:
            for number, entry in enumerate(self.sites.entries(name)):
                if isinstance(entry, CallSite):
                    calls.append((number, self._variant(entry.callee, (*path, number))))
        variant = (tuple(self.edits.get(path, ())), tuple(calls))
        if path not in self._touched:
            variant = PLAIN
        counts = self._counts.setdefault(name, Counter())
        counts[variant] += 1
        return list(counts).index(variant)

    def _count_plain(self) -> None:
        """Have whatever a plain function calls be plain there too."""
        waiting = [name for name, counts in self._counts.items() if PLAIN in counts]
        seen = set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            self._counts.setdefault(name, Counter())[PLAIN] += 1
            waiting += [e.callee for e in self.sites.entries(name) if isinstance(e, CallSite)]

    def _named(self, name: str, counts: Counter[Variant]) -> dict[Variant, str]:
        """The name of the function in each variant."""
        own = PLAIN if PLAIN in counts else counts.most_common(1)[0][0]
        rest = [variant for variant in counts if variant != own]
        taken, found, number = self.sites.names(), {own: name}, 0
        for variant in rest:
            number += 1
            while f"{name}{COPY}{number}" in taken:
                number += 1
            found[variant] = f"{name}{COPY}{number}"
        return found

    def _edit(
        self,
        function: ir.Operation,
        main: bool,
        variant: Variant,
        numbered: dict[str, list[Variant]],
        names: dict[str, dict[Variant, str]],
    ) -> None:
        edits, calls = variant
        entries = entries_of(function, main=main)
        for number, chosen in calls:
            call = entries[number]
            assert isinstance(call, CallSite)
            new = names[call.callee][numbered[call.callee][chosen]]
            call.op.attributes[CALLS[call.op.name]] = ir.FlatSymbolRefAttr.get(new)
        for edit in edits:
            self._apply(edit, entries)

    def _apply(self, edit: Edit, entries: list[Site | CallSite]) -> None:
        specs = [[list(axes) for axes in spec] for spec in edit.specs]
        if edit.uses:
            users = [(site.user, n) for s, n in edit.uses if isinstance(site := entries[s], Site)]
            pin_uses([(user, n) for user, n in users if user is not None], specs, self.attributes)
            return
        site = entries[edit.site]
        assert isinstance(site, Site)
        if edit.index >= 0:
            if site.values:
                pin_value(site.values[edit.index], specs, self.attributes)
        elif site.user is not None:
            _settle(site.user, specs, self.attributes)


def _settle(constraint: Any, specs: list[Spec], attributes: Shardings) -> None:
    """Give a constraint of the module's own its layout, or remove it."""
    if specs:
        pin_value(constraint.results[0], specs, attributes)
    unpin(constraint)


def _drop_shardings(module: ir.Module) -> None:
    """Take off what the module says of layouts by itself; regions of `shard_map` keep theirs."""
    regions = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal regions
        regions |= op.name == MANUAL
        for name in (SDY, MHLO):
            if name in op.attributes:
                del op.attributes[name]
        if op.name == "func.func":
            for name in ("arg_attrs", "res_attrs"):
                _drop_from_dictionaries(op, name)
        return ir.WalkResult.SKIP if op.name == MANUAL else ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op in [view.operation for view in module.body.operations]:
        if op.name == "sdy.mesh":
            name = ir.StringAttr(op.attributes["sym_name"]).value
            if not regions or name == MESH:
                op.erase()


def _drop_from_dictionaries(function: ir.Operation, name: str) -> None:
    if name not in function.attributes:
        return
    rows = []
    for item in ir.ArrayAttr(function.attributes[name]):
        rows.append(ir.DictAttr.get({k: item[k] for k in keys(item) if k not in (SDY, MHLO)}))
    function.attributes[name] = ir.ArrayAttr.get(rows)
