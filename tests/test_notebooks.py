"""Notebooks, without running them: the pairs agree, and the first cell works wherever it starts."""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gibbs_dp._extras import PACKAGES

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "notebooks").glob("*.py"), key=lambda path: int(path.stem.split("_")[0]))
NAMES = (
    "1_quickstart",
    "2_figure2",
    "3_ladder",
    "4_your_table",
    "5_mutual_information",
    "6_holdout",
    "7_capacity",
    "8_networks",
    "9_your_model",
    "10_private_pipeline",
    "11_mixture",
    "12_attacker",
)
MOST_BYTES = 200_000
OWN = "https://code.example/team/gibbs-dp.git"

# A bare Python without site-packages, in which nothing of ours can be imported. `pip` writes down
# what it is asked for, and installs a package where the test wants that. Whoever is asked to upload
# files chooses those whose names the test gives.
BARE = """
import importlib.metadata, pathlib, sys, types
source, facts = pathlib.Path("cell.txt").read_text(), set(sys.argv[1:])
importlib.metadata.version = lambda name: {"jax": "9.1", "jaxlib": "9.2"}[name]
if "colab" in facts:
    colab = sys.modules["google.colab"] = types.ModuleType("google.colab")
    sys.modules["google"] = types.ModuleType("google")
    chosen = {name: b"" for name in facts if "." in name}
    colab.files = types.SimpleNamespace(upload=lambda: print("UPLOAD") or chosen)
def pip(line):
    print("PIP", line.format(**globals()))
    if "installs" in facts:
        package = pathlib.Path("installed/gibbs_dp")
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        sys.path.append("installed")
exec(source)
print("FOUND", gdp.__file__)
"""


def cells(path):
    """Cells of a percent script as (is markdown, source)."""
    parts = re.split(r"^# %%(.*)\n", path.read_text(), flags=re.MULTILINE)[1:]
    found = []
    for mark, text in zip(parts[::2], parts[1::2], strict=True):
        is_markdown = mark.strip() == "[markdown]"
        source = text.rstrip("\n")
        if is_markdown:
            source = re.sub(r"^# ?", "", source, flags=re.MULTILINE)
        else:
            source = re.sub(r"^( *)# %(?=\w)", r"\1%", source, flags=re.MULTILINE)
        found.append((is_markdown, source))
    return found


def digest(cells):
    """What the outputs that are stored belong to, as `docs/store_outputs.py` has it."""
    text = json.dumps([[c["cell_type"], "".join(c["source"])] for c in cells])
    text = re.sub(r'REPOSITORY = \\".*?\\"', "", text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def first_code(path):
    return next(source for is_markdown, source in cells(path) if not is_markdown)


def start(folder, *facts, url="", needs=""):
    """Run the first cell in a folder; return its output and its last line of errors."""
    line = re.compile(r'^REPOSITORY = ".*"', flags=re.MULTILINE)
    source = line.sub(f'REPOSITORY = "{url}"', first_code(SOURCES[0]))
    source = re.sub(r'(EXTRAS, NEEDS = ".*"), ".*"', rf'\1, "{needs}"', source)
    source = re.sub(r"^( *)%pip install (.*)$", r"\1pip('\2')", source, flags=re.MULTILINE)
    (folder / "cell.txt").write_text(source)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BARE, *facts], cwd=folder, capture_output=True, text=True
    )
    return done.stdout, (done.stderr.strip().splitlines() or [""])[-1]


def test_there_are_twelve_in_order():
    assert tuple(path.stem for path in SOURCES) == NAMES
    assert {path.stem for path in SOURCES[0].parent.glob("*.ipynb")} == set(NAMES)


@pytest.mark.parametrize("path", SOURCES, ids=NAMES)
def test_pairs_agree_and_small_outputs_are_stored_with_them(path):
    text = path.with_suffix(".ipynb").read_text()
    notebook = json.loads(text)
    there = [(c["cell_type"] == "markdown", "".join(c["source"])) for c in notebook["cells"]]
    assert there == cells(path)
    stored = notebook["metadata"].get("gibbs_dp", {}).get("outputs_of")
    assert stored == digest(notebook["cells"]), f"make outputs NOTEBOOKS={path.stem}"
    outputs = [o for c in notebook["cells"] if c["cell_type"] == "code" for o in c["outputs"]]
    assert {o["output_type"] for o in outputs} <= {"stream", "execute_result", "display_data"}
    assert any("image/png" in o.get("data", {}) for o in outputs)
    assert all(set(o.get("data", {})) <= {"image/png", "text/plain"} for o in outputs)
    assert len(text) < MOST_BYTES
    shown = json.dumps([{k: v for k, v in o.items() if k != "data"} for o in outputs])
    shown += json.dumps([o.get("data", {}).get("text/plain") for o in outputs])
    for place in ("/tmp/", "/home/", "/root/", str(ROOT), "Traceback"):
        assert place not in shown


@pytest.mark.parametrize("path", SOURCES, ids=NAMES)
def test_every_notebook_has_what_readers_and_tests_rely_on(path):
    text = path.read_text()
    assert "**GPU.**" in text
    assert "Runtime > Change runtime type" in text
    assert "\njax.devices()\n" in text
    assert 'fast = os.environ.get("GIBBS_DP_FAST") == "1"' in text
    assert re.search(r"\bfast\b", text.partition('== "1"')[2])  # and it changes something
    assert cells(path)[-1][1].startswith("## What was learnt")


def test_first_cells_are_one_but_for_extras():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    shared = set()
    for path in SOURCES:
        source = first_code(path)
        line = re.search(r'^EXTRAS, NEEDS = "(.*)", "(.*)"  #', source, flags=re.MULTILINE)
        extras, needs = line[1].split(","), line[2].split()
        assert set(extras) <= set(known)
        assert {PACKAGES[name][1] for name in needs} <= set(extras)
        shared.add(source.replace(line[0], ""))
    assert len(shared) == 1
    url = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert f'\nREPOSITORY = "{url.get("Repository", "")}"  # ' in shared.pop()


@pytest.mark.parametrize("started_in", ["notebooks", "."])
def test_a_clone_is_found_without_installing(tmp_path, started_in):
    for folder in ("gibbs_dp", "notebooks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "gibbs_dp" / "__init__.py").write_text("")
    told, error = start(tmp_path / started_in, "colab", url=OWN)
    assert told.split() == ["FOUND", str(tmp_path / "gibbs_dp" / "__init__.py")]
    assert error == ""


def test_colab_installs_from_the_repository_and_keeps_its_jax(tmp_path):
    told, error = start(tmp_path, "colab", "installs", url=OWN)
    asked, found = told.splitlines()
    assert asked == f'PIP --quiet "jax==9.1" "jaxlib==9.2" "gibbs-dp[privacy] @ git+{OWN}"'
    assert found.startswith("FOUND")
    assert error == ""


def test_colab_without_a_repository_installs_a_wheel_that_is_uploaded(tmp_path):
    wheel = "gibbs_dp-0.1.0-py3-none-any.whl"
    told, error = start(tmp_path, "colab", "installs", "notes.txt", wheel)
    assert told.splitlines()[1:3] == [
        "UPLOAD",
        f'PIP --quiet "jax==9.1" "jaxlib==9.2" "./{wheel}[privacy]"',
    ]
    assert error == ""


@pytest.mark.parametrize("facts", [(), ("colab",), ("colab", "notes.txt")])
def test_without_a_repository_nothing_is_installed_and_it_says_what_to_do(tmp_path, facts):
    told, error = start(tmp_path, *facts)
    assert told.split()[-1:] == (["UPLOAD"] if facts else [])
    assert error == (
        "ImportError: No module named 'gibbs_dp': install gibbs_dp into this notebook's Python "
        "with pip install 'PATH/TO/CLONE[privacy]' from a clone, as REPOSITORY above is not set, "
        "and restart the kernel."
    )


@pytest.mark.parametrize("facts", [(), ("colab",)])
def test_where_it_cannot_be_installed_it_says_what_to_do(tmp_path, facts):
    told, error = start(tmp_path, *facts, url=OWN)
    assert told.startswith("PIP") == ("colab" in facts)  # nobody's own Python is changed unasked
    assert error == (
        "ImportError: No module named 'gibbs_dp': install gibbs_dp into this notebook's Python "
        f"with pip install 'gibbs-dp[privacy] @ git+{OWN}' and restart the kernel."
    )


def test_an_extra_that_is_missing_is_told_in_the_first_cell(tmp_path):
    told, error = start(tmp_path, "colab", "installs", url=OWN, needs="dp_accounting")
    assert "FOUND" not in told
    assert error == (
        "ImportError: No module named 'dp_accounting': install gibbs_dp into this notebook's "
        f"Python with pip install 'gibbs-dp[privacy] @ git+{OWN}' and restart the kernel."
    )


def test_a_clone_without_its_dependencies_names_the_missing_one(tmp_path):
    (tmp_path / "gibbs_dp").mkdir()
    (tmp_path / "gibbs_dp" / "__init__.py").write_text("import jax")
    _, error = start(tmp_path)
    assert error.startswith("ImportError: No module named 'jax': install gibbs_dp into")
