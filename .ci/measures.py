"""How large the house is, and how far a tiny audit walks through it.

python .ci/measures.py          the table
python .ci/measures.py --walk   the files that it passes, in the order of their first call
"""

import ast
import inspect
import json
import statistics
import subprocess
import sys
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "gibbs_dp"
sys.path[:0] = [str(ROOT.parent), str(ROOT.parent / "tests")]
import test_layers  # noqa: E402

import gibbs_dp  # noqa: E402

IGNORED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
WALK = """
import json, sys, threading
import jax
import gibbs_dp as gdp
seen, depth = {}, [0]
def profile(frame, event, arg):
    is_function = frame.f_code.co_flags & 1  # neither a module nor a class body
    if event == "call" and is_function and frame.f_globals["__name__"].startswith("gibbs_dp"):
        seen[frame.f_globals["__name__"]] = True
        count = 0
        while frame:
            count += frame.f_globals.get("__name__", "").startswith("gibbs_dp")
            frame = frame.f_back
        depth[0] = max(depth[0], count)
threading.setprofile(profile)
sys.setprofile(profile)
posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
def examples(key, n):
    return jax.random.normal(key, (n, 1))
gdp.audit(posterior, examples, 10, [1.0], num_datasets=32, progress=False)
sys.setprofile(None)
loaded = [m for m in sys.modules if m.startswith("gibbs_dp")]
print(json.dumps([loaded, list(seen), depth[0]]))
"""


def walk():
    """Return the modules that a tiny audit imports, those it runs in order, and its depth."""
    done = subprocess.run([sys.executable, "-c", WALK], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def code_lines(path):
    """Lines that hold code: no comments, no docstrings, no blank ones."""
    tree = ast.parse(path.read_text())
    texts = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            first = body[0]
            if isinstance(getattr(first.value, "value", None), str):
                texts |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    found = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in IGNORED | {tokenize.ENCODING, tokenize.ENDMARKER}:
                found |= set(range(token.start[0], token.end[0] + 1))
    return len(found - texts)


def inner_imports():
    """Return file -> what it imports, faces of packages left out."""
    faces = ROOT.rglob("__init__.py")
    packages = {".".join(p.parent.relative_to(ROOT.parent).parts) for p in faces}
    return {
        name: wanted - packages
        for name, wanted in test_layers.imports().items()
        if name not in packages
    }


def files():
    """Files of the library."""
    return sorted(ROOT.rglob("*.py"))


def floors(room):
    """Return the floors of a room: its longest chain of imports."""
    inside = {
        name: {w for w in wanted if w.startswith(f"gibbs_dp.{room}.")}
        for name, wanted in inner_imports().items()
        if name.startswith(f"gibbs_dp.{room}.")
    }

    @cache
    def height(name):
        return 1 + max((height(w) for w in inside[name] if w in inside), default=0)

    return max(map(height, inside))


def public_names(module=gibbs_dp):
    """Names that a face and the faces it shows promise, or that a module there defines."""
    names = getattr(module, "__all__", None)
    if names is None:
        where = "gibbs_dp" if hasattr(module, "__path__") else module.__name__
        own = {n: getattr(v, "__module__", "") for n, v in vars(module).items()}
        names = [n for n, home in own.items() if home.startswith(where)]
    found = set()
    for name in names:
        value = getattr(module, name)
        if inspect.ismodule(value):
            found |= public_names(value)
        elif not name.startswith("_"):
            found.add(f"{module.__name__}.{name}")
    return found


def main():
    """Print the table, or the walk."""
    if sys.argv[1:] == ["--walk"]:
        print(*walk()[1], sep="\n")
        return
    paths = files()
    code = [code_lines(p) for p in paths]
    lines = {p: len(p.read_text().splitlines()) for p in paths}
    core = sum(n for p, n in lines.items() if not p.is_relative_to(ROOT / "papers"))
    importers = Counter(w for wanted in inner_imports().values() for w in wanted)
    single = sum(number == 1 for number in importers.values())
    loaded, run, deep = walk()
    engine = [p for p in paths if p.is_relative_to(ROOT / "engine")]
    beside = [p for p in engine if p.parent == ROOT / "engine"]
    for name, value in {
        "files": len(paths),
        "lines": sum(lines.values()),
        "lines outside papers": core,
        "lines of code": sum(code),
        "median lines of code a file": statistics.median(code),
        "files under 40 lines of code": sum(c < 40 for c in code),
        "files imported by one other, not a face": single,
        "engine: files beside store and remote": len(beside),
        "engine: files": len(engine),
        "engine: floors": floors("engine"),
        "public names": len(public_names()),
        "arguments of audit": len(inspect.signature(gibbs_dp.audit).parameters),
        "tiny audit: modules imported": len(loaded),
        "tiny audit: modules run": len(run),
        "tiny audit: own frames deep": deep,
    }.items():
        print(f"{name:40} {value}")


if __name__ == "__main__":
    main()
