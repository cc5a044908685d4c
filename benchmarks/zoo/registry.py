"""All architectures by name."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.zoo.architecture import Architecture, usual
from benchmarks.zoo.families import tables
from benchmarks.zoo.families.huggingface import HuggingFace
from benchmarks.zoo.families.huggingface_senses import SENSES
from benchmarks.zoo.families.huggingface_text import DECODERS, ENCODERS, SEQ2SEQ
from benchmarks.zoo.families.rows import Row
from benchmarks.zoo.variant import POLICIES

_RECOMPUTED = tuple(f"train-adamw-{policy}" for policy in POLICIES)
_FAMILIES: tuple[tuple[str, Mapping[str, HuggingFace | Row], tuple[str, ...]], ...] = (
    ("transformers", ENCODERS, ()),
    ("transformers", DECODERS, ("prefill", "decode")),
    ("transformers", SEQ2SEQ, ("decode",)),
    ("transformers", SENSES, ()),
    ("flax", tables.LINEN, ()),
    ("flax", tables.SCANNED, _RECOMPUTED),
    ("jraph", tables.JRAPH, ()),
    ("flax", tables.NNX, ()),
    ("equinox", tables.EQUINOX, ()),
    ("dm-haiku", tables.HAIKU, ()),
    ("diffusers", tables.DIFFUSERS, ()),
)
_MORE = {"scanned_text": ("decode", "train-adafactor-nothing_saveable-deep")}


def architectures() -> dict[str, Architecture]:
    """Every architecture by its name."""
    rows = (
        Architecture(
            name=name,
            library=library,
            make=row.make,
            variants=usual(
                name, *more, *_MORE.get(name, ()), *(["train-adamw-deep"] if row.depth else [])
            ),
        )
        for library, family, more in _FAMILIES
        for name, row in family.items()
    )
    return {row.name: row for row in rows}
