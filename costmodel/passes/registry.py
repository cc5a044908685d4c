"""The behaviours of compilers that the model imitates, and how to leave one out.

A pass has the name that XLA gives it, as have the section of its keys in a compiler's profile and
its section in docs/compilers.md. Leaving it out means that the compiler is taken not to do it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toast.analysis.errors import InvalidRequest
from toast.costmodel.compilers.profile import CompilerProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One behaviour: what it models, and the values of its keys that leave it out."""

    name: str
    models: str
    off: Mapping[str, bool | float]

    @property
    def file(self) -> str:
        """The file that models it."""
        return f"costmodel/passes/{self.name}.py"


PASSES: Mapping[str, Pass] = {
    one.name: one
    for one in (
        Pass(
            name="constant_folding",
            models="Constants, and what is looked up in them, lie whole on every device.",
            off={"stores_constants": False},
        ),
        Pass(
            name="scatter_expander",
            models="One element a row is a select; windows are placed in loops; pools keep places.",
            off={
                "expands": False,
                "keeps_places": False,
                "adds_few_in_place": False,
                "scatter_launches": 0.0,
                "gather_launches": 0.0,
            },
        ),
        Pass(
            name="algebraic_simplifier",
            models="A product is made for the one slice that is read; sums of sums are one sum.",
            off={"cuts_products": False, "joins_reductions": False},
        ),
        Pass(
            name="fusion",
            models="Ops are computed inside what reads them, products take in what surrounds them.",
            off={"fuses": False, "fuses_into_update": False},
        ),
        Pass(
            name="multi_output_fusion",
            models="Elementwise fusions that feed each other, or read one value, become one.",
            off={"merges": False},
        ),
        Pass(
            name="reduction_fusion",
            models="Reductions run beside the product, or the reduction, that reads the same.",
            off={"merges": False},
        ),
        Pass(
            name="dot_strength_reduction",
            models="Batches of products of one row are multiplied and added up on the vector unit.",
            off={"reduces_rows": False},
        ),
        Pass(
            name="dot_tiling",
            models="Products of large operands are made in blocks, and read the operands again.",
            off={"rereads_operands": False},
        ),
        Pass(
            name="convolution_tiling",
            models="Convolutions take whole tiles of the matrix unit.",
            off={"fills_tiles": False, "hands_over": False},
        ),
        Pass(
            name="fourier_transforms",
            models="Fourier transforms are products with matrices of waves.",
            off={"products": 0.0},
        ),
        Pass(
            name="scatter_fusion",
            models="Rows are made inside the sum of rows that they are added to.",
            off={"summed_bytes": 0.0},
        ),
        Pass(
            name="cse",
            models="Identical ops with identical shardings are merged.",
            off={"merges_identical_ops": False},
        ),
        Pass(
            name="all_reduce_combiner",
            models="Sums over the same axes that nothing waits for are sent together.",
            off={"combines": False, "updates_late": False},
        ),
        Pass(
            name="all_reduce_reassociate",
            models="Partial sums that are only added to each other are summed once.",
            off={"reassociates": False},
        ),
        Pass(
            name="while_loop_all_reduce_motion",
            models="What a loop only adds to a value that it carries is summed behind the loop.",
            off={"moves": False},
        ),
        Pass(
            name="while_loop_invariant_code_motion",
            models="What a loop makes of nothing that it changes is made before the loop.",
            off={"moves": False},
        ),
        Pass(
            name="reduce_scatter_creator",
            models="Sums over devices of which each keeps a part are scattered.",
            off={"creates": False},
        ),
        Pass(
            name="bf16_narrowing",
            models="f32 that only products read is stored, stacked and sent in 16 bits.",
            off={
                "narrows_stored": False,
                "narrows_stacks": False,
                "rounds_arguments": False,
                "narrows_gathers": False,
                "narrows_concatenations": False,
                "widens_errors": False,
            },
        ),
        Pass(
            name="layout_assignment",
            models="Values fill tiles in memory, and are copied where layouts differ.",
            off={
                "copies_arguments": False,
                "pads_values": False,
                "pads_images": False,
                "copies_images": False,
                "copies_padded": False,
                "parts_groups": False,
                "lays_matrices": False,
                "turns_tables": False,
                "turns_added": False,
                "copies_parts": False,
            },
        ),
        Pass(
            name="space_to_batch",
            models="Few images are convolved in blocks of pixels.",
            off={"convolves_in_blocks": False},
        ),
        Pass(
            name="buffer_assignment",
            models="Values share a buffer where they can.",
            off={
                "reuses_buffers": False,
                "adds_in_place": False,
                "multiplies_at_once": False,
                "holes": 0.0,
            },
        ),
        Pass(
            name="dynamic_update_slice",
            models="What reads a buffer behind an update of a part of it fetches it.",
            off={"fetches_buffer": False},
        ),
        Pass(
            name="memory_space_assignment",
            models="Tensors wait in the memory on the chip between fusions.",
            off={"assigns": False},
        ),
        Pass(
            name="rematerialization",
            models="A program too large for the device is computed again in parts, to fit.",
            off={"recomputes": False},
        ),
        Pass(
            name="spmd_partitioner",
            models="Small fusions beside a collective cut, pack and put in place what it moves.",
            off={"packs": False, "gathers_complex": False},
        ),
    )
}
"""All passes by name, in the order of the sections of a profile."""


def without(profile: CompilerProfile, names: Iterable[str]) -> CompilerProfile:
    """What a compiler would do without some passes; raises InvalidRequest for unknown names."""
    left_out = list(names)
    known_passes(left_out)
    return profile.changed({name: PASSES[name].off for name in left_out})


def known_passes(names: Iterable[str]) -> None:
    """Raise InvalidRequest where a name is that of no pass."""
    for name in names:
        if name not in PASSES:
            raise InvalidRequest(
                f"There is no pass {name!r} to leave out.", f"The passes: {', '.join(PASSES)}."
            )
