"""From the template of `main` and the prototypes of its ops to the arrays of a `Program`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toast.analysis.program import Argument, Ints, Program, Result
from toast.analysis.prototypes import Prototypes
from toast.analysis.template import CONSTANT, Template


def build_program(
    template: Template,
    prototypes: Prototypes,
    arguments: Sequence[Argument],
    results: Sequence[str],
) -> Program:
    """The finished arrays. `results` are the names of what the last op, `return`, uses."""
    of = template.prototype.astype(np.int64)
    op_uses = _starts(prototypes.use_ranks.counts[of])
    op_values = _starts(prototypes.value_type.counts[of])
    op_factors = _starts(prototypes.factor_size.counts[of])
    assert len(template.source) == op_uses[-1], "an op with other operands than its prototype"
    value_shape = prototypes.value_shape.of(of)
    ranks = np.array([len(shape) for shape in prototypes.shapes], dtype=np.int64)
    dims = prototypes.value_size.at(of)
    factors = prototypes.factor_size.at(of)
    op_name = np.array(prototypes.name, dtype=np.int64)[of]
    return Program(
        names=tuple(prototypes.names),
        dtypes=tuple(prototypes.dtypes),
        known_shapes=tuple(prototypes.shapes),
        op_name=op_name,
        op_signature=np.array(prototypes.signature, dtype=np.int64)[of],
        op_content=template.content.astype(np.int64),
        op_trips=template.trips,
        op_strided=np.array(prototypes.strided, dtype=np.int64)[of],
        op_padded=np.array(prototypes.padded)[of],
        op_splits=np.array(prototypes.splits, dtype=np.int64)[of],
        op_placed=np.array(prototypes.placed, dtype=np.int64)[of],
        op_transformed=np.array(prototypes.transformed, dtype=np.int64)[of],
        op_folds=np.array(prototypes.folds, dtype=np.int64)[of],
        op_literal=np.array(prototypes.literal, dtype=np.bool_)[of],
        op_uses=op_uses,
        op_values=op_values,
        op_factors=op_factors,
        use_value=template.source.astype(np.int64),
        use_dims=_starts(prototypes.use_ranks.of(of)),
        use_name=_names(prototypes.use_factor.of(of), prototypes.use_factor.counts[of], op_factors),
        value_op=np.repeat(np.arange(len(of)), np.diff(op_values)),
        value_dims=_starts(ranks[value_shape]),
        value_type=prototypes.value_type.of(of),
        value_shape=value_shape,
        dim_size=prototypes.value_size.read(dims),
        dim_name=_names(
            prototypes.value_factor.read(dims), prototypes.value_factor.counts[of], op_factors
        ),
        factor_size=prototypes.factor_size.read(factors),
        factor_kind=prototypes.factor_kind.read(factors).astype(np.int8),
        factor_halo=prototypes.factor_halo.read(factors).astype(np.int32),
        links=_links(template.links.astype(np.int64), op_factors),
        constant=template.constancy == CONSTANT,
        arguments=tuple(arguments),
        results=tuple(
            Result(name=name, use=int(op_uses[-2]) + index) for index, name in enumerate(results)
        ),
        no_rule=_unknown(prototypes, of),
        warnings=template.warnings,
    )


def _starts(counts: Ints) -> Ints:
    """The start of each of these counts, and the end of the last one."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])


def _names(factors: Ints, counts: Ints, op_factors: Ints) -> Ints:
    """Names from factors that are numbered within their op, `counts` of them by op."""
    base = np.repeat(op_factors[:-1], counts)
    base += factors
    base[factors < 0] = -1
    return base


def _links(pairs: Ints, op_factors: Ints) -> Ints:
    """Pairs of factors, one by one, for pairs of ops."""
    found = [
        np.arange(op_factors[op], op_factors[op + 1])[:, None]
        + [0, op_factors[other] - op_factors[op]]
        for op, other in pairs.tolist()
    ]
    return np.concatenate([np.zeros((0, 2), dtype=np.int64), *found])


def _unknown(prototypes: Prototypes, of: Ints) -> dict[str, int]:
    """How many ops nobody had a rule for, by name, in the order of the first of each."""
    names = tuple(prototypes.names)
    unknown = of[np.array(prototypes.unknown, dtype=np.bool_)[of]]
    numbers = np.array(prototypes.name, dtype=np.int64)[unknown]
    found, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    order = np.argsort(first)
    return {names[found[i]]: int(counts[i]) for i in order.tolist()}
