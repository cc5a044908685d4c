"""All architectures by name."""

from __future__ import annotations

from benchmarks.zoo.architecture import Architecture, usual
from benchmarks.zoo.families.huggingface import HuggingFace
from benchmarks.zoo.families.huggingface_senses import SENSES
from benchmarks.zoo.families.huggingface_text import DECODERS, ENCODERS, SEQ2SEQ


def _huggingface(rows: dict[str, HuggingFace], *more: str) -> list[Architecture]:
    return [
        Architecture(name=name, library="transformers", make=row.make, variants=variants)
        for name, row in rows.items()
        for variants in [usual(name, *more, *(["train-adamw-deep"] if row.depth else []))]
    ]


def architectures() -> dict[str, Architecture]:
    """Every architecture by its name."""
    rows = [
        *_huggingface(ENCODERS),
        *_huggingface(DECODERS, "prefill", "decode"),
        *_huggingface(SEQ2SEQ, "decode"),
        *_huggingface(SENSES),
    ]
    return {row.name: row for row in rows}
