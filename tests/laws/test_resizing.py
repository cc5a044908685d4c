"""A program can be had at other sizes, whatever its ops: what an op leaves no room for is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.chains import Text
from tests.laws.examples import few, many
from tests.laws.programs import programs
from toast.analysis.forms import decode
from toast.resize.resize import Resizer

FEW, MANY = few(60), many(2000)


def check(text: Text, sizes: dict[int, int]) -> None:
    """The written module is verified as it is written."""
    module = decode(text.module().encode()).module
    resizer = Resizer(module)
    before = str(module)
    resizer.write(resizer.solve())
    assert str(module) == before, "nothing was asked for"
    module = decode(text.module().encode()).module
    resizer = Resizer(module)
    found = resizer.solve(default=lambda size: sizes.get(size, size))
    resizer.write(found)
    shapes = [found.sizes.shape(nodes) for nodes in resizer.arguments]
    main = module.body.operations[0].regions[0].blocks[0]
    assert [tuple(value.type.shape) for value in main.arguments] == shapes


new_sizes = st.dictionaries(st.sampled_from((2, 3, 4, 6, 8, 12, 16)), st.integers(1, 20))


@FEW
@given(text=programs(), sizes=new_sizes)
def test_a_program_is_written_at_other_sizes(text: Text, sizes: dict[int, int]) -> None:
    check(text, sizes)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@MANY
@given(text=programs(most=10), sizes=new_sizes)
def test_a_long_program_is_written_at_other_sizes(text: Text, sizes: dict[int, int]) -> None:
    check(text, sizes)
