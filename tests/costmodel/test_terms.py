"""Every kind of cost row is composed from its term alone."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

from tests.costmodel.training_steps import gemma_evaluator
from toast.costmodel import terms
from toast.costmodel.tables import Scratch, Tables
from toast.costmodel.terms.journal import Entry
from toast.costmodel.terms.tables import TERMS
from toast.costmodel.terms.term import Term

each_term = pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)


@each_term
def test_a_term_names_its_record_of_the_tables_and_its_kernel(term: Term[Any, Any]) -> None:
    assert term.name in Tables._fields
    module, _, kernel = term.kernel.partition(".")
    assert callable(getattr(import_module(f"toast.costmodel.kernels.{module}"), kernel).py_func)


@each_term
def test_rows_that_are_kept_have_arrays_and_dependencies(term: Term[Any, Any]) -> None:
    tables, scratch = gemma_evaluator().tables, gemma_evaluator().new_scratch()
    assert (term.scratch is not None) == (term.name in Scratch._fields)
    if term.scratch is not None:
        assert term.dependencies is not None
        part = getattr(gemma_evaluator().folded, term.name)
        assert len(getattr(scratch, term.name).stale) == term.rows(part)
    assert term.rows(getattr(tables, term.name)) >= 0


def test_a_change_of_any_row_of_any_term_is_one_flag() -> None:
    """The flags of all terms are parts of one array, in the order of the terms."""
    scratch = gemma_evaluator().new_scratch()
    kept = [term.name for term in TERMS if term.scratch is not None]
    scratch.changes.stale[:] = False
    for name in kept:
        stale = getattr(scratch, name).stale
        stale[:] = True
        assert scratch.changes.stale.sum() == len(stale)
        stale[:] = False
    assert sum(len(getattr(scratch, name).stale) for name in kept) == len(scratch.changes.stale)


def test_every_term_of_a_file_is_in_the_tables() -> None:
    modules = [
        import_module(f"{terms.__name__}.{one.name}") for one in iter_modules(terms.__path__)
    ]
    found = {one.name for file in modules for one in vars(file).values() if isinstance(one, Term)}
    assert found == {term.name for term in TERMS}


def test_every_entry_of_the_journal_is_of_one_term() -> None:
    parts = [part for term in TERMS for part in (term.fused, term.sent, term.stored)]
    told = [entry for part in parts for entry in part]
    assert sorted(told) == sorted(Entry)
