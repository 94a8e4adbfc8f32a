"""``--with FILE``: the files of the page "Extend it", on the command line as in Python."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jax.experimental.compilation_cache import compilation_cache

import gibbs_dp as gdp
from gibbs_dp.cli import extensions
from gibbs_dp.cli.parser import split_name
from gibbs_dp.problems import build_problem
from gibbs_dp.quantities.registry import COLUMNS

PAGE = (Path(gdp.__file__).parents[1] / "docs" / "extend.md").read_text()
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, flags=re.S))
FEW = ("--num-datasets", 64, "--num-information", 0, "--gammas", 1)
LEARN = [*gdp.DEFAULT, gdp.MutualInformation(0)]


@pytest.fixture(autouse=True, scope="module")
def compiled_once(tmp_path_factory):
    """Keeps compiled programs in a folder: a command and its twin in Python share them."""
    names = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update(names[0], str(tmp_path_factory.mktemp("cache")))
    jax.config.update(names[1], 0.0)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's files in the current directory, from which they can be imported."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


def in_python(name):
    """The module that ``--with`` runs: equal classes share compiled programs."""
    return extensions.load_extensions([f"{name}.py"]).modules[0]


def asked(problem, learn=(), **more):
    """Rows of an audit in Python, as the command line has them."""
    report = gdp.audit(
        problem.posterior,
        problem.population,
        n=more.pop("n", problem.n),
        gammas=[1.0],
        num_datasets=64,
        learn=[*LEARN, *learn],
        domain=problem.domain,
        progress=False,
        **more,
    )
    return [json.loads(row) for row in report.to_json_rows()]


def test_the_page_has_one_file_of_each_kind():
    assert set(FILES) == {
        "walk.py",
        "importance.py",
        "median_risk.py",
        "log_cosh.py",
        "ring.py",
        "noisy_mean.py",
    }


def test_a_kernel_and_a_quantity_join_an_audit(run, folder):
    words = ("audit", "gaussian-mean", "--n", 20, *FEW, "--with", "walk.py", "--scale", 1.5)
    words += ("--with=median_risk.py", "--sampler", "random-walk", "--html", "page.html")
    ran = run(*words, "--json", "--out", "results")
    assert ran.status == 0, ran.err
    problem = build_problem("gaussian-mean")
    kernel = in_python("walk").RandomWalk(1.5)
    learn = [in_python("median_risk").MedianRisk()]
    assert ran.rows == asked(problem, learn, n=20, sampler=kernel)
    # |theta - z|^2 / 2 of a normal of variance 1 + 2 / n: half its median times the variance.
    (row,) = ran.rows
    assert abs(row["median_risk"] - 0.4549 / 2 * 1.1) < 4 * row["median_risk_se"] + 0.01
    report = gdp.load_report(folder / "results" / "audit.nc")
    assert report["median_risk"][0] == pytest.approx(row["median_risk"], rel=1e-6)
    assert "median risk" in report.summary().splitlines()[0]
    assert "Median over draws and fresh examples" in (folder / "page.html").read_text("utf-8")


@pytest.mark.trust
def test_a_sampler_of_another_kind(run, folder):
    words = ("sample", "gaussian-mean", "--n", 50, "--gamma", 2, "--num-samples", 500)
    ran = run(*words, "--with", "importance.py", "--sampler", "importance",
              "--num-proposals", 3000, "--json")  # fmt: skip
    assert ran.status == 0, ran.err
    (row,) = ran.rows
    assert row["sd"] == pytest.approx(100**-0.5, rel=0.1)
    problem, own_sampler = build_problem("gaussian-mean"), in_python("importance").Importance()
    data = np.asarray(problem.population.sample(jax.random.key(3), 50, 1)[0])
    draws = gdp.sample(problem.posterior, data, gamma=2.0, sampler=own_sampler)
    assert abs(draws.theta.mean() - data.mean()) < 6 * 100**-0.5 / 1000**0.5
    assert "Importance(num_proposals=4096) " in own_sampler.identity


@pytest.mark.trust
def test_a_loss_joins_the_audit_of_a_table(run, folder):
    rng = np.random.default_rng(0)
    dose = rng.uniform(0, 1, 60)
    frame = pd.DataFrame({"dose": dose, "effect": 2 * dose + rng.normal(size=60)})
    frame.to_csv("effects.csv", index=False)
    words = ("audit", "effects.csv", "--target", "effect", *FEW, "--with", "log_cosh.py")
    ran = run(*words, "--loss", "log-cosh", "--json")
    assert ran.status == 0, ran.err
    loss = in_python("log_cosh").LogCosh()
    problem = build_problem("table", data="effects.csv", target="effect", loss=loss)
    assert ran.rows == asked(problem)
    # log cosh r = r^2 / 2 - r^4 / 12 + ...
    at = loss(jnp.ones(1), (jnp.full(1, 0.9), jnp.asarray(1.0)))
    assert float(at) == pytest.approx(0.1**2 / 2 - 0.1**4 / 12, rel=1e-3)


def test_a_loss_says_what_its_target_is(folder):
    class Signed(gdp.losses.LinearLoss):
        labels = "two classes"

        def value(self, prediction, y):
            return (1 - 2 * y) * prediction

        def slope(self, prediction, y):
            return (1 - 2 * y) + 0 * prediction

        def curvature(self, prediction, y):
            return 0 * prediction

    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": list("nyny")})
    problem = build_problem("table", data=frame, target="b", loss=Signed())
    assert problem.notes[0] == "target 'b': n -> 0, y -> 1."
    assert problem.posterior.loss.constants(gdp.Domain(x_bound=1.0)).lipschitz == np.inf
    with pytest.raises(ValueError, match="but the signed loss needs two classes"):
        build_problem("table", data=frame, target="a", loss=Signed())


def test_a_release_method_draws_for_a_table_and_is_charged(run, folder):
    words = ("--adjacency", "replace-one", "--ledger", "own.ledger")
    assert run("ledger", "create", *words[2:], *words[:2], "--epsilon", 1).status == 0
    lines = [f"{i / 400},{i % 3 - 1}" for i in range(400)]
    (folder / "rows.csv").write_text("\n".join(["dose,effect", *lines]) + "\n")
    asked = ("--data", "rows.csv", "--target", "effect", "--range", "dose", 0, 1, *words)
    asked += ("--loss", "squared", "--y-range", -1, 1, "--theta-ball", 2, "--pure-epsilon", 0.5)
    own = ("--with", "noisy_mean.py", "--method", "noisy-mean")
    ran = run("release", *asked, *own, "--html", "page.html", "--json")
    assert ran.status == 0, ran.err
    drawn, promise = ran.rows[0], ran.rows[-1]
    # The means are 1 and 0.499, Laplace noise has scale 2 sqrt(2) sqrt(2) / (0.5 n) = 0.02.
    assert abs(drawn["intercept"] - 1) < 0.5
    assert abs(drawn["dose"] - 0.5) < 0.5
    assert (promise["mechanism"], promise["pure_epsilon"]) == ("noisy mean", 0.5)
    assert "for a mean with exact Laplace noise" in (folder / "page.html").read_text()
    spent = run("ledger", "show", "--ledger", "own.ledger", "--json").rows
    assert any(row.get("epsilon") == 0.5 for row in spent)
    ran = run("release", *asked, *own, "--num-draws", 2)
    assert (ran.status, ran.out) == (2, "")
    assert "method: it is for one draw" in ran.err
    assert "noisy-mean" in run("release", "--with", "noisy_mean.py", "--help").out
    assert "has no use" in run("audit", "gaussian-mean", "--n", 9, "--with", "noisy_mean.py").err


@pytest.mark.trust
def test_a_problem_is_a_name(run, folder):
    ran = run("audit", "ring", "--radius", 0.5, *FEW, "--with", "ring.py", "--json")
    assert ran.status == 0, ran.err
    assert ran.rows == asked(in_python("ring").ring(0.5))
    assert ran.rows[0]["dp_epsilon"] == pytest.approx(4 * 0.5**2)
    (folder / "made.py").write_text("from ring import ring\nsmall_ring = ring(0.1)\n")
    words = ("calibrate", "small-ring", "--with", "made.py", "--adjacency", "replace-one")
    ran = run(*words, "--pure-epsilon", 1, "--json")
    assert ran.rows[0]["gamma"] == pytest.approx(1 / (4 * 0.1**2))


def test_a_problem_that_fails_is_one_line(run, folder):
    head = "import gibbs_dp as gdp\ndef torn(size: int = 0) -> gdp.problems.Problem:\n"
    (folder / "torn.py").write_text(f"{head}    return 1 / size\n")
    ran = run("audit", "torn", "--with", "torn.py")
    assert ran.status == 2
    assert "the problem torn failed (ZeroDivisionError: division by zero); mend its" in ran.error


def test_help_shows_what_joined(run, folder):
    words = [word for name in FILES for word in ("--with", name)]
    helped = run("audit", *words, "--help").out
    assert "median_risk  Median over draws and fresh examples of the loss." in helped
    assert "ula,adaptive-hmc,smc,random-walk,importance}" in helped
    assert "--scale SCALE         random-walk (default 1.2)" in helped
    assert "ring          " in helped.partition("problems (")[2]
    assert "random-walk" not in run("audit", "--help").out
    assert "--radius RADIUS" in run("sample", "ring", *words, "--help").out
    assert "log-cosh}" in run("attack", "--data", "x.csv", *words, "--help").out


@pytest.mark.trust
def test_a_store_knows_the_code_and_merge_wants_the_files(run, folder):
    files = ("--with", "median_risk.py", "--with", "walk.py")
    words = ("audit", "gaussian-mean", "--n", 20, *FEW, *files, "--sampler", "random-walk")
    words += ("--store", "kept", "--json", "--scale", 1.5, "--block-size", 32)  # compiled above
    first = run(*words)
    assert first.status == 0, first.err
    text = (folder / "median_risk.py").read_text()
    (folder / "median_risk.py").write_text(f"# a comment\n{text}")
    assert run(*words).out == first.out
    assert run("merge", "kept", *files, "--json").out == first.out
    assert "name the same files here, as they are run" in run("merge", "kept").error
    told = run("merge", "kept", "--with", "median_risk.py").error
    assert "name the same files here" in told
    (folder / "median_risk.py").write_text(text.replace("below[-1] / 2", "below[-1] / 3"))
    told = run(*words).error
    assert told.startswith("store: 'kept' holds another configuration: quantities.median_risk is")


@pytest.mark.trust
def test_workers_get_what_the_file_defines(run, folder):
    pytest.importorskip("distributed")
    words = ("audit", "gaussian-mean", "--n", 20, *FEW, "--with", "median_risk.py", "--json")
    words += ("--with", "walk.py", "--sampler", "random-walk")
    ran = run(*words, "--dask", "local:1")
    assert ran.status == 0, ran.err
    assert ran.out == run(*words).out


BROKEN = {
    "absent.py": (None, "--with: there is no file 'absent.py'"),
    "text.txt": ("", "'text.txt' is no Python file; give one that ends in .py"),
    "name.py": ("x = 1\ny = z\n", "name.py failed at line 2 (NameError: name 'z' is not defined)"),
    "syntax.py": ("x = 1\ndef f(\n", "syntax.py failed at line 2 (SyntaxError: "),
    "module.py": ("import no_such_module\n", "module.py failed at line 1 (ModuleNotFoundError: "),
    "nothing.py": ("x = 1\n", "nothing.py defines nothing that joins: subclasses of"),
    "taken.py": (
        "import gibbs_dp as gdp\nclass HMC(gdp.Kernel):\n    pass\n",
        "'hmc' of taken.py is the name of another; rename yours",
    ),
    "setting.py": (
        "import gibbs_dp as gdp\nclass Own(gdp.Kernel):\n    seed: int = 3\n",
        "there is an option --seed already; rename the setting 'seed' of your own",
    ),
    "of_problem.py": (
        "import gibbs_dp as gdp\nclass Own(gdp.Kernel):\n    dim: int = 3\n",
        "there is an option --dim already",
    ),
    "kind.py": (
        "import gibbs_dp as gdp\nclass Own(gdp.Kernel):\n    clip: str = 'a'\n",
        "--clip: own and sgld have settings of this name and of different kinds",
    ),
    "lacking.py": (
        "import gibbs_dp as gdp\nclass Own(gdp.losses.LinearLoss):\n    pass\n",
        "the loss Own lacks curvature, slope, value; define it",
    ),
    "needing.py": (
        "import gibbs_dp as gdp\nclass Own(gdp.losses.Loss):\n"
        "    def __init__(self, c): pass\n    def __call__(self, theta, z): pass\n",
        "the loss Own cannot be made",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_join_is_one_line(run, folder, name):
    text, told = BROKEN[name]
    if text is not None:
        (folder / name).write_text(text)
    ran = run("audit", "gaussian-mean", "--with", name)
    assert ran.status == 2
    assert told in ran.error


def test_the_users_traceback_is_there_with_debug(run, folder):
    (folder / "name.py").write_text("def f():\n    return z\n\nf()\n")
    ran = run("audit", "gaussian-mean", "--with", "name.py", "--debug")
    assert "    return z\n" in ran.err
    assert "failed at line 2" in ran.err.splitlines()[-1]


def test_mistakes(run, folder):
    told = run("sample", "gaussian-mean", "--with", "median_risk.py").error
    assert "'gibbs-dp sample' has no use for what is defined there (MedianRisk)" in told
    assert "give --with ring.py, and the name of a problem" in run("audit", "ring.py").error
    assert "did you mean ring?" in run("audit", "rings", "--with", "ring.py").error
    assert "--with: give it as --with FILE" in run("audit", "gaussian-mean", "--with").error
    (folder / "no_step.py").write_text("import gibbs_dp as gdp\nclass Own(gdp.Kernel):\n    pass\n")
    words = ("sample", "gaussian-mean", "--with", "no_step.py", "--sampler", "own")
    assert "Own has no method default_tuning" in run(*words).error
    (folder / "no_draw.py").write_text(
        "import gibbs_dp as gdp\nclass Own(gdp.Sampler):\n    pass\n"
    )
    words = ("sample", "gaussian-mean", "--with", "no_draw.py", "--sampler", "own")
    assert "Own has no method draw; a subclass of gibbs_dp.Sampler gives it" in run(*words).error
    text = FILES["median_risk.py"].replace('"median_risk",', '"n",', 1)
    (folder / "column.py").write_text(text)
    assert "MedianRisk calls a column 'n'" in run("audit", "ring", "--with", "ring.py",
                                                  "--with", "column.py").error  # fmt: skip


def test_names_and_files():
    assert extensions.files_of(["--with", "a.py", "x", "--with=b.py", "--with"]) == ["a.py", "b.py"]
    assert split_name(["--with", "a.py", "ring"], [extensions.WITH]) == ("ring", ["--with", "a.py"])
    assert "median_risk" not in COLUMNS


def test_help_without_a_file_imports_no_jax():
    code = "import sys; from gibbs_dp.cli.main import main; main(['audit', '--help']); "
    code += "sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_what_a_file_imports_of_the_library_does_not_join(run, folder):
    """Nor is a class made again of which the file has an object."""
    (folder / "both.py").write_text(
        f"from gibbs_dp.losses import half_squared_distance, logistic\n"
        f"{FILES['log_cosh.py']}\nlog_cosh = LogCosh()\n"
    )
    helped = run("audit", "--with", "both.py", "--help").out
    joined = helped.partition("joined by --with")[2]
    assert [line.split()[:2] for line in joined.splitlines() if line.startswith("  --loss")] == [
        ["--loss", "log-cosh"]
    ]


def test_a_method_without_a_plan_is_one_line(run, folder):
    (folder / "planless.py").write_text(
        "import gibbs_dp as gdp\nclass Planless(gdp.privacy.ReleaseMethod):\n    mechanism = 'x'\n"
    )
    run("ledger", "create", "--ledger", "own", "--adjacency", "replace-one", "--epsilon", 1)
    (folder / "rows.csv").write_text("dose,effect\n0.5,1\n0.25,0\n")
    asked = ("--data", "rows.csv", "--target", "effect", "--range", "dose", 0, 1, "--ledger", "own")
    asked += ("--loss", "squared", "--y-range", -1, 1, "--theta-ball", 2, "--pure-epsilon", 0.5)
    asked += ("--adjacency", "replace-one", "--with", "planless.py", "--method", "planless")
    told = run("release", *asked).error
    assert told.startswith("--method: planless cannot be made of the command line")
