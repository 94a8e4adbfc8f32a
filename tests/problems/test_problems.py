import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import gibbs_dp as gdp
from gibbs_dp.model.check import check_loss
from gibbs_dp.privacy import pure_dp_epsilon
from gibbs_dp.problems import Problem, build_problem
from gibbs_dp.problems.registry import PROBLEMS
from gibbs_dp.problems.table import table

BUILT_IN = [name for name in PROBLEMS if name not in ("table", "breast-cancer", "digits")]


@pytest.mark.trust(but=["neural-network", "k-means"])
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_problem_fits_together(name):
    problem = build_problem(name)
    train, ghosts = problem.population.sample(jax.random.key(0), 7, 3)
    assert {leaf.shape[0] for leaf in jax.tree.leaves(train)} == {7}
    assert {leaf.shape[0] for leaf in jax.tree.leaves(ghosts)} == {3}
    check_loss(problem.posterior, train, 7)
    assert problem.name == name
    assert problem.description


def test_examples_stay_in_the_declared_domain():
    z = build_problem("private-mean").population.function(jax.random.key(0), 100_000)
    assert float(jnp.abs(z).max()) <= 2
    x, y = build_problem("linear-regression").population.function(jax.random.key(0), 100_000)
    assert float(jnp.abs(x).max()) <= 1
    assert float(jnp.abs(y).max()) <= 2
    for name in ("private-median", "linear-regression"):  # and what is declared says so
        problem = build_problem(name)
        examples = problem.population.function(jax.random.key(1), 100_000)
        assert not problem.domain.is_outside(examples).any()


@pytest.mark.parametrize(
    ("name", "options", "epsilon"),
    [
        ("private-mean", {}, 0.04),  # theory.md, Figure 2a
        ("private-mean", {"theta_bound": 2.0}, 0.08),
        ("linear-regression", {}, np.inf),
        ("linear-regression", {"theta_bound": 2.0}, 32.0),  # Figure 2b
        ("gaussian-mean", {}, None),
    ],
)
def test_worst_case_epsilon(name, options, epsilon):
    problem = build_problem(name, **options)
    found = pure_dp_epsilon(problem.posterior, 1.0, 100, problem.domain, adjacency="replace-one")
    assert found == (epsilon if epsilon is None else pytest.approx(epsilon))


@pytest.mark.parametrize("scale", [None, np.inf])
def test_no_scale_is_a_flat_prior(scale):
    assert build_problem("gaussian-mean", prior_scale=scale).posterior.prior.is_flat


def test_the_logistic_labels_follow_the_model():
    population = build_problem("logistic-regression", dim=4).population
    x, y = population.function(jax.random.key(0), 200_000)
    score = np.asarray(x.sum(axis=1))  # the logit: all weights are 2 / sqrt(4)
    for low in (-2.0, 0.0, 2.0):
        near = np.abs(score - low) < 0.1
        share = float(np.asarray(y)[near].mean())
        assert share == pytest.approx(1 / (1 + np.exp(-low)), abs=0.03)


def test_the_counts_follow_the_model():
    """Log rates are ``1 + s``, ``s`` normal: ``E y`` and (Stein) ``E y s`` are ``exp(1.5)``.

    Five standard errors: a false alarm once in a million.
    """
    x, y = build_problem("poisson-regression", dim=4).population.function(
        jax.random.key(0), 100_000
    )
    y, score = np.asarray(y, np.float64), np.asarray(x[:, 1:].sum(axis=1) / 2, np.float64)
    for values in (y, y * score):
        assert abs(values.mean() - np.exp(1.5)) < 5 * values.std() / len(values) ** 0.5


def test_breast_cancer():
    pytest.importorskip("sklearn")
    problem = build_problem("breast-cancer")
    x, y = problem.population.data
    assert x.shape == (569, 31)
    assert float(y.sum()) == 357  # benign
    assert problem.n == 284
    assert build_problem("breast-cancer", split=True).population.is_conditional


def test_a_table_from_a_file_and_from_a_frame_agree(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": ["u", "v", "u"], "y": [3.0, 1.0, 2.0]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    wanted = table(frame, "y", loss="squared").population.data
    for name in ("t.csv", "t.tsv"):
        found = table(tmp_path / name, "y", loss="squared").population.data
        jax.tree.map(np.testing.assert_allclose, found, wanted)
    np.testing.assert_array_equal(wanted[0][:, 0], 1)  # the intercept
    assert list(frame.columns) == ["a", "b", "y"]


def test_a_problem_says_what_is_wrong_with_it():
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.real(1)))
    with pytest.raises(ValueError, match="population: give a callable"):
        Problem("p", posterior, 3)
    with pytest.raises(ValueError, match="n"):
        Problem("p", posterior, lambda key, n: None, n=0)
    with pytest.raises(ValueError, match="gammas"):
        Problem("p", posterior, lambda key, n: None, gammas=())


def test_unknown_names_and_options_are_refused():
    with pytest.raises(ValueError, match="there is no 'nope'; choose one of private-mean"):
        build_problem("nope")
    with pytest.raises(ValueError, match="dim: private-mean has no such option"):
        build_problem("private-mean", dim=3)
