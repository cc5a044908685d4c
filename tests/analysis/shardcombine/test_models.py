"""Every op of a training step: what is found is Shardy's rule, or differs for a known reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.shardcombine import Subject, compare, subject
from benchmarks.shardcombine_reasons import REASONS, reason
from examples.models import gpt, wideresnet
from tests.analysis.shardcombine.tools import Counting, one_op, ops_of, shardy_rule
from toast.analysis.rules import blocked
from toast.analysis.shardcombine import Discoverer


def compared(model: Any, folder: Path) -> Subject:
    one = subject("a model", [model.lower(model.PRESETS["tiny"])])
    discoverer = Discoverer(folder=folder, runner=Counting())
    compare(one, [discoverer.rule(op) for op in one.distinct])
    return one


def test_a_transformers_rules_are_shardys(tmp_path: Path) -> None:
    one = compared(gpt, tmp_path)
    assert one.differ == Counter()
    assert one.agree.total() > 100
    assert one.agree.total() + one.lone.total() == len(one.distinct)
    assert set(one.lone) == {"chlo.square"}


def test_a_convolutional_nets_rules_are_shardys_but_for_known_reasons(tmp_path: Path) -> None:
    one = compared(wideresnet, tmp_path)
    assert {key for _, key in one.differ} <= set(REASONS)
    assert {kind for kind, _ in one.differ} <= {
        "stablehlo.convolution",
        "stablehlo.reverse",
        "stablehlo.select_and_scatter",
        "stablehlo.slice",
    }
    assert one.agree.total() > 5 * one.differ.total()


def test_a_difference_nobody_expects_has_no_reason() -> None:
    with ops_of(one_op("%r = stablehlo.negate %0 : tensor<8xf32>", ["8xf32"])) as ops:
        nothing = blocked([(8,)], [(8,)])
        assert reason(ops[0], nothing, shardy_rule(ops[0])) not in REASONS
        assert reason(ops[0], None, shardy_rule(ops[0])) in REASONS
