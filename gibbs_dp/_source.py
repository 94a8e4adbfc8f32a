"""Definitions of this package and of users' files, found in their sources without importing."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
# Users' files whose definitions are read too, by the names of their modules.
_own: dict[str, Path] = {}


def add_own(module: str, path: Path) -> None:
    """Let definitions be found in a user's file too."""
    _own[module] = path


def own_code(kind: type) -> str:
    """Digest of a class's code without comments, of its bases too; "" where all are of libraries.

    Functions that its methods call are not seen, nor code that is in no file.
    """
    texts = []
    for base in kind.__mro__:
        home = base.__module__.partition(".")[0]
        if home == ROOT.name or home in sys.stdlib_module_names:
            continue
        try:
            source = textwrap.dedent(inspect.getsource(base))
            texts.append(ast.unparse(ast.parse(source)))
        except (OSError, TypeError, SyntaxError):
            continue
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] if texts else ""


def find(module: str, name: str) -> tuple[str, ast.AST | None]:
    """Follow imports to where a name is defined: that module, and a definition or value."""
    while module in _own or module.partition(".")[0] == ROOT.name:
        found = _names(module).get(name)
        if not isinstance(found, tuple):
            return module, found
        if found == (module, name):  # a module of this package
            break
        module, name = found
    return module, None


def exports(package: str) -> dict[str, str]:
    """Names that a package has from its own modules, and these."""
    homes = {name: home[0] for name, home in _names(package).items() if isinstance(home, tuple)}
    return {name: home for name, home in homes.items() if home.startswith(f"{ROOT.name}.")}


@cache
def _names(module: str) -> dict[str, ast.AST | tuple[str, str]]:
    """Top-level names of a module: what they are bound to, or where they are imported from."""
    path = ROOT.joinpath(*module.split(".")[1:])
    files = [_own.get(module) or path.with_suffix(".py")]
    if path.is_dir() and module not in _own:  # the names of lazy packages are in their stubs
        files = [path / "__init__.py", path / "__init__.pyi"]
    found: dict[str, ast.AST | tuple[str, str]] = {}
    body = [
        node
        for file in files
        if file.is_file()
        for node in ast.parse(file.read_text(encoding="utf-8")).body
    ]
    typed = [inner for node in body if isinstance(node, ast.If) for inner in node.body]
    for node in [*body, *typed]:  # imports under TYPE_CHECKING too
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = node
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = zip(targets, values, strict=False)
                found |= {t.id: value for t, value in pairs if isinstance(t, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.Import(names=names):
                found |= {a.asname: (a.name, "") for a in names if a.asname}
                found |= {a.name: (a.name, "") for a in names if not a.asname and "." not in a.name}
            case ast.ImportFrom(module=home, names=names, level=level):
                home = home or ""
                if level == 1:  # in stubs, from the package itself
                    home = f"{module}.{home}".rstrip(".")
                found |= {alias.asname or alias.name: (home, alias.name) for alias in names}
    return found


def value_of(module: str, node: ast.AST | None) -> Any:
    """Evaluate a default, if it is written out; None otherwise."""
    if isinstance(node, ast.Name):
        module, node = find(module, node.id)
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


@cache
def losses_of(*labels: str) -> dict[str, str]:
    """Names of the built-in losses that take some kinds of labels, and their classes.

    >>> losses_of("counts")
    {'poisson': 'Poisson'}
    """
    found = {}
    for name in exports("gibbs_dp.model.losses"):
        home, node = find("gibbs_dp.model.losses", name)
        # Bases leave the constants to the losses that derive from them.
        if not isinstance(node, ast.ClassDef) or "constants" not in _members(node):
            continue
        if _inherited(home, node, "labels") in labels:
            own = _members(node).get("name")
            found[str(value_of(home, own) or name.lower())] = name
    return found


def _members(node: ast.ClassDef) -> dict[str, ast.AST | None]:
    """Values and methods of a class, without those of its bases."""
    found: dict[str, ast.AST | None] = {}
    for member in node.body:
        match member:
            case ast.FunctionDef(name=name):
                found[name] = member
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                found[name] = value
    return found


def _inherited(module: str, node: ast.ClassDef, attribute: str) -> Any:
    """Value of a class's attribute, its own or the first base's that has it."""
    members = _members(node)
    if attribute in members:
        return value_of(module, members[attribute])
    for base in node.bases:
        if isinstance(base, ast.Name):
            home, parent = find(module, base.id)
            if isinstance(parent, ast.ClassDef):
                return _inherited(home, parent, attribute)
    return None
