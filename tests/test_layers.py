"""The house is as CONTRIBUTING draws it: imports go up the list of rooms, never in circles."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import gibbs_dp

ROOT = Path(gibbs_dp.__file__).parent
# Files beside the rooms, which any of them may use, or which use them all: the door.
LOW = {"_version", "_source", "_options", "_cautions", "_extras", "_progress", "random"}
TOP = {"__init__", "losses", "populations", "priors", "supports"}


def rooms():
    """Rooms in the order of CONTRIBUTING's list."""
    text = (ROOT.parent / "CONTRIBUTING.md").read_text()
    return re.findall(r"^ {4}(\w+)/ ", text, flags=re.MULTILINE)


@cache
def imports():
    """Module -> modules of this package that it imports at any time, as dotted paths."""
    modules = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found = {}
    for name, path in modules.items():
        wanted = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gibbs_dp"):
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                wanted |= (inner & modules.keys()) or {node.module}
        found[name] = wanted - {name}
    return found


def room_of(module):
    return [*module.split("."), "__init__"][1]


def test_every_room_is_in_the_list():
    assert set(rooms()) == {p.parent.name for p in ROOT.glob("*/__init__.py")}


def test_imports_go_up_the_list():
    order = {room: i for i, room in enumerate(rooms())} | dict.fromkeys(LOW, -1)
    order |= dict.fromkeys(TOP, len(order))
    wrong = [
        f"{name} imports {other}"
        for name, wanted in imports().items()
        for other in wanted
        if order[room_of(other)] > order[room_of(name)] and room_of(name) not in LOW
    ]
    assert not wrong


def test_nothing_but_the_command_line_needs_the_papers():
    found = imports()
    users = {room_of(name) for name, wanted in found.items() if "papers" in map(room_of, wanted)}
    assert users == {"papers", "cli"}


def test_no_file_imports_itself_by_way_of_others():
    # Packages' faces re-export what is inside them; files are what can go in circles.
    files = {name: {w for w in wanted if "." in w} for name, wanted in imports().items()}
    list(TopologicalSorter(files).static_order())


def names_given_twice(body):
    """Constants that a module's own lines bind, and bind again."""
    targets = []
    for node in body:
        if isinstance(node, ast.Assign):
            targets += [t for target in node.targets for t in ast.walk(target)]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets.append(node.target)
    names = [t.id for t in targets if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)]
    return {name for name in names if names.count(name) > 1 and name.strip("_").isupper()}


def test_no_constant_of_a_module_is_bound_twice():
    # The second would hold in functions above it, too, whose author read the first.
    assert names_given_twice(ast.parse("A = 1\nA, B = 2, 3").body) == {"A"}
    twice = {
        path: names_given_twice(ast.parse(path.read_text()).body) for path in ROOT.rglob("*.py")
    }
    assert {str(path): names for path, names in twice.items() if names} == {}
