"""The one place that rewrites a module before it is planned.

A *variant* is the program rewritten: its batch in microbatches (`toast/microbatch`), layers
recomputed (`toast/recompute`). Each is a module that XLA runs as it is, so analysis, search and
price work on it as on any other. Layers are rewritten first and the batch then, which takes along
whatever is in the loop.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir

from toast.analysis.errors import InvalidRequest
from toast.analysis.forms import Form, Loaded, check_version, decode, encode, portable
from toast.analysis.limits import ModuleLimits
from toast.analysis.load import load
from toast.analysis.program import Argument
from toast.analysis.size import check_size
from toast.microbatch.blocked import Blocked
from toast.microbatch.time_axis import Carried, Cut, TimeAxis
from toast.plans.recomputation import RecomputedLayers, RecomputedPlan
from toast.plans.time import CarriedValues, RewritingTried, TimeAxes, flags_of
from toast.recompute.captured import sink_constants
from toast.recompute.policy import GroupAccount, Policy
from toast.recompute.recompute import Recomputer
from toast.request.patterns import ArgumentNames
from toast.request.request import PlanRequest

Policies = tuple[tuple[str, str], ...]
"""Groups of layers, each with a policy."""
_NO_LAYERS = (
    "TOAST tells layers by their names, which `as_text()` drops: lower the step with "
    "`as_text(debug_info=True)`. Or put `jax.checkpoint` around a part of the model."
)
_WHICH = "Name it with --batch ARGUMENT:DIMENSION, as in --batch \"batch['x']:0\"."


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A rewriting of a program; the default is none.

    `recompute` are policies by layer group, in the words of `toast/recompute`.
    """

    microbatches: int = 1
    recompute: Policies = ()

    @property
    def words(self) -> str:
        """Which layers are recomputed, as `--recompute` says it."""
        policies = {policy for _, policy in self.recompute}
        if len(policies) == 1:
            return next(iter(policies))
        return " ".join(f"{name}={policy}" for name, policy in self.recompute)

    @property
    def flags(self) -> str:
        """The flags of `toast plan` that make it."""
        return flags_of(self.microbatches, self.words)

    @property
    def is_plain(self) -> bool:
        """Whether it is the program as it is."""
        return self.microbatches == 1 and not self.recompute


@dataclass(slots=True, kw_only=True)
class Variants:
    """The variants of one module; it is read when the first of them is asked for."""

    module: bytes
    request: PlanRequest
    arguments: tuple[Argument, ...] = ()
    """Those of the module, where somebody has read it already."""
    limits: ModuleLimits | None = None
    _loaded: Loaded | None = None
    _axis: TimeAxis | None = None
    _cuts: dict[int, Cut] = field(default_factory=dict)
    _groups: list[str] | None = None
    _accounts: dict[Policies, list[GroupAccount]] = field(default_factory=dict)
    _again: dict[Policies, Variants] = field(default_factory=dict)
    _unchanged: tuple[Loaded, Recomputer] | None = None

    def written(self, variant: Variant) -> bytes:
        """The module rewritten, in the form that it came in; raises `ToastError`."""
        if variant.is_plain:
            return self.module
        if variant.recompute:
            again = self._recomputed(variant.recompute)
            return again.written(Variant(microbatches=variant.microbatches))
        count = variant.microbatches
        made = self._time_axis().write(self.cut(count), count, self.request.accumulate)
        assert self._loaded is not None
        return _encoded(self._loaded, made)

    def _recomputed(self, policies: Policies) -> Variants:
        """The variants of the module with layers recomputed."""
        if policies not in self._again:
            loaded, layers = self._unchanged or self._with_groups()
            self._unchanged = None
            self._accounts[policies] = layers.rewrite(
                {name: Policy(policy) for name, policy in policies}
            )
            self._again[policies] = Variants(
                module=_encoded(loaded, loaded.module),
                request=self.request,
                arguments=self.arguments,
            )
        return self._again[policies]

    def layer_groups(self) -> list[str]:
        """The groups of layers that can be recomputed."""
        if self._groups is None:
            self._unchanged = self._with_groups()
            self._groups = list(self._unchanged[1].groups)
        return self._groups

    def _with_groups(self) -> tuple[Loaded, Recomputer]:
        """The module read anew, for its layers to be recomputed, which changes it."""
        loaded = self._decoded()
        return loaded, Recomputer(loaded.module, loaded.argument_names)

    def policies(self) -> Policies:
        """What the request says of each group; raises `InvalidRequest` for one it does not have."""
        found: dict[str, str] = {}
        for word in self.request.recompute:
            pattern, _, policy = word.rpartition("=")
            if policy in ("none", "auto"):
                continue
            groups = self.layer_groups()
            if not groups:
                raise InvalidRequest("No layer of this program can be recomputed.", _NO_LAYERS)
            named = [one for one in groups if not pattern or one == pattern]
            if not named:
                raise InvalidRequest(
                    f"There is no group of layers {pattern!r}.", f"There are: {', '.join(groups)}."
                )
            found |= dict.fromkeys(named, policy)
        return tuple((name, policy) for name, policy in found.items() if policy != Policy.KEEP)

    def record_layers(
        self, variant: Variant, tried: Iterable[RewritingTried] = ()
    ) -> RecomputedPlan | None:
        """What `plan.json` says of the layers recomputed; None where there are none."""
        if not variant.recompute:
            return None
        groups = [
            RecomputedLayers(
                name=one.name,
                layers=one.layers,
                policy=one.policy,
                before_bytes=one.before_bytes,
                kept_bytes=one.kept_bytes,
                ops=one.recomputed,
                blocked=list(one.blocked),
            )
            for one in self._accounts[variant.recompute]
        ]
        return RecomputedPlan(groups=groups, tried=list(tried))

    def counts(self) -> list[int]:
        """Numbers of microbatches that are worth a try, rising: powers of two."""
        size = self.cut(1).size
        return [count for count in _POWERS if count < size and size % count == 0]

    def cut(self, count: int) -> Cut:
        """The batch that can run in so many parts; raises `Blocked`."""
        axis = self._time_axis()
        if self.request.batch is not None:
            leaf = axis.named(self._dimension(), count)
            if leaf not in self._cuts:
                self._cuts[leaf] = axis.cut(leaf)
            return self._cuts[leaf]
        if _BEST not in self._cuts:
            self._cuts[_BEST] = axis.best()
        found = self._cuts[_BEST]
        if found.size % count:
            raise Blocked(
                None,
                f"{count} parts do not divide it, which has {found.size:,} elements",
                "Give a number of microbatches that divides the batch.",
            )
        return found

    def record(
        self,
        variant: Variant,
        arguments: Sequence[Argument],
        tried: Iterable[RewritingTried] = (),
    ) -> TimeAxes | None:
        """What `plan.json` says of a variant; None where its batch runs whole."""
        if variant.microbatches == 1:
            return None
        if variant.recompute:
            again = Variant(microbatches=variant.microbatches)
            return self._recomputed(variant.recompute).record(again, arguments, tried)
        cut, accumulate = self.cut(variant.microbatches), self.request.accumulate
        argument, dimension = cut.dimensions[0]
        return TimeAxes(
            argument=arguments[argument].name,
            dimension=dimension,
            arguments=[arguments[one].name for one, _ in cut.dimensions],
            size=cut.size,
            microbatches=variant.microbatches,
            accumulate=accumulate,
            sums=_rows(cut.sums(accumulate)),
            stacks=_rows(cut.stacks()),
            before=len(cut.needs.before),
            inside=len(cut.needs.inside),
            after=len(cut.needs.after),
            tried=list(tried),
        )

    def _decoded(self) -> Loaded:
        """The module read anew, for who rewrites it."""
        loaded = decode(self.module)
        check_version(loaded.form, self.request.target_version)
        if self.limits is not None:
            check_size(loaded.module, self.limits)
        sink_constants(loaded.module)
        return loaded

    def _time_axis(self) -> TimeAxis:
        if self._axis is None:
            self._loaded = self._decoded()
            self._axis = TimeAxis(self._loaded.module)
        return self._axis

    def _dimension(self) -> tuple[int, int]:
        """The argument and dimension that the request names as the batch."""
        text = self.request.batch or ""
        pattern, colon, dimension = text.rpartition(":")
        if not colon or not dimension.isdigit():
            pattern, dimension = text, "0"
        arguments = self.arguments or load(self.module, self.limits).program.arguments
        names = ArgumentNames([argument.name for argument in arguments])
        number = names.matching(pattern)[0]
        rank = ir.RankedTensorType(self._time_axis().block.arguments[number].type).rank
        if int(dimension) >= rank:
            raise InvalidRequest(
                f"{arguments[number].name} has {rank} dimensions, and {text!r} names "
                f"dimension {dimension}.",
                _WHICH,
            )
        return number, int(dimension)


_BEST = -1
_POWERS = tuple(2**power for power in range(1, 11))


def _rows(values: Iterable[Carried]) -> list[CarriedValues]:
    """Values by shape and type, the largest first."""
    counted = Counter((one.shape, one.dtype, one.bytes) for one in values)
    rows = [
        CarriedValues(shape=list(shape), dtype=dtype, count=count, bytes=count * size)
        for (shape, dtype, size), count in counted.items()
    ]
    return sorted(rows, key=lambda row: -row.bytes)


def _encoded(loaded: Loaded, module: ir.Module) -> bytes:
    """A rewritten module in the form that the original came in."""
    if loaded.form is not Form.EXPORT:
        return encode(loaded.form, module)
    exported: Any = loaded.exported
    with module.context:
        data = portable(module)
    return bytes(dataclasses.replace(exported, mlir_module_serialized=data).serialize())
