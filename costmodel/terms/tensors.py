"""Tensors: what is laid out, and how many bytes of each are on a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toast.analysis.program import Floats, Ints, Program
from toast.costmodel.compilers.profile import CompilerProfile
from toast.costmodel.passes.matrix_layouts import matrices, matrix_rows
from toast.costmodel.passes.space_to_batch import image_rows, images, in_forms
from toast.costmodel.passes.window_layouts import column_rows, table_rows
from toast.costmodel.program.arrays import flat, floats, starts
from toast.costmodel.program.sharding_units import Layouts


class Tensors(NamedTuple):
    """By tensor: bytes of an element, its dimensions from `start[n]` on, and its image.

    By dimension: the size and the item that says which axes it has, or -1. `image` [tensors, 8] is
    as `space_to_batch.Image.row`, `matrix` [tensors, 2] the dimensions of the matrices of a batch,
    or -1. `columns` [tensors] are as bits the dimensions that fill columns where it lies row by
    row, `table` [tensors] is that in which it is looked up, or to which it is added, or -1.
    """

    itemsize: Floats
    start: Ints
    dim_size: Ints
    dim_item: Ints
    image: Ints
    matrix: Ints
    columns: Ints
    table: Ints


class TensorScratch(NamedTuple):
    """Bytes of each tensor on one device.

    `local` as they are sent, `stored` with what pads them in memory, `given` of an argument.
    """

    local: Floats
    stored: Floats
    given: Floats


def tensor_columns(program: Program, layouts: Layouts, profile: CompilerProfile) -> Tensors:
    """The columns of all tensors."""
    rules = profile.layout_assignment
    found = in_forms(program, images(program, rules), profile.space_to_batch)
    dims = [dims for _, dims in layouts.tensors]
    return Tensors(
        itemsize=floats([size for size, _ in layouts.tensors]),
        start=starts(dims),
        dim_size=flat([[size for size, _ in row] for row in dims]),
        dim_item=flat([[item for _, item in row] for row in dims]),
        image=image_rows(layouts, found),
        matrix=matrix_rows(layouts, matrices(program, rules)),
        columns=column_rows(program, layouts),
        table=table_rows(program, layouts),
    )


def tensor_scratch(tensors: Tensors) -> TensorScratch:
    """Working arrays for sizes."""
    local, stored, given = (np.zeros(len(tensors.itemsize)) for _ in range(3))
    return TensorScratch(local=local, stored=stored, given=given)
