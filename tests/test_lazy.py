"""What is not used is not imported, and all that stubs promise is there."""

import ast
import contextlib
import importlib
import io
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import numpy as np
import pytest
from packaging.utils import canonicalize_name

import gibbs_dp as gdp
from gibbs_dp import _extras
from gibbs_dp.cli.main import main
from gibbs_dp.engine.remote import check_executor
from gibbs_dp.privacy.chain import subsampled_epsilon
from gibbs_dp.problems.source import open_table

LAZY = (
    *("exact", "holdout", "information", "model", "papers", "papers.bayesian_dp"),
    *("papers.capacity", "papers.on_average_kl", "privacy", "problems"),
)
HEAVY = ("jax", "numpyro", "scipy", "pandas", "xarray", "matplotlib", "optax", "h5py")
HELP = """
import contextlib, io, sys
from gibbs_dp.cli import COMMANDS
from gibbs_dp.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    for words in ["--version"], ["--help"], [], ["audit", "nothing"], ["sample", "--nonsense"]:
        main(words)
    for command in COMMANDS:
        main([command, "--help"])
"""


LATER = ("scipy.stats", "scipy.optimize", "scipy.interpolate", "scipy.integrate", *HEAVY[3:6])
DOORS = "import gibbs_dp as gdp; gdp.audit, gdp.sample, gdp.audit_inference_data, gdp.compare"


@pytest.mark.parametrize(
    ("code", "heavy"),
    [("import gibbs_dp", HEAVY), (HELP, HEAVY), (DOORS, LATER)],
    ids=["import", "help", "doors"],
)
def test_nothing_heavy_is_loaded(code, heavy):
    told = f"{code}\nimport sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("name", ["", *LAZY])
def test_every_promised_name_is_there(name):
    module = importlib.import_module(f"gibbs_dp.{name}".rstrip("."))
    assert len(module.__all__) == len(set(module.__all__)) >= 1
    for promised in module.__all__:
        assert getattr(module, promised) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = module.nonsense


def test_a_star_and_a_submodule():
    assert gdp.privacy.pure_dp_epsilon.__module__ == "gibbs_dp.privacy.accountant"
    names = {}
    exec("from gibbs_dp import *", names)
    assert set(gdp.__all__) <= set(names)


ROOT = Path(gdp.__file__).parent
PROJECT = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
EXTRAS = {
    extra: {re.match(r"[\w-]+", line)[0] for line in lines}
    for extra, lines in PROJECT["optional-dependencies"].items()
}
# Brought by what is always there.
CORE = {"jax", "jaxlib", "numpyro", "optax", "jaxtyping", "numpy", "scipy", "flatbuffers", "xarray"}
CORE |= {"h5netcdf", "h5py", "pandas", "matplotlib", "tqdm", "lazy_loader", "threadpoolctl"}
CORE |= {"gibbs_dp"}


def optional_modules():
    """Every module that some file imports, by a statement or by name, and that is not core."""
    found = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            elif isinstance(node, ast.Call) and node.args:
                function = getattr(node.func, "id", getattr(node.func, "attr", ""))
                of = {"require", "install_hint", "find_spec", "import_module"}
                if function in of and isinstance(node.args[0], ast.Constant):
                    names = [node.args[0].value]
            for name in names:
                root = name.partition(".")[0]
                if root not in CORE and root not in sys.stdlib_module_names:
                    found.setdefault(root, str(path.relative_to(ROOT)))
    return found


def hint_of(module):
    package, extra = re.search(
        r"install it with pip install ([\w-]+), or gibbs_dp with its extra '(\w+)'\.$",
        _extras.install_hint(module),
    ).groups()
    return package, extra


def test_every_optional_import_has_a_hint_that_installs_it():
    optional = set(optional_modules())
    assert optional == set(_extras.PACKAGES)
    assert {hint_of(module)[1] for module in _extras.PACKAGES} == set(EXTRAS) - {
        *("test", "docs", "lint", "notebooks")
    }
    distributions = packages_distributions()
    for module in optional:
        package, extra = hint_of(module)
        assert package in EXTRAS[extra], module
        # The package is what brings the module, itself or by what it needs.
        brought = {canonicalize_name(one) for one in distributions[module]}
        needed = {re.match(r"[\w.-]+", line)[0] for line in requires(package) or ()}
        assert brought & ({package} | set(map(canonicalize_name, needed))), module
    with pytest.raises(KeyError):
        _extras.install_hint("unheard_of")


def failing(*words):
    """A command that fails, as an exception with its last line."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        assert main(words) == 2
    raise ValueError(said.getvalue().strip().splitlines()[-1])


def draws():
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
    return gdp.as_draws(posterior, np.zeros((3, 1)), np.zeros((2, 4, 1)), gamma=1.0)


def file(folder, name):
    (folder / name).write_bytes(b"PAR1")
    return str(folder / name)


CALLS = {
    "arviz": [
        lambda folder: draws().to_arviz(),
        lambda folder: gdp.audit_inference_data(file(folder, "chain.csv")),
    ],
    "cloudpickle": [lambda folder: check_executor(ThreadPoolExecutor(1))],
    "distributed": [lambda folder: failing("audit", "gaussian-mean", "--dask", "local:1")],
    "dp_accounting": [
        lambda folder: subsampled_epsilon(2.0, 1.0, num_steps=10, delta=1e-5),
    ],
    "networkx": [
        lambda folder: gdp.papers.bayesian_dp.MarkovNetwork(None, {}),
        lambda folder: gdp.papers.bayesian_dp.BayesianNetwork(None, {}),
    ],
    "pyarrow": [
        lambda folder: open_table(file(folder, "table.parquet")),
        lambda folder: failing("audit", "--data", file(folder, "a.parquet"), "--target", "y"),
    ],
    "shtab": [lambda folder: failing("completion", "bash")],
    "sklearn": [
        lambda folder: gdp.problems.build_problem("diabetes"),
        lambda folder: gdp.problems.build_problem("digits"),
        lambda folder: failing("audit", "breast-cancer"),
    ],
}


@pytest.mark.parametrize(
    ("module", "call"),
    [(module, call) for module, calls in CALLS.items() for call in calls],
)
def test_without_an_extra_a_call_says_what_brings_it(module, call, monkeypatch, tmp_path):
    for name in [m for m in sys.modules if m.partition(".")[0] == module] or [module]:
        monkeypatch.setitem(sys.modules, name, None)  # what an import takes for not installed
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=re.escape(_extras.install_hint(module))):
        call(tmp_path)


CORE_INSTALLATION = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set(_extras.PACKAGES)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
import contextlib, importlib, inspect, io
import gibbs_dp as gdp
assert hasattr(gdp, "sklearn")
for name in {("", *LAZY, "sklearn")}:
    module = importlib.import_module(f"gibbs_dp.{{name}}".rstrip("."))
    found = dict(inspect.getmembers(module))
    assert set(module.__all__) <= set(found)
    assert all(hasattr(module, one) for one in module.__all__)
    assert not hasattr(module, "nonsense")
from gibbs_dp.sklearn import *
from gibbs_dp.sklearn import GibbsMean, PrivacyLeakWarning
assert issubclass(PrivacyLeakWarning, UserWarning)
for one in (GibbsMean, gdp.sklearn.GibbsMedian, GibbsClassifier, GibbsRegressor):
    try:
        one(epsilon=1.0)
    except ValueError as error:
        print(error)
from gibbs_dp.cli.main import main
ended = []
with contextlib.redirect_stderr(sys.stdout):
    for words in {{release}}:
        ended.append(main(words))
print(ended)
"""


def test_a_core_installation_has_every_name_and_says_what_is_missing(tmp_path):
    (tmp_path / "table.csv").write_text("a,y\n1,0\n2,1\n")
    gdp.Ledger.create(tmp_path / "ledger", adjacency="replace-one", epsilon=2.0, delta=1e-5)
    words = ["release", "--data", "table.csv", "--target", "y", "--range", "a", "0", "5"]
    words += ["--label", "0", "1", "--adjacency", "replace-one", "--ledger", "ledger"]
    words += ["--pure-epsilon", "1"]
    code = CORE_INSTALLATION.replace("{release}", repr([words]))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    *said, ended = done.stdout.splitlines()
    assert ended == "[2]", done.stdout + done.stderr
    sentence = f"this needs scikit-learn, which is not installed; {_extras.install_hint('sklearn')}"
    assert said == [sentence] * 4 + [f"gibbs-dp: error: {sentence}"]
    assert gdp.Ledger(tmp_path / "ledger").spent()["epsilon"] == 0.0
