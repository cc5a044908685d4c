"""The two programs that a plan is lowered to: global tensors with collectives, or one device's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from toast.analysis.facts import SDY
from toast.emit.lowering import ops
from toast.emit.lowering.code import Code
from toast.emit.lowering.devices import Devices
from toast.emit.lowering.local_steps import cut, take
from toast.emit.lowering.placed import Placed
from toast.emit.lowering.reductions import ADD, combiner
from toast.emit.lowering.steps import Step, StepKind
from toast.emit.shardy import Shardings
from toast.plans.plan import Spec

Build = Callable[[Code, list[Any]], list[Any]]


class LoweringTarget(Protocol):
    """Writes single steps of a program, at the place where `code` writes."""

    code: Code

    def kind(self, whole: Any, spec: Spec) -> Any:
        """The type of a tensor that is whole of this type."""

    def take(self, value: Any, step: Step) -> Any:
        """A value after a step between layouts."""

    def summed(self, value: Any, spec: Spec, axes: Sequence[str], body: str) -> Any:
        """The all-reduce of a value that is partial over axes."""

    def scattered(
        self, value: Any, spec: Spec, dim: int, axes: Sequence[str], left: Sequence[str], body: str
    ) -> Any:
        """The reduce-scatter of a value in this layout into parts of a dimension.

        Afterwards it is partial over the axes that are `left`.
        """

    def compute(self, placed: Placed, operands: list[Any]) -> list[Any]:
        """The results of an op, partial as it says."""

    def constant(self, op: Any, spec: Spec, operands: list[Any]) -> Any:
        """The result of an op of constants in a layout; all that it uses is given in its parts."""

    def cut(self, value: Any, spec: Spec) -> Any:
        """The parts of a whole value."""

    def annotate(
        self, op: Any, specs: list[Spec], partial: Sequence[Sequence[str]] | None = None
    ) -> None:
        """Have an op say the layouts of its results, and over what they are partial."""

    def zeros(self, whole: Any, spec: Spec, partial: Sequence[str]) -> Any:
        """Partial sums of nothing, of a tensor that is whole of this type."""

    def added(self, left: Any, right: Any, spec: Spec, partial: Sequence[str] = ()) -> Any:
        """The sum of two values in one layout."""

    def converted(self, value: Any, like: str, spec: Spec) -> Any:
        """A value in this layout with elements of the type of this name."""


class LocalTarget:
    """The program of one device."""

    def __init__(self, code: Code) -> None:
        self.code = code

    def kind(self, whole: Any, spec: Spec) -> Any:
        """The type of what a device holds of a tensor that is whole of this type."""
        if not isinstance(whole, ir.RankedTensorType):
            return whole
        return self.code.tensor(self.code.devices.local(whole.shape, spec), whole)

    def take(self, value: Any, step: Step) -> Any:
        """A value after a step between layouts."""
        return take(self.code, value, step)

    def summed(self, value: Any, spec: Spec, axes: Sequence[str], body: str) -> Any:  # noqa: ARG002
        """The all-reduce of a value."""
        self.code.sent.append(("all_reduce", tuple(axes)))
        return self.code.all_reduce(value, axes, body)

    def scattered(
        self,
        value: Any,
        spec: Spec,  # noqa: ARG002
        dim: int,
        axes: Sequence[str],
        left: Sequence[str],  # noqa: ARG002
        body: str,
    ) -> Any:
        """The reduce-scatter of a value."""
        self.code.sent.append(("reduce_scatter", tuple(axes)))
        return self.code.reduce_scatter(value, axes, dim, body)

    def compute(self, placed: Placed, operands: list[Any]) -> list[Any]:
        """The results of an op on a device."""
        return ops.compute(self.code, placed, operands)

    def constant(self, op: Any, spec: Spec, operands: list[Any]) -> Any:
        """The device's part of what an op of constants makes."""
        code, result = self.code, op.results[0]
        kind = self.kind(result.type, spec)
        if op.name == "stablehlo.iota":
            return self._iota(op, spec, kind)
        if op.name == "stablehlo.constant" and any(spec):
            value = op.attributes["value"]
            if not isinstance(value, ir.DenseElementsAttr) or not value.is_splat:
                return cut(code, op.clone(ip=code.at).results[0], spec)
            part = ir.DenseElementsAttr.get_splat(kind, value.get_splat_value())
            return code.one("stablehlo.constant", [], kind, value=part)
        copy = op.clone(ip=code.at).operation
        for index, operand in enumerate(operands):
            copy.operands[index] = operand
        copy.results[0].set_type(kind)
        return copy.results[0]

    def _iota(self, op: Any, spec: Spec, kind: Any) -> Any:
        code, copy = self.code, op.clone(ip=self.code.at).operation
        copy.results[0].set_type(kind)
        dim = int(op.attributes["iota_dimension"].value)
        if not spec[dim]:
            return copy.results[0]
        shape = code.shape(copy.results[0])
        like = str(ir.RankedTensorType(kind).element_type)
        start = code.broadcast(code.offset(spec[dim], shape[dim], like), shape)
        return code.binary("add", copy.results[0], start)

    def cut(self, value: Any, spec: Spec) -> Any:
        """The device's part of a whole value."""
        return cut(self.code, value, spec) if any(spec) else value

    def annotate(
        self, op: Any, specs: list[Spec], partial: Sequence[Sequence[str]] | None = None
    ) -> None:
        """A device knows of no layouts."""

    def zeros(self, whole: Any, spec: Spec, partial: Sequence[str]) -> Any:  # noqa: ARG002
        """Zeros of the shape that a device holds."""
        kind = self.kind(whole, spec)
        return self.code.splat(kind.shape, kind, 0)

    def added(self, left: Any, right: Any, spec: Spec, partial: Sequence[str] = ()) -> Any:  # noqa: ARG002
        """The sum of what a device holds of two values."""
        return self.code.binary("add", left, right)

    def converted(self, value: Any, like: str, spec: Spec) -> Any:  # noqa: ARG002
        """What a device holds of a value, with elements of another type."""
        return self.code.convert(value, like)


class GlobalTarget:
    """The program on whole tensors, with the collectives of Shardy.

    What an op needs besides itself stands in a `sdy.manual_computation` around it.
    """

    def __init__(self, code: Code, attributes: Shardings) -> None:
        self.code, self._attributes = code, attributes

    @property
    def _devices(self) -> Devices:
        return self.code.devices

    def kind(self, whole: Any, spec: Spec) -> Any:  # noqa: ARG002
        """The type of a tensor: it is whole."""
        return whole

    def take(self, value: Any, step: Step) -> Any:
        """A value after a step between layouts."""
        given: dict[str, Any] = {}
        match step.kind:
            case StepKind.SLICE:
                given["slicing_axes"] = _axes_by_dim(step.axes)
            case StepKind.GATHER:
                given["gathering_axes"] = _axes_by_dim(step.axes)
            case StepKind.EXCHANGE:
                rows = sorted(step.moves, key=lambda move: move[1])
                params = ", ".join(f"{_names(on)}: {dim}->{to}" for on, dim, to in rows)
                given["params"] = ir.Attribute.parse(f"#sdy<all_to_all_param_list[{params}]>")
            case StepKind.PERMUTE:
                pass
        if step.kind is not StepKind.SLICE:
            self.code.sent.append((step.kind.value, step.over))
        return self._collective(step.kind.value, value, step.after, (), given)

    def summed(self, value: Any, spec: Spec, axes: Sequence[str], body: str) -> Any:
        """The all-reduce of a value."""
        if body == ADD:
            self.code.sent.append(("all_reduce", tuple(axes)))
            given = {"reduction_axes": ir.Attribute.parse(f"#sdy<axis_ref_list{_names(axes)}>")}
            return self._collective("all_reduce", value, spec, (), given)

        def build(code: Code, operands: list[Any]) -> list[Any]:
            code.sent.append(("all_reduce", tuple(axes)))
            return [code.all_reduce(operands[0], axes, body)]

        return self.island([value], [(spec, axes)], [value.type], [(spec, ())], build)[0]

    def scattered(
        self, value: Any, spec: Spec, dim: int, axes: Sequence[str], left: Sequence[str], body: str
    ) -> Any:
        """The reduce-scatter of a value."""
        after = [[*on, *axes] if n == dim else on for n, on in enumerate(spec)]
        if body == ADD:
            self.code.sent.append(("reduce_scatter", tuple(axes)))
            by_dim = [list(axes) if n == dim else [] for n in range(len(spec))]
            given = {"reduce_scatter_axes": _axes_by_dim(by_dim)}
            return self._collective("reduce_scatter", value, after, left, given)

        def build(code: Code, operands: list[Any]) -> list[Any]:
            code.sent.append(("reduce_scatter", tuple(axes)))
            return [code.reduce_scatter(operands[0], axes, dim, body)]

        partial = [*axes, *left]
        return self.island([value], [(spec, partial)], [value.type], [(after, left)], build)[0]

    def compute(self, placed: Placed, operands: list[Any]) -> list[Any]:
        """The results of an op."""
        partial = placed.reduced if combiner(placed) == ADD else placed.passed
        if not ops.is_plain(placed):
            return self.island(
                operands,
                [(spec, ()) for spec in placed.operands],
                [result.type for result in placed.handle.results],
                [(spec, partial) for spec in placed.results],
                lambda code, local: ops.compute(code, placed, local),
            )
        copy = placed.handle.clone(ip=self.code.at).operation
        for index, operand in enumerate(operands):
            copy.operands[index] = operand
        if list(copy.results):
            found = [self._attributes.of(spec, partial) for spec in placed.results]
            copy.attributes[SDY] = sdy.TensorShardingPerValueAttr.get(found)
        return list(copy.results)

    def constant(self, op: Any, spec: Spec, operands: list[Any]) -> Any:
        """What an op of constants makes, annotated."""
        copy = op.clone(ip=self.code.at).operation
        for index, operand in enumerate(operands):
            copy.operands[index] = operand
        self.annotate(copy, [spec])
        return copy.results[0]

    def cut(self, value: Any, spec: Spec) -> Any:
        """A whole value in parts."""
        if not any(spec):
            return value
        given = {"slicing_axes": _axes_by_dim(spec)}
        return self._collective("all_slice", value, spec, (), given)

    def annotate(
        self, op: Any, specs: list[Spec], partial: Sequence[Sequence[str]] | None = None
    ) -> None:
        """Have an op say the layouts of its results, and over what they are partial."""
        if specs:
            op.attributes[SDY] = self._per_value(
                list(zip(specs, partial or [()] * len(specs), strict=True))
            )

    def zeros(self, whole: Any, spec: Spec, partial: Sequence[str]) -> Any:
        """Zeros that are partial sums of nothing."""
        made = self.code.splat(whole.shape, whole, 0)
        self.annotate(made.owner, [spec], [partial])
        return made

    def added(self, left: Any, right: Any, spec: Spec, partial: Sequence[str] = ()) -> Any:
        """The sum of two values, partial where both are."""
        made = self.code.binary("add", left, right)
        self.annotate(made.owner, [spec], [partial])
        return made

    def converted(self, value: Any, like: str, spec: Spec) -> Any:
        """A value with elements of another type."""
        made = self.code.convert(value, like)
        self.annotate(made.owner, [spec])
        return made

    def _collective(
        self, name: str, value: Any, spec: Spec, left: Sequence[str], given: dict[str, Any]
    ) -> Any:
        sharding = self._attributes.of(spec, left)
        return self.code.one(f"sdy.{name}", [value], value.type, out_sharding=sharding, **given)

    def island(
        self,
        operands: list[Any],
        given: list[tuple[Spec, Sequence[str]]],
        types: list[Any],
        made: list[tuple[Spec, Sequence[str]]],
        build: Build,
    ) -> list[Any]:
        """A computation on what one device holds, among whole tensors."""
        op = self.code.operation(
            "sdy.manual_computation",
            operands,
            types,
            regions=1,
            in_shardings=self._per_value(given),
            out_shardings=self._per_value(made),
            manual_axes=ir.Attribute.parse(f"#sdy<manual_axes{_names(self._devices.sizes)}>"),
        )
        local = [
            self.code.tensor(self._devices.local(self.code.shape(value), spec), value)
            for value, (spec, _) in zip(operands, given, strict=True)
        ]
        locations = [self.code.location] * len(local)
        block = op.regions[0].blocks.append(*local, arg_locs=locations)
        inner = Code(self._devices, block)
        inner.location = self.code.location
        results = build(inner, list(block.arguments))
        inner.op("sdy.return", results, [])
        self.code.sent += inner.sent
        return list(op.results)

    def _per_value(self, rows: list[tuple[Spec, Sequence[str]]]) -> Any:
        found = [self._attributes.of(spec, left) for spec, left in rows]
        return sdy.TensorShardingPerValueAttr.get(found)


def _names(axes: Sequence[str] | dict[str, int]) -> str:
    return "{" + ", ".join(f'"{axis}"' for axis in axes) + "}"


def _axes_by_dim(axes: Sequence[Sequence[str]]) -> Any:
    inside = ", ".join(map(_names, axes))
    return ir.Attribute.parse(f"#sdy<list_of_axis_ref_lists[{inside}]>")
