"""What the kernels of fusion and live ranges find, by walking from op to op in Python."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from toast.analysis.names import Bools
from toast.analysis.program import Ints, Program
from toast.analysis.types import itemsize
from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.compilers.rules import ReductionFusionRules
from toast.costmodel.passes.all_reduce_reassociate import ADD, SCATTER
from toast.costmodel.passes.fusion import Fusion
from toast.costmodel.passes.space_to_batch import CONVOLUTION
from toast.costmodel.program.launches import LaunchedFusion
from toast.costmodel.program.op_traits import LAYOUT, Role, role

MOVING = LAYOUT | {"stablehlo.pad"}


class Chains:
    """Where what contractions make is stored, and what of it is stored narrow."""

    def __init__(self, program: Program, policy: CompilerProfile) -> None:
        self._program = program
        self._policy = policy
        self._roles = [role(name) for name in program.names]
        self._users: list[list[int]] = [[] for _ in range(program.values)]
        for use, value in enumerate(program.use_value.tolist()):
            self._users[value].append(use)
        self._op_of_use = program.users
        widths = [itemsize(dtype) for dtype in program.dtypes]
        self._bytes = [
            program.elements[value] * widths[program.value_type[value]]
            for value in range(program.values)
        ]

    def ends(self) -> set[int]:
        """For each contraction the value behind it that is stored: the last of the narrowest."""
        program, stored, taken = self._program, set(), set()
        for op in range(program.ops):
            if self._role(op) is not Role.CONTRACTION:
                continue
            chain = [self._made(op)]
            while (following := self._next_in_chain(chain[-1])) is not None:
                if following in taken:
                    break
                chain.append(following)
                taken.add(following)
            if not self._summed_up(chain[-1]):
                stored.add(self._place_to_store(chain))
        return stored

    def _made(self, op: int) -> int:
        """What a contraction makes: of a product of matrices the slice that alone reads it."""
        value = self._program.values_of(op)[0]
        users = [self._op_of_use[use] for use in self._users[value]]
        cuts = self._policy.algebraic_simplifier.cuts_products and len(users) == 1
        product = self._program.kind(op) in ("stablehlo.dot_general", "stablehlo.dot")
        if cuts and product and self._program.kind(users[0]) == "stablehlo.slice":
            return self._program.values_of(users[0])[0]
        return value

    def _summed_up(self, value: int) -> bool:
        """Whether a TPU takes sums or maxima of a product alone, and never stores it."""
        users = {self._program.kind(self._op_of_use[use]) for use in self._users[value]}
        ops = {self._op_of_use[use] for use in self._users[value]}
        tpu = self._policy.fusion.fuses_into_reduction
        return tpu and len(ops) == 1 and users == {"stablehlo.reduce"}

    def _place_to_store(self, chain: list[int]) -> int:
        """Where a chain behind a contraction is stored.

        What a reduction and something else read is written by the reduction, as it reads it; on a
        GPU only where two others read it too. Otherwise a GPU stores what the contraction itself
        made, a TPU the last of the narrowest.
        """
        if (
            self._policy.fusion.stores_reduced
            and self._reduced(chain[-1])
            and not self._light(chain[1:])
        ):
            return chain[-1]
        if not self._policy.fusion.stores_narrowest:
            return chain[0]
        narrowest = min(self._bytes[value] for value in chain)
        return [value for value in chain if self._bytes[value] == narrowest][-1]

    def _light(self, values: list[int]) -> bool:
        """Whether the ops that made these values do no arithmetic."""
        program = self._program
        return all(program.kind(program.makers[value]) in LAYOUT for value in values)

    def _reduced(self, value: int) -> bool:
        users = {self._op_of_use[use] for use in self._users[value]}
        fewest = 3 if self._policy.name == "xla_gpu" else 2
        return len(users) >= fewest and any(self._role(op) is Role.REDUCE for op in users)

    def _next_in_chain(self, value: int) -> int | None:
        """What the only user makes of a value, where that is elementwise and of one size."""
        program = self._program
        users = {self._op_of_use[use] for use in self._users[value]}
        if len(users) != 1:
            return None
        (op,) = users
        made = program.values_of(op)
        if self._role(op) is not Role.FUSIBLE or len(made) != 1:
            return None
        same = program.elements[made[0]] == program.elements[value]
        return made[0] if same else None

    def narrow_values(self, written: Bools) -> Bools:
        """What only products and the reductions beside it read, a TPU rounds as it stores it.

        Its matrix unit would round it otherwise. What strides over tiles is stored as it is.
        """
        self._written = written
        program, narrow = self._program, np.zeros(self._program.values, dtype=np.bool_)
        for value in (
            np.flatnonzero(self._written).tolist()
            if self._policy.bf16_narrowing.narrows_stored
            else ()
        ):
            made = role_of(program, program.makers[value], self._policy)
            rounds = made in (Role.FUSIBLE, Role.CONTRACTION)
            rounds |= looks_up(program, program.makers[value])
            if program.dtype(value) == "f32" and rounds:
                readers = self._readers(value)
                only = readers <= {Role.CONTRACTION, Role.REDUCE}
                narrow[value] = only and Role.CONTRACTION in readers
        return narrow

    def _readers(self, value: int) -> set[Role]:
        """The roles of what reads a value, looking through what only moves its elements."""
        program, found = self._program, set[Role]()
        for use in self._users[value]:
            op = self._op_of_use[use]
            moved = program.values_of(op)
            if program.kind(op) in MOVING and len(moved) == 1 and not self._written[moved[0]]:
                found |= self._readers(moved[0])
            else:
                found.add(self._role(op))
        return found

    def _role(self, op: int) -> Role:
        return self._roles[self._program.op_name[op]]


class Merger:
    """Joins each elementwise root with those that it reads, or that read what it does."""

    def __init__(
        self, program: Program, roots: Sequence[LaunchedFusion], roles: Sequence[Role]
    ) -> None:
        self._program = program
        self._roots = roots
        self._group: dict[int, int] = {}
        self._members: dict[int, list[LaunchedFusion]] = {}
        for root in roots:
            loop = roles[root.op] is Role.FUSIBLE and not root.contractions
            if loop:
                self._group[root.op] = root.op
            self._members[root.op] = [root]

    def run(self) -> list[LaunchedFusion]:
        for root in self._roots:
            if root.op in self._group:
                for source in self._sources(root):
                    if source in self._group and self._alike(source, root.op):
                        self._join(self._group[source], self._group[root.op])
        self._join_readers()
        groups = (self._members[root.op] for root in self._roots if root.op in self._members)
        return [self._merged(members) for members in groups]

    def _join_readers(self) -> None:
        """Those of one shape that read a value of that shape, one after another."""
        program, readers = self._program, dict[int, int]()
        for root in (root for root in self._roots if root.op in self._group):
            shape = program.shape(program.values_of(root.op)[0])
            for value in (program.sources[use] for use in root.reads):
                if program.shape(value) == shape:
                    before = readers.get(value)
                    readers[value] = root.op
                    if before is not None and self._alike(before, root.op):
                        self._join(self._group[before], self._group[root.op])

    def _sources(self, root: LaunchedFusion) -> list[int]:
        program = self._program
        return [program.makers[program.sources[use]] for use in root.reads]

    def _alike(self, source: int, op: int) -> bool:
        program = self._program
        shapes = {program.shape(program.values_of(each)[0]) for each in (source, op)}
        return len(shapes) == 1 and bool(program.op_trips[source] == program.op_trips[op])

    def _join(self, left: int, right: int) -> None:
        """Only where no input from outside is made of what a member writes."""
        if left == right:
            return
        members = self._members[left] + self._members[right]
        ops = {root.op for root in members}
        outside = {source for root in members for source in self._sources(root)} - ops
        if self._depend(outside, ops):
            return
        keep, drop = min(left, right), max(left, right)
        self._members[keep] = members
        del self._members[drop]
        for root in members:
            self._group[root.op] = keep

    def _depend(self, outside: set[int], ops: set[int]) -> bool:
        """Whether something outside is computed, however far back, from one of the ops."""
        first, seen = min(ops), set[int]()
        left = [op for op in outside if op > first]
        while left:
            op = left.pop()
            for use in self._program.uses_of(op):
                source = self._program.makers[self._program.sources[use]]
                if source in ops:
                    return True
                if source > first and source not in seen:
                    seen.add(source)
                    left.append(source)
        return False

    def _merged(self, members: list[LaunchedFusion]) -> LaunchedFusion:
        """What one member writes for another is not read from memory.

        Of what is larger than a loop makes it reads a part each time.
        """
        program = self._program
        ops = tuple(root.op for root in members)
        inside = {value for op in ops for value in program.values_of(op)}
        once: set[int] = set()
        reads: list[int] = []
        for root in members:
            loop = root.op in self._group
            made = program.elements[program.values_of(root.op)[0]] if loop else 0
            for use in root.reads:
                value = program.sources[use]
                in_parts = loop and program.elements[value] > made
                if value not in inside and (value not in once or in_parts):
                    reads.append(use)
                once.add(value)
        dots = tuple(sorted({dot for root in members for dot in root.contractions}))
        return LaunchedFusion(ops=ops, reads=tuple(sorted(reads)), contractions=dots)


class Reductions:
    """Puts each reduction into the fusion that makes what it reads, or into an earlier pass."""

    def __init__(
        self,
        program: Program,
        fusions: Sequence[LaunchedFusion],
        rules: ReductionFusionRules,
        roles: Sequence[Role],
    ) -> None:
        self._program = program
        self._rules = rules
        self._roles = roles
        self._fusions: list[LaunchedFusion | None] = list(fusions)
        self._fusion_of = {op: n for n, fusion in enumerate(fusions) for op in fusion.ops}
        self._passes: dict[int, int] = {}

    def run(self) -> list[LaunchedFusion]:
        for number, fusion in enumerate(self._fusions):
            if fusion is not None and self._is_reduction(fusion) and not self._pools(fusion):
                self._merge(number, fusion)
        return [fusion for fusion in self._fusions if fusion is not None]

    def _is_reduction(self, fusion: LaunchedFusion) -> bool:
        roles = {role(self._program.kind(op)) for op in fusion.ops}
        return roles == {Role.REDUCE} and not fusion.contractions

    def _pools(self, fusion: LaunchedFusion) -> bool:
        return any(self._program.kind(op) == "stablehlo.reduce_window" for op in fusion.ops)

    def _is_computed(self, fusion: LaunchedFusion) -> bool:
        """Whether it is elementwise, or reduces, or both, and reductions join such passes."""
        roles = {self._roles[op] for op in fusion.ops}
        return roles <= {Role.FUSIBLE, Role.REDUCE} and self._rules.joins_passes

    def _merge(self, number: int, fusion: LaunchedFusion) -> None:
        """Into what makes the last of what it reads, or else into an earlier pass over it."""
        source = self._reduced_value(fusion)
        if source is None:
            return
        values = {self._program.sources[use] for use in fusion.reads}
        alike = [value for value in values if self._size(value) == self._size(source)]
        makers = [(value, self._fusion_of.get(self._program.makers[value])) for value in alike]
        hosts = sorted(makers, key=lambda pair: -self._program.makers[pair[0]])
        for value, host in (*hosts, (source, self._passes.get(source))):
            if host is not None and host != number and self._fits(host, fusion, value):
                self._join(host, number)
                return
        self._passes.setdefault(source, number)

    def _reduced_value(self, fusion: LaunchedFusion) -> int | None:
        """The stored value of which a reduction reads every element, one at a time."""
        program = self._program
        first = program.sources[program.op_uses[fusion.ops[0]]]
        values = [program.sources[use] for use in fusion.reads]
        return next((value for value in values if self._size(value) == self._size(first)), None)

    def _fits(self, host: int, fusion: LaunchedFusion, source: int) -> bool:
        """Whether all else that it reads is there before the host runs, or is made in its rows."""
        program, into = self._program, self._fusions[host]
        if into is None or program.op_trips[into.ops[0]] != program.op_trips[fusion.ops[0]]:
            return False
        if not (into.contractions or self._is_reduction(into) or self._is_computed(into)):
            return False
        makers = {program.makers[program.sources[use]] for use in fusion.reads}
        makers.discard(program.makers[source])
        inside = makers & set(into.ops)
        direct = all(program.sources[program.op_uses[op]] == source for op in inside)
        if inside and not (into.contractions and self._keeps_rows(into, source, inside, direct)):
            return False
        return max(makers - inside, default=-1) < min(into.ops)

    def _keeps_rows(
        self, host: LaunchedFusion, source: int, inside: set[int], direct: bool
    ) -> bool:
        """Whether rows are whole when a block ends, and stay until they are reduced."""
        program, wide = self._program, direct and self._rules.keeps_wide_rows
        kinds = {program.kind(dot) for dot in host.contractions}
        if CONVOLUTION in kinds or any(self._keeps_columns(op) for op in inside):
            return False
        made = [program.values_of(dot)[0] for dot in host.contractions]
        return all(
            self._width(value) < self._width(source) or (wide and value == source) for value in made
        )

    def _keeps_columns(self, op: int) -> bool:
        """Whether a reduction keeps the last dimension of what it reduces."""
        program, use = self._program, self._program.op_uses[op]
        if role(program.kind(op)) is not Role.REDUCE or not program.shape(program.sources[use]):
            return False
        names = program.def_names(program.values_of(op)[0]).tolist()
        return names[-1:] == program.use_names(use)[-1:].tolist()

    def _join(self, host: int, number: int) -> None:
        into, fusion = self._fusions[host], self._fusions[number]
        assert into is not None
        assert fusion is not None
        program, ops = self._program, into.ops + fusion.ops
        inside = {value for op in ops for value in program.values_of(op)}
        reads: dict[int, int] = {}
        for use in into.reads + fusion.reads:
            reads.setdefault(program.sources[use], use)
        kept = tuple(sorted(use for value, use in reads.items() if value not in inside))
        self._fusions[host] = LaunchedFusion(ops=ops, reads=kept, contractions=into.contractions)
        self._fusions[number] = None
        for op in fusion.ops:
            self._fusion_of[op] = host

    def _size(self, value: int) -> int:
        return math.prod(self._program.shape(value))

    def _width(self, value: int) -> float:
        return itemsize(self._program.dtype(value))


def schedule(program: Program, roots: Sequence[LaunchedFusion], roles: Sequence[Role]) -> Ints:
    """When each op runs: in program order, but results of `main` as soon as their inputs exist.

    So do updates: elementwise ops and reductions that lead to nothing else but results, of what
    others made, or of one element.
    """
    light = {Role.FUSIBLE, Role.REDUCE}
    starts, uses = program.readers
    leads, worked = [True] * program.values, [False] * program.values
    for value in reversed(range(program.values)):
        users = {program.user(int(use)) for use in uses[starts[value] : starts[value + 1]]}
        made = [(user, program.values_of(user)) for user in users]
        leads[value] = all(
            not len(values) or (roles[user] in light and all(leads[one] for one in values))
            for user, values in made
        )
    for op in range(program.ops):
        heavy = roles[op] not in {*light, Role.NOTHING}
        heavy |= any(worked[program.sources[use]] for use in program.uses_of(op))
        for value in program.values_of(op):
            worked[value] = heavy
    returned = {program.sources[result.use] for result in program.results}
    position = np.arange(program.ops, dtype=np.int64)
    for root in roots:
        values = program.values_of(root.op)
        updates = [
            roles[root.op] in light
            and leads[value]
            and (worked[value] or math.prod(program.shape(value)) == 1)
            for value in values
        ]
        early = [new or value in returned for value, new in zip(values, updates, strict=True)]
        if len(values) and all(early) and root.reads:
            sources = program.value_op[program.use_value[list(root.reads)]]
            inside = [dot for dot in root.contractions if dot != root.op]
            position[root.op] = max(int(position[sources].max()), *inside, -1)
    return position


def role_of(program: Program, op: int, policy: CompilerProfile) -> Role:
    """The role of an op; a TPU looks rows up, and strides over tiles, in fusions of their own."""
    name = program.kind(op)
    if name == "stablehlo.gather" and policy.fusion.stores_looked_up:
        return Role.OPAQUE if looks_up(program, op) else Role.FUSIBLE
    if policy.fusion.stores_strided and program.op_strided[op]:
        pads = name == "stablehlo.pad"
        alone = not read_by_windows(program, op) if pads else program.op_strided[op] <= 2
        return Role.OPAQUE if alone else role(name)
    return role(name)


def looks_up(program: Program, op: int) -> bool:
    """Whether an op gathers more than one row."""
    if program.kind(op) != "stablehlo.gather":
        return False
    table, indices = (program.shape(program.sources[use]) for use in program.uses_of(op)[:2])
    return bool(np.prod(indices) > len(table))


def join_products(
    program: Program,
    roots: Sequence[LaunchedFusion],
    fusions: Sequence[LaunchedFusion],
    roles: Sequence[Role],
) -> list[LaunchedFusion]:
    """Each product inside the elementwise fusion that alone reads it; of several the last."""
    readers: dict[int, set[int]] = {}
    for fusion in fusions:
        for use in fusion.reads:
            readers.setdefault(program.sources[use], set()).add(fusion.ops[0])
    products = {root.op for root in roots if len(root.contractions) == 1}
    home = {fusion.ops[0]: fusion for fusion in fusions if len(fusion.ops) == 1}
    returned = {program.sources[result.use] for result in program.results}

    def joins(value: int, fusion: LaunchedFusion) -> bool:
        op, first = program.makers[value], fusion.ops[0]
        alone = op in products and op in home and len(readers[value]) == 1
        sizes = {program.elements[value], program.elements[program.values_of(first)[0]]}
        often = program.op_trips[op] == program.op_trips[first]
        return alone and value not in returned and len(sizes) == 1 and bool(often)

    taken: dict[int, int] = {}
    for fusion in fusions:
        if not fusion.contractions and all(roles[op] is Role.FUSIBLE for op in fusion.ops):
            values = {program.sources[use] for use in fusion.reads}
            found = [value for value in values if joins(value, fusion)]
            if found:
                taken[fusion.ops[0]] = max(found)
    gone = {program.makers[value] for value in taken.values()}
    joined = []
    for fusion in fusions:
        if fusion.ops[0] in gone:
            continue
        value = taken.get(fusion.ops[0])
        if value is None:
            joined.append(fusion)
            continue
        product = home[program.makers[value]]
        reads: dict[int, int] = {}
        for use in sorted((*fusion.reads, *product.reads)):
            reads.setdefault(program.sources[use], use)
        reads.pop(value)
        dots = tuple(sorted({*fusion.contractions, *product.contractions}))
        kept = tuple(sorted(reads.values()))
        joined.append(LaunchedFusion(ops=fusion.ops, reads=kept, contractions=dots))
    return joined


def read_by_windows(program: Program, op: int) -> bool:
    """Whether convolutions, or reductions over windows, are all that reads what an op makes."""
    made = set(program.values_of(op))
    users = [program.use_op[k] for k, value in enumerate(program.sources) if value in made]
    windows = {"stablehlo.convolution", "stablehlo.reduce_window"}
    return all(program.kind(user) in windows for user in users)


def added_up(program: Program) -> tuple[dict[int, int], dict[int, int]]:
    """Contraction or scatter -> an earlier one that it is summed with, whole and scattered.

    As in `a + b + c`, where nothing else uses the three. Wanted whole, products and scatters are
    sums of their own, and of scatters anything else may be added as well: XLA makes one of them.
    """
    products = {name for name in program.names if role(name) is Role.CONTRACTION}
    made, scatters = set(program.ops_named(*products)), set(program.ops_named(SCATTER))
    together = _added(program, made | scatters, across=False)
    alone = [[leaf for leaf in found if leaf in made] for found in together]
    return _led(alone + _added(program, scatters, across=True)), _led(together)


def _led(groups: list[list[int]]) -> dict[int, int]:
    return {leaf: min(found) for found in groups for leaf in found if leaf != min(found)}


def _added(program: Program, sums: set[int], *, across: bool) -> list[list[int]]:
    """Those of `sums` that are only added to each other, or `across` whatever is added besides."""
    passed, starts = set(program.ops_named(*LAYOUT)), program.op_uses.tolist()
    once = (np.bincount(program.use_value, minlength=program.values) == 1).tolist()
    makers, sources, trips = program.makers, program.sources, program.op_trips.tolist()
    leaves: dict[int, list[int]] = {}
    for op in sorted({*program.ops_named(ADD, *LAYOUT), *sums}):
        if op in sums:
            leaves[op] = [op]
            continue
        values = sources[starts[op] : starts[op + 1]]
        joined = [
            makers[value]
            for value in values
            if makers[value] in leaves and once[value] and trips[makers[value]] == trips[op]
        ]
        several = op in passed and len(values) != 1
        if not joined or several or len(program.values_of(op)) != 1:
            continue
        if not across and len(joined) < len(values):
            continue
        leaves[op] = [leaf for maker in joined for leaf in leaves[maker]]
        leaves.update({maker: [] for maker in joined})
    return list(leaves.values())


def alike(program: Program, one: int, other: int) -> bool:
    """Whether two values are of one shape and type."""
    same_type = program.value_type[one] == program.value_type[other]
    return bool(same_type) and program.shape(one) == program.shape(other)


def launched_at(program: Program, fusion: Fusion) -> Ints:
    """By op when the fusion that it is the root of reads: with a product, once it can."""
    found = fusion.position.copy()
    if not fusion.profile.buffer_assignment.multiplies_at_once:
        return found
    for root in fusion.roots:
        if root.contractions:
            made = [fusion.position[program.makers[program.sources[use]]] + 1 for use in root.reads]
            ready = max([*made, *(fusion.position[op] for op in root.contractions)])
            found[root.op] = min(found[root.op], ready)
    return found


def goes_in_by_sums(program: Program, op: int, use: int) -> bool:
    """Whether what is read through a use is but added to the result of an op."""
    at = program.use_op[use]
    while program.kind(at) in ("stablehlo.add", "stablehlo.convert"):
        if at == op:
            return True
        (value,) = program.values_of(at)
        readers = [k for k in range(len(program.sources)) if program.sources[k] == value]
        if len(readers) != 1:
            return False
        at = program.use_op[readers[0]]
    return False


def writable(program: Program, fusion: Fusion, root: LaunchedFusion) -> set[int]:
    """What a fusion may write over: all that it reads, or with a product what it adds to that."""
    read = {program.sources[use] for use in root.reads}
    if not root.contractions:
        return read if role_of(program, root.op, fusion.profile) is Role.FUSIBLE else set()
    if not fusion.profile.buffer_assignment.adds_in_place:
        return set()
    others = [use for use in root.reads if not goes_in_by_sums(program, root.op, use)]
    return read - {program.sources[use] for use in others}


def handed_over(program: Program, fusion: Fusion, last: Ints) -> Ints:
    """The last positions, less one where a fusion writes over what it reads last.

    Each result takes the buffer of one input of its own shape and type that nothing reads later.
    """
    launched = launched_at(program, fusion)
    first, ends = launched[program.value_op], last.copy()
    users: dict[int, set[str]] = {}
    for use, value in enumerate(program.sources):
        users.setdefault(value, set()).add(program.kind(program.use_op[use]))
    for value, kinds in users.items():
        if kinds == {"stablehlo.dynamic_update_slice"}:
            first[value] = fusion.position[program.makers[value]]
    kept = {argument.value for argument in program.arguments}
    made = [[v for op in one.ops for v in program.values_of(op)] for one in fusion.launched]
    made += [list(program.values_of(op)) for op in range(program.ops)]
    kept |= {value for values in made if len(values) > 1 for value in values}
    for root in fusion.roots:
        free = writable(program, fusion, root) - kept
        at = launched[root.op]
        for value in program.values_of(root.op):
            for source in sorted(free):
                same = fusion.narrow[source] == fusion.narrow[value]
                same &= alike(program, source, value)
                if first[source] < last[source] == at and same:
                    ends[source] = at - 1
                    free.remove(source)
                    break
    return ends
