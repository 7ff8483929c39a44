"""The examples in the docstrings of every module of the layout algebra."""

import doctest
import importlib
import pkgutil

import pytest

import tilewright.layouts

ALGEBRA = (
    "complement",
    "composition",
    "divide",
    "draw",
    "int_tuple",
    "inverse",
    "layout",
    "memory",
    "majors",
    "modes",
    "parsing",
    "predicates",
    "product",
    "recast",
    "simplify",
    "swizzle",
)


@pytest.mark.parametrize("name", ALGEBRA)
def test_the_examples_hold(name: str) -> None:
    module = importlib.import_module(f"tilewright.layouts.{name}")
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


def test_no_module_of_the_algebra_is_left_out() -> None:
    modules = {module.name for module in pkgutil.iter_modules(tilewright.layouts.__path__)}
    assert set(ALGEBRA) <= modules
