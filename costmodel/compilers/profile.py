"""A compiler as the cost model sees it: one TOML file each beside this module.

Each key of a file is a table with its `value`, its `source` (what was compiled, with which version)
and its `probe`: the module under `benchmarks/probes` that asks the compiler again, "accuracy" for
what was read off or fitted to the compiled plans of `benchmarks.accuracy`, or "none". Where a
compiler behaves differently by chip generation, `[chip."tpu-v3".fusion.stores_reduced]` has the key
for that chip. A file that is `like` another says only what is different there.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from toast.costmodel.compilers import rules
from toast.costmodel.hardware.devices import SUFFIX, Device
from toast.costmodel.hardware.typed_toml import Ranges, TypedToml

_PACKAGE = "toast.costmodel.compilers"
_RANGES = Ranges(
    may_be_zero=frozenset(
        {
            "summed_bytes",
            "summed_rows",
            "scatter_launches",
            "gather_launches",
            "scoped_bytes",
            "piece_share",
            "products",
            "holes",
        }
    ),
    parts=frozenset({"streamed_from"}),
)
_HINT = "costmodel/compilers/rules.py says what each key means."
_OVERRIDE_HINT = (
    "The sections and keys of a compiler are in costmodel/compilers/rules.py, and their values for "
    "each chip in the TOML files beside it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a key was read off, and the probe that reads it off again."""

    source: str
    probe: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerProfile:
    """What a compiler does for one generation of chips, pass by pass; see `rules` for the keys."""

    name: str
    constant_folding: rules.ConstantFoldingRules
    scatter_expander: rules.ScatterExpanderRules
    algebraic_simplifier: rules.AlgebraicSimplifierRules
    fusion: rules.FusionRules
    multi_output_fusion: rules.MultiOutputFusionRules
    reduction_fusion: rules.ReductionFusionRules
    dot_strength_reduction: rules.DotStrengthReductionRules
    dot_tiling: rules.DotTilingRules
    convolution_tiling: rules.ConvolutionTilingRules
    fourier_transforms: rules.FourierTransformsRules
    scatter_fusion: rules.ScatterFusionRules
    cse: rules.CseRules
    all_reduce_combiner: rules.AllReduceCombinerRules
    all_reduce_reassociate: rules.AllReduceReassociateRules
    while_loop_all_reduce_motion: rules.WhileLoopAllReduceMotionRules
    while_loop_invariant_code_motion: rules.WhileLoopInvariantCodeMotionRules
    reduce_scatter_creator: rules.ReduceScatterCreatorRules
    bf16_narrowing: rules.Bf16NarrowingRules
    layout_assignment: rules.LayoutAssignmentRules
    space_to_batch: rules.SpaceToBatchRules
    buffer_assignment: rules.BufferAssignmentRules
    dynamic_update_slice: rules.DynamicUpdateSliceRules
    memory_space_assignment: rules.MemorySpaceAssignmentRules
    rematerialization: rules.RematerializationRules
    spmd_partitioner: rules.SpmdPartitionerRules

    def changed(self, keys: Mapping[str, Mapping[str, Any]]) -> CompilerProfile:
        """The same but for some keys, by section."""
        sections = {
            section: dataclasses.replace(getattr(self, section), **dict(values))
            for section, values in keys.items()
        }
        return dataclasses.replace(self, **sections)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerFile:
    """What the file of a compiler says: `chips` are the profiles of generations that differ.

    `evidence` is by `section.key`, and by `chip.GENERATION.section.key`.
    """

    name: str
    version: str
    description: str
    profile: CompilerProfile
    chips: dict[str, CompilerProfile]
    evidence: dict[str, Evidence]


def profile_of(device: Device) -> CompilerProfile:
    """What the compiler for a device does; raises `InvalidDevice` for overrides of no known key."""
    found = compiler(device.compiler)
    profile = found.chips.get(device.generation, found.profile)
    if not device.overrides:
        return profile
    reader = TypedToml(f"The device {device.name}", _OVERRIDE_HINT, _RANGES)
    reader.only(device.overrides, _sections(), "overrides.")
    keys = {
        section: {
            key: _checked(reader, section, key, value, f"overrides.{section}.")
            for key, value in values.items()
        }
        for section, values in device.overrides.items()
    }
    return profile.changed(keys)


@cache
def compiler(name: str) -> CompilerFile:
    """The compiler of that name."""
    text = resources.files(_PACKAGE).joinpath(name + SUFFIX).read_text(encoding="utf-8")
    return read_compiler(text, name + SUFFIX)


def read_compiler(text: str, where: str) -> CompilerFile:
    """The compiler that a TOML text describes; raises `InvalidDevice` where it is mistaken."""
    return _ProfileReader(where, _HINT, _RANGES, text).compiler(text)


class _ProfileReader(TypedToml):
    """Checks one file."""

    def compiler(self, text: str) -> CompilerFile:
        """The compiler, or the first mistake."""
        data = self.parse(text)
        heads = ("name", "version", "description", "like")
        self.only(data, {*heads, "chip", *_sections()}, "")
        told = {
            key: self.value(key, data.get(key, "" if key == "like" else None), str) for key in heads
        }
        base = compiler(told["like"]) if told["like"] else None
        keys, evidence = self._keys({k: data[k] for k in _sections() if k in data}, "")
        if base is not None:
            profile = dataclasses.replace(base.profile.changed(keys), name=told["name"])
            evidence = base.evidence | evidence
        else:
            profile = self._whole(told["name"], keys)
        chips = {}
        for chip, sections in self.table("chip", data.get("chip", {})).items():
            place = f"chip.{chip}."
            self.only(self.table(place[:-1], sections), _sections(), place)
            others, more = self._keys(sections, place)
            chips[chip] = profile.changed(others)
            evidence |= more
        return CompilerFile(
            name=told["name"],
            version=told["version"],
            description=told["description"],
            profile=profile,
            chips=chips,
            evidence=evidence,
        )

    def _whole(self, name: str, keys: Mapping[str, Mapping[str, Any]]) -> CompilerProfile:
        """A profile of which every key has to be there."""
        for section, record in _sections().items():
            for key in dataclasses.fields(record):
                if key.name not in keys.get(section, {}):
                    self.fail(f"{section}.{key.name}", "is missing")
        made = {section: record(**keys[section]) for section, record in _sections().items()}
        return CompilerProfile(name=name, **made)

    def _keys(
        self, data: Mapping[str, Any], prefix: str
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Evidence]]:
        """The values of keys by section, and their evidence by name."""
        keys: dict[str, dict[str, Any]] = {}
        evidence = {}
        for section, tables in data.items():
            for key, table in self.table(prefix + section, tables).items():
                place = f"{prefix}{section}.{key}"
                told = {"value", *(field.name for field in dataclasses.fields(Evidence))}
                self.only(self.table(place, table), told, f"{place}.")
                if "value" not in table:
                    self.fail(f"{place}.value", "is missing")
                value = _checked(self, section, key, table["value"], f"{prefix}{section}.")
                keys.setdefault(section, {})[key] = value
                texts = {name: text for name, text in table.items() if name != "value"}
                evidence[place] = Evidence(**self.values(Evidence, texts, f"{place}."))
        return keys, evidence


def _checked(reader: TypedToml, section: str, key: str, value: Any, prefix: str) -> Any:
    """A value of the type that the key of a section has."""
    hints = typing.get_type_hints(_sections()[section])
    reader.only((key,), hints, prefix)
    return reader.value(prefix + key, value, hints[key])


@cache
def _sections() -> dict[str, type]:
    """The record of each section of a profile."""
    hints = typing.get_type_hints(CompilerProfile)
    return {section: record for section, record in hints.items() if section != "name"}
