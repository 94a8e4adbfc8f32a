"""What every public docstring has to have."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gibbs_dp

HOUSE = Path(gibbs_dp.__file__).parent
# Rooms whose docstrings were brought up to this standard.
ROOMS = (
    *("information", "io", "model", "estimators", "exact", "sampling", "engine", "problems"),
    *("privacy", "holdout", "quantities", "one_dataset", "auditing", "papers"),
)


def public_functions(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator:
    """Functions and methods, with dotted names, that no leading underscore hides."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield prefix + node.name, node


def lacks_returns(function: ast.FunctionDef) -> bool:
    """Whether parameters are described, and what is returned is not."""
    returned = ast.unparse(function.returns) if function.returns else "None"
    lines = [line.strip() for line in (ast.get_docstring(function) or "").splitlines()]
    return returned != "None" and "Parameters" in lines and not {"Returns", "Yields"} & set(lines)


@pytest.mark.parametrize("room", ROOMS)
def test_who_describes_parameters_describes_what_is_returned(room):
    files = [f for f in sorted((HOUSE / room).rglob("*.py")) if not f.name.startswith("_")]
    assert files
    found = [
        f"{file.relative_to(HOUSE)}: {name}"
        for file in files
        for name, function in public_functions(ast.parse(file.read_text()))
        if lacks_returns(function)
    ]
    assert not found, "no Returns section: " + ", ".join(found)


def test_a_missing_returns_section_is_found():
    text = '"""Add.\n\n    Parameters\n    ----------\n    x\n        A number.\n    {}"""'
    returns = "\n    Returns\n    -------\n    float\n        The sum.\n    "
    for section, annotation, is_missing in (
        ("", "float", True),
        (returns, "float", False),
        ("", "None", False),
    ):
        source = f"class A:\n  def f(x) -> {annotation}:\n    {text.format(section)}"
        ((name, function),) = public_functions(ast.parse(source))
        assert (name, lacks_returns(function)) == ("A.f", is_missing)
