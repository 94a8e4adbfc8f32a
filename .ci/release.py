"""Build what a release uploads, and try it as somebody who has nothing but it.

python .ci/release.py VENV [TAG]

Into ``dist/``, by tools in an environment of their own at ``VENV``: the sdist and the wheel that it
builds, which must be the one that the clone builds, and hold what git knows. Then the wheel alone,
on the newest versions that pip finds, and each extra on top of it, without the others. Nothing is
uploaded, and no tag is set.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from datetime import date
from pathlib import Path

import repository

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
VERSION = re.search(r'= "(.*)"', (ROOT / "gibbs_dp" / "_version.py").read_text())[1]
# In constraints.txt are those that it knows.
TOOLS = ("build", "hatchling", "twine", "check-wheel-contents")
# Not only code: what is read from disk, and what type checkers need.
MUST = (
    "gibbs_dp/py.typed",
    "gibbs_dp/__init__.pyi",
    "gibbs_dp/style.mplstyle",
    *(f"gibbs_dp/auditing/explore.{kind}" for kind in ("html", "css", "js")),
)
MEAN = """
import jax, gibbs_dp as gdp
posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
def population(key, n):
    return jax.random.normal(key, (n, 1))
def audit(**more):
    learn = [gdp.OnAverageKL()]
    return gdp.audit(posterior, population, 10, [1.0], num_datasets=64, learn=learn, **more)
"""
# Extra -> what Python is told, to see that what it is for works.
EXTRAS = {
    "adaptive": """
import networkx
from gibbs_dp.papers.bayesian_dp import MarkovNetwork
assert MarkovNetwork.ising(networkx.path_graph(4), 0.2).bdp_epsilon(4, 0.01) > 0.01""",
    "arviz": f"""{MEAN}
assert gdp.sample(posterior, jax.numpy.arange(9.0)[:, None]).to_arviz().posterior""",
    "completion": """
from gibbs_dp.cli.main import main
assert main(["completion", "bash"]) == 0""",
    "distributed": f"""{MEAN}
from distributed import Client
with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    assert audit(executor=client.get_executor()).rows""",
    "docs": "import sphinx, myst_nb, furo, selenium, sphinx_copybutton",
    "excel": f"""{MEAN}
audit().to_excel("audit.xlsx")""",
    "lint": "import ruff, mypy.api",
    "notebooks": "import ipykernel, ipywidgets, jupytext, nbmake",
    "privacy": """
from gibbs_dp import Guarantee, privacy
one = Guarantee("add-remove", "chain", 1, 1.0, float("inf"), 0.0, gdp=0.5)
assert privacy.compose([one] * 10, delta=1e-5).epsilon > 1""",
    "tables": """
import pandas, gibbs_dp as gdp
pandas.DataFrame({"x": range(40), "ill": [0, 1] * 20}).to_parquet("ill.parquet")
asked = {"gammas": [1.0], "num_datasets": 64, "learn": [gdp.OnAverageKL()]}
assert gdp.audit_table("ill.parquet", target="ill", **asked).rows
assert gdp.problems.build_problem("breast-cancer").posterior""",
    "test": "import beartype, hypothesis, pytest, xdist, yaml",
}
ALONE = ("audit", "private-mean", "--n", "100", "--gammas", "1", "--num-datasets", "64")
QUICK = ("--num-information", "0", "--quiet", "--json")


def call(*command: str | Path, where: Path = ROOT) -> str:
    """Run a command; its output, or an error that ends with it."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "XLA_FLAGS")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True)
    if done.returncode:
        words = " ".join(map(str, command))
        raise RuntimeError(f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def new_environment(folder: Path) -> Path:
    """Make a virtual environment; return its programs."""
    call(sys.executable, "-m", "venv", "--clear", folder)
    return folder / "bin"


def build(tools: Path, source: Path, kind: str, out: Path) -> Path:
    """Build an sdist or a wheel from a source tree."""
    call(tools / "python", "-m", "build", "--no-isolation", f"--{kind}", "--outdir", out, source)
    [path] = out.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return path


def compare(wheel: Path) -> int:
    """Refuse a wheel that lacks a file of the package, or has another; return how many it has."""
    listed = call("git", "ls-files", "gibbs_dp", "_gibbs_dp_start.py").splitlines()
    with zipfile.ZipFile(wheel) as file:
        found = [name for name in file.namelist() if ".dist-info/" not in name]
    wrong = sorted(set(listed) ^ set(found)) + sorted(set(MUST) - set(found))
    wrong += [name for name in found if re.search(r"(^|/)(tests?/|test_)", name)]
    if wrong:
        raise RuntimeError(f"{wheel.name}: missing, or not in git: {', '.join(wrong)}")
    return len(found)


def package(tools: Path, folder: Path) -> Path:
    """Build both and check them; return the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    sdist = build(tools, ROOT, "sdist", DIST)
    shutil.unpack_archive(sdist, folder, filter="data")
    wheel = build(tools, folder / sdist.name.removesuffix(".tar.gz"), "wheel", DIST)
    if wheel.read_bytes() != build(tools, ROOT, "wheel", folder).read_bytes():
        raise RuntimeError("sdist: the wheel that it builds is not that of the clone")
    call(tools / "twine", "check", "--strict", sdist, wheel)
    call(tools / "check-wheel-contents", "--toplevel", "gibbs_dp,_gibbs_dp_start.py", wheel)
    for path, count in ((sdist, ""), (wheel, f", {compare(wheel)} files")):
        say(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB{count}")
    return wheel


def try_alone(wheel: Path, folder: Path) -> Path:
    """Install the wheel and no extra, and do a first audit; return where packages are."""
    programs = new_environment(folder / "alone")
    call(programs / "pip", "install", "--quiet", wheel, where=folder)
    told = call(programs / "gibbs-dp", "--version", where=folder).strip()
    if VERSION not in told.split():
        raise RuntimeError(f"gibbs-dp --version: {told}")
    imported = "import gibbs_dp; print(gibbs_dp.__file__)"
    site = Path(call(programs / "python", "-c", imported, where=folder)).parents[1]
    if not site.is_relative_to(folder):
        raise RuntimeError(f"import gibbs_dp: found {site}, not what was installed")
    row = json.loads(call(programs / "gibbs-dp", *ALONE, *QUICK, where=folder))
    if not 0 < row["on_average_kl"] < 1e-3 or row["num_datasets"] != 64:
        raise RuntimeError(f"gibbs-dp {' '.join(ALONE)}: {row}")
    names = "jax", "numpy", "numpyro"
    versions = f"from importlib.metadata import version as v; print(*map(v, {names}))"
    numbers = call(programs / "python", "-c", versions, where=folder).split()
    listed = ", ".join(map(" ".join, zip(names, numbers, strict=True)))
    say(f"the wheel alone: {told}, on {listed}")
    return site


def try_extra(name: str, wheel: Path, folder: Path, site: Path) -> None:
    """Install an extra on top of what the wheel alone needs, and use it."""
    programs = new_environment(folder / name)
    [own] = (folder / name / "lib").glob("*/site-packages")
    (own / "alone.pth").write_text(f"{site}\n")
    call(programs / "pip", "install", "--quiet", f"{wheel}[{name}]", where=folder)
    call(programs / "pip", "check", where=folder)
    call(programs / "python", "-W", "ignore", "-c", EXTRAS[name], where=folder)
    shutil.rmtree(folder / name)
    say(f"with its extra {name!r}: works")


def say(text: str) -> None:
    print(f"release: {text}", flush=True)


def day() -> str:
    """Return the day on which CHANGELOG.md says that this version is released; empty if none."""
    heading = rf"(?m)^## \[{re.escape(VERSION)}\] - (\d{{4}}-\d\d-\d\d)$"
    found = re.search(heading, (ROOT / "CHANGELOG.md").read_text())
    return found[1] if found else ""


def missing() -> list[str]:
    """Return what has to be done before a tag can be set."""
    found = []
    if not repository.current():
        found.append("make repository URL=https://... CONTACT=NAME@HOST")
    if not day():
        found.append(f"in CHANGELOG.md, '## [{VERSION}] - {date.today()}' above what is new")
    if call("git", "status", "--porcelain", "--untracked-files=no"):
        found.append("commit what is changed")
    return found


def main() -> int:
    tools, tag = Path(sys.argv[1]).resolve(), sys.argv[2]
    left = missing()
    refused = left if tag == f"v{VERSION}" else [f"this is version {VERSION}", *left]
    if tag and refused:
        say(f"{tag} is not built: {'; '.join(refused)}")
        return 1
    programs = new_environment(tools)
    pins = ("--constraint", ROOT / "constraints.txt")
    call(programs / "pip", "install", "--quiet", *pins, *TOOLS)
    with tempfile.TemporaryDirectory(prefix="gibbs-dp-release-") as name:
        folder = Path(name).resolve()
        wheel = package(programs, folder)
        site = try_alone(wheel, folder)
        for extra in EXTRAS:
            try_extra(extra, wheel, folder, site)
    steps = [
        *left,
        f"see that CHANGELOG.md has the day of the release: it says {day() or 'none'}",
        "at the package index, let this repository publish (trusted publishing):"
        " workflow release.yml, environment release",
        f"git tag -a v{VERSION} -m 'gibbs_dp {VERSION}' && git push origin v{VERSION},"
        " which builds it there, tries it again and uploads it",
    ]
    say("nothing is uploaded. What is left to do:")
    for number, step in enumerate(steps, 1):
        print(f"  {number}. {step}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(f"release: FAILED: {error}")
