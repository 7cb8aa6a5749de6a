"""The budgets of docs/architecture.md: what may grow no further, row by row."""

import house
import pytest


@pytest.fixture(scope="module")
def figures():
    return house.sizes() | house.counts()


def test_every_figure_has_a_budget(figures):
    assert figures.keys() == house.budgets().keys()


@pytest.mark.parametrize("name", house.budgets())
def test_a_budget_is_kept(name, figures):
    limit, _ = house.budgets()[name]
    assert figures[name] <= limit, "make it smaller, or say in the same commit why the limit rises"


def test_lines_of_code_leave_out_comments_and_docstrings():
    source = '"""A docstring."""\n\n# A comment.\nx = (\n    1\n)\n'
    assert house.code_lines(source) == 3


def test_a_public_object_is_counted_once():
    names = house.public_names()
    assert "equipoise.solve" in names
    assert "equipoise.solvers.solve" not in names
