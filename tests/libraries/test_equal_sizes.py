"""Dimensions are told apart by what is done with them, not by their sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from examples.forms import Step, serialize
from examples.libraries import LIBRARIES, equinox_models, huggingface, nnx_models
from tests.modules import colours_of
from toast.analysis.analyse import analyse
from toast.analysis.load import load

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]


def _gpt2(batch: int, seq: int, width: int, heads: int, hidden: int, vocabulary: int) -> Step:
    sizes = {"n_layer": 2, "n_embd": width, "n_head": heads, "n_inner": hidden}
    return huggingface.gpt2(batch, seq, vocab_size=vocabulary, n_positions=64, **sizes)


def _bert(batch: int, seq: int, width: int, heads: int, hidden: int, vocabulary: int) -> Step:
    return huggingface.bert(
        batch,
        seq,
        num_hidden_layers=2,
        hidden_size=width,
        intermediate_size=hidden,
        num_attention_heads=heads,
        vocab_size=vocabulary,
        max_position_embeddings=64,
    )


def _t5(batch: int, seq: int, width: int, heads: int, hidden: int, vocabulary: int) -> Step:
    sizes = {"num_layers": 2, "d_model": width, "d_kv": width // heads, "d_ff": hidden}
    return huggingface.t5(batch, seq, seq, num_heads=heads, vocab_size=vocabulary, **sizes)


def _nnx(batch: int, seq: int, width: int, heads: int, hidden: int, vocabulary: int) -> Step:
    del hidden
    return nnx_models.transformer(
        batch, seq, vocabulary=vocabulary, d_model=width, heads=heads, layers=2
    )


def _equinox(batch: int, seq: int, width: int, heads: int, hidden: int, vocabulary: int) -> Step:
    del hidden
    return equinox_models.transformer(
        batch, seq, vocabulary=vocabulary, d_model=width, heads=heads, layers=2
    )


Make = Callable[[int, int, int, int, int, int], Step]
CASES: dict[str, Make] = {
    "gpt2": _gpt2,
    "bert": _bert,
    "t5": _t5,
    "nnx_transformer": _nnx,
    "equinox_transformer": _equinox,
}


def partition(step: Step) -> list[int]:
    """The colour of every dimension of every argument, numbered by first appearance."""
    analysis = analyse(load(serialize(step, "bytecode")).program)
    number: dict[int, int] = {-1: -1}
    return [
        number.setdefault(colour, len(number))
        for argument in analysis.program.arguments
        for colour in colours_of(analysis, argument.value)
    ]


@pytest.mark.parametrize("name", CASES)
def test_equal_sizes_join_nothing(name: str) -> None:
    missing = LIBRARIES[name].missing()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; see `.[libraries]`")
    make = CASES[name]
    apart = make(6, 30, 80, 5, 112, 250)
    alike = make(64, 64, 64, 8, 64, 64)
    assert partition(alike) == partition(apart)
