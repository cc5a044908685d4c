"""Cases are priced with one thing left out, once, and the page says what that did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.cases import Bench
from benchmarks.accuracy.records import read_records
from benchmarks.zoo.ablation import (
    PRICES,
    Corpus,
    corpora,
    price_all,
    read_summary,
    summarize,
    write_summary,
)
from benchmarks.zoo.ablation_page import ablation_text, change_table, worth
from benchmarks.zoo.variations import AS_IS, variations
from examples import mlp
from examples.forms import serialize
from tests.benchmarks.accuracy_samples import record
from toast.costmodel.compilers.profile import profile_of
from toast.costmodel.hardware.devices import find
from toast.costmodel.passes.registry import PASSES, without

KEY = "mlp/train-adam data=8 data_parallel tpu-v5e:2x4"
KNOWN = {one.name: one for one in variations()}


@pytest.fixture(scope="module")
def module() -> bytes:
    step = mlp.make_step(mlp.Config(batch=64, inputs=256, hidden=512, outputs=128))
    return serialize(step, "bytecode")


@pytest.fixture
def corpus(module: bytes) -> Corpus:
    bench = Bench.of(module, "data=8", "tpu-v5e:2x4")
    state = [[one.group, one.axis, one.bits] for one in bench.state("data_parallel")]
    rows = [record(KEY, state=state), {"key": "x", "model": "x", "error": "late"}]
    return Corpus(name="zoo, held-out", records=rows, module=lambda _: module)


def test_every_pass_and_constant_changes_some_profile() -> None:
    profiles = [profile_of(find(name)) for name in ("tpu-v5e", "tpu-v3", "a100-40gb")]
    assert set(PASSES) < set(KNOWN)
    for name, one in KNOWN.items():
        changed = any(one.of(profile) != profile for profile in profiles)
        assert changed == (name != AS_IS), name


def test_a_variation_of_a_pass_is_the_profile_without_it() -> None:
    profile = profile_of(find("tpu-v5e"))
    assert KNOWN["cse"].of(profile) == without(profile, ["cse"])
    assert KNOWN["fusion.operand_cost"].of(profile).fusion.operand_cost == 1.0


def test_what_was_priced_is_not_priced_again(corpus: Corpus, tmp_path: Path) -> None:
    wanted = [KNOWN[AS_IS], KNOWN["fusion"]]
    assert price_all([corpus], tmp_path, wanted, None) == 1
    assert price_all([corpus], tmp_path, wanted, None) == 0
    assert price_all([corpus], tmp_path, [*wanted, KNOWN["cse"]], None) == 1
    assert len(read_records(tmp_path / PRICES)) == 3


def test_prices_without_a_pass_are_those_of_the_model(
    corpus: Corpus, module: bytes, tmp_path: Path
) -> None:
    price_all([corpus], tmp_path, [KNOWN[AS_IS], KNOWN["fusion"]], None)
    prices = [row["prices"][KEY] for row in read_records(tmp_path / PRICES)]
    for found, left_out in zip(prices, ((), ("fusion",)), strict=True):
        bench = Bench.of(module, "data=8", "tpu-v5e:2x4", left_out)
        cost = bench.evaluator.cost(bench.state("data_parallel"))
        assert (found["compute_seconds"], found["room_bytes"]) == (cost.compute, cost.room)
    assert prices[0] != prices[1]


def test_the_summary_has_what_was_priced_to_the_end(corpus: Corpus, tmp_path: Path) -> None:
    price_all([corpus], tmp_path, [KNOWN[AS_IS], KNOWN["fusion"], KNOWN["space_to_batch"]], None)
    write_summary(summarize([corpus], tmp_path), tmp_path)
    rows = {row["without"]: row for row in read_summary(tmp_path)}
    assert set(rows) == {AS_IS, "fusion", "space_to_batch"}
    assert [rows[name]["changed"] for name in rows] == [0, 1, 0]
    text = ablation_text(list(rows.values()))
    assert "| space_to_batch | unseen |" in text
    assert "## Zoo, held-out" in text


def figures(**changes: float) -> dict[str, Any]:
    errors = (
        f"{kind}_{figure}"
        for kind in ("room", "pressed", "time")
        for figure in ("mean", "median", "ninth")
    )
    plain = dict.fromkeys((*errors, "verdicts", "wire", "rank"), 0.5)
    return {"cases": 9, "changed": 4, **plain, **changes}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"room_median": 0.6}, "pays"),
        ({"room_median": 0.4}, "does not pay"),
        ({"time_mean": 0.51}, "pays"),
        ({"wire": 0.4}, "pays"),
        ({"wire": 0.6}, "does not pay"),
        ({"room_median": 0.6, "time_median": 0.4}, "even"),
        ({"room_median": 0.501}, "even"),
        ({"rank": float("nan")}, "even"),
        ({"changed": 0}, "unseen"),
    ],
)
def test_a_rule_pays_where_figures_get_worse_without_it(
    changes: dict[str, float], word: str
) -> None:
    assert worth(figures(), figures(**changes)) == word


def test_the_table_says_by_how_much() -> None:
    rows = {AS_IS: figures(), "cse": figures(room_mean=0.62, wire=0.45)}
    lines = change_table(rows).splitlines()
    assert lines[2].startswith("| as it is | 9 | 50.0 |")
    assert lines[3].startswith("| cse | 4 | +12.0 |")
    assert "-5.0" in lines[3]


def test_the_corpora_are_both_halves_of_both_benchmarks(tmp_path: Path) -> None:
    for name in ("tuning-a", "heldout-a"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"key": name}))
    found = corpora(tmp_path, tmp_path)
    assert [one.name for one in found] == [
        "zoo, tuning", "zoo, held-out", "models, tuning", "models, held-out"
    ]  # fmt: skip
    assert [one.records[0]["key"] for one in found[:2]] == ["tuning-a", "heldout-a"]


def test_cases_at_batches_chosen_for_a_chip_may_be_left_out(tmp_path: Path) -> None:
    rows = [{"key": "own"}, {"key": "chosen", "batch": 64}]
    (tmp_path / "tuning-a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "heldout-a.jsonl").write_text("")
    assert [len(one.records) for one in corpora(tmp_path, tmp_path)[:2]] == [2, 0]
    found = corpora(tmp_path, tmp_path, own_batch=True)
    assert [row["key"] for row in found[0].records] == ["own"]


def test_figures_of_a_corpus_that_is_not_priced_again_stay(tmp_path: Path) -> None:
    def row(corpus: str, cases: int) -> dict[str, Any]:
        return {"corpus": corpus, "without": AS_IS, "cases": cases}

    write_summary([row("zoo", 1), row("models", 2)], tmp_path)
    write_summary([row("zoo", 3)], tmp_path)
    assert read_summary(tmp_path) == [row("zoo", 3), row("models", 2)]
