"""From findings to factors."""

from __future__ import annotations

from tests.analysis.shardcombine.tools import found_rule, one_op, ops_of, shardy_rule
from toast.analysis.program import FactorKind
from toast.analysis.shardcombine.compare import splits
from toast.analysis.shardcombine.findings import Combine, Discovery, Finding, How
from toast.analysis.shardcombine.torule import kind_of, rule_of

P, R, B, H = FactorKind.PARALLEL, FactorKind.REDUCTION, FactorKind.BLOCKED, FactorKind.HALO


def gather(dim: int) -> Combine:
    return Combine(how=How.GATHER, dim=dim)


def finding(
    *dims: int, combine: Combine, halo: tuple[int, int] = (0, 0), divided: str = ""
) -> Finding:
    return Finding(dims=dims, combines=(combine,), halo=halo, divided=divided)


def test_findings_become_factors_and_the_rest_is_blocked() -> None:
    found = Discovery(
        findings=(
            finding(0, -1, combine=gather(0)),
            finding(1, 0, combine=Combine(how=How.REDUCE, reduce="sum")),
        )
    )
    rule = rule_of(found, [(64, 32), (32, 16)], [(64, 16)])
    assert rule.sizes == (64, 32, 16, 16)
    assert rule.kinds == (P, R, B, B)
    assert rule.operands == (((0,), (1,)), ((1,), (2,)))
    assert rule.results == (((0,), (3,)),)
    assert rule.known


def test_sizes_that_differ_share_their_common_divisor() -> None:
    rule = rule_of(Discovery(findings=(finding(0, combine=gather(0)),)), [(24,)], [(8, 3)])
    assert rule.sizes[:2] == (8, 3)
    assert rule.kinds[:2] == (P, B)
    assert rule.operands == (((0, 1),),)
    assert rule.results[0][0] == (0,)


def test_no_more_shards_than_groups() -> None:
    found = Discovery(findings=(finding(0, combine=gather(0), divided="feature_group_count"),))
    rule = rule_of(found, [(64,)], [(32,)], {"feature_group_count": 4})
    assert rule.operands == (((0, 1),),)
    assert rule.results == (((0, 2),),)
    assert rule.sizes == (4, 16, 8)
    assert rule.kinds == (P, B, B)


def test_a_halo_keeps_the_size_of_its_operand() -> None:
    found = Discovery(findings=(finding(0, combine=gather(0), halo=(1, 1)),))
    rule = rule_of(found, [(56,)], [(54,)])
    assert (rule.sizes, rule.kinds) == ((56,), (H,))
    assert rule.operands == rule.results == (((0,),),)


def test_kinds_follow_the_combines() -> None:
    halo = Combine(how=How.HALO, dim=0, before=1)
    blocks = Combine(how=How.BLOCKS, dim=0, blocks=3)
    total = Combine(how=How.REDUCE, reduce="max")
    assert kind_of(finding(0, combine=gather(0))) is P
    assert kind_of(finding(0, combine=gather(0), halo=(1, 0))) is H
    assert kind_of(finding(0, combine=halo)) is H
    assert kind_of(finding(0, combine=blocks)) is B
    assert kind_of(finding(0, combine=total, halo=(1, 1))) is R


def test_groups_of_a_convolution_are_shardys_factor() -> None:
    text = (
        "%r = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
        "window = {pad = [[1, 1]]} "
        "{batch_group_count = 1 : i64, feature_group_count = 64 : i64} "
        ": (tensor<8x32x64xf32>, tensor<3x1x64xf32>) -> tensor<8x32x64xf32>"
    )
    with ops_of(one_op(text, ["8x32x64xf32", "3x1x64xf32"])) as ops:
        assert splits(found_rule(ops[0])) == splits(shardy_rule(ops[0]))


def test_splits_ignore_names_and_what_cannot_be_split() -> None:
    one = rule_of(Discovery(findings=(finding(1, combine=gather(0)),)), [(1, 8)], [(8, 5)])
    assert splits(one) == {(P, frozenset({(0, 1), (1, 0)}))}
