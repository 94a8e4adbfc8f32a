"""Random features: the sampled on-average KL against exact Gaussian answers.

The exact side is over the very datasets and ghosts that the audit drew (a dataset's key is
``fold_in(root, index)``), so that only the draws' own noise is left between the two; |z| <= 4 of
the audit's standard errors, which hold the datasets' noise too, has a false-alarm rate below 6e-5.
"""

import jax
import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp._jaxlib.precision import precision
from gibbs_dp.papers.on_average_kl import double_descent as experiment
from gibbs_dp.papers.on_average_kl.closed_forms import (
    linear_regression_kl,
    linear_regression_replaced,
)
from gibbs_dp.papers.on_average_kl.double_descent import plot_double_descent
from gibbs_dp.problems import build_problem

N, GHOSTS, DATASETS = 20, 16, 256


def datasets(population, key=0):
    root = jax.random.split(jax.random.fold_in(jax.random.key(key), 0), 2)[0]
    keys = jax.vmap(lambda i: jax.random.fold_in(root, i))(np.arange(DATASETS))
    train, ghosts = jax.jit(jax.vmap(lambda k: population.sample(k, N, GHOSTS)))(keys)
    return jax.tree.map(np.asarray, (*train, *ghosts))


@pytest.mark.trust
@pytest.mark.parametrize(("p", "activation"), [(10, "tanh"), (30, "relu")])
def test_sampled_on_average_kl_is_the_gaussian_one(p, activation):
    problem = build_problem("random-features", num_features=p, activation=activation)
    # On both sides of p = n; `gibbs-dp double-descent` goes on to gamma = 10 and tens of nats.
    report = gdp.audit(
        problem.posterior,
        problem.population,
        N,
        [0.01, 0.03],
        num_datasets=DATASETS,
        learn=[*gdp.DEFAULT, gdp.OnAverageKL("one-sided", num_ghosts=16), gdp.MutualInformation(0)],
        progress=False,
    )
    drawn = datasets(problem.population)
    for row in report.rows:
        exact = linear_regression_replaced(*drawn, row["gamma"], prior_precision=0.25)
        kl = exact.on_average_kl.mean()
        assert abs(row["on_average_kl"] - kl) < 4 * row["on_average_kl_se"]
        gap = row["gamma"] * (exact.population_risk - exact.empirical_risk)
        assert abs(row["on_average_kl_ghost"] - kl) < 4 * row["on_average_kl_ghost_se"]
        for name in ("empirical_risk", "population_risk"):
            # Of the same datasets: what is left is the draws' own noise. False alarm 6e-5 each.
            wanted = getattr(exact, name)
            noise = np.sqrt(row[f"{name}_se"] ** 2 - wanted.var(ddof=1) / DATASETS)
            assert abs(row[name] - wanted.mean()) < 4 * noise
            assert noise < row[f"{name}_se"]
        # Theorem 4, of the exact side alone.
        paired = gap - exact.on_average_kl
        assert abs(paired.mean()) < 4 * paired.std() / np.sqrt(DATASETS)
        assert row["on_average_kl"] == pytest.approx(kl, rel=0.02)
    # Where p > n one row changes precisions by more than 8 / 7, and order 8 may be infinite indeed.
    assert not [w for w in report.warnings if "[renyi-lower-bound]" not in w]


@pytest.mark.trust
@pytest.mark.parametrize("form", ["closed form", "ghost"])
@pytest.mark.parametrize("p", [N, 60])
def test_a_kl_of_many_nats_is_not_taken_from_one_side(p, form, monkeypatch):
    # The jackknife's shift, which shows a failing one-sided estimate elsewhere, is 2% of such a
    # KL or less: one-sided, 20.8 nats were reported for 28. Where p is n most datasets have pairs
    # whose ratios no float32 holds: left out with these, 26.7 were reported for 35.
    problem = build_problem("random-features", num_features=p)
    if form == "ghost":
        monkeypatch.setattr(gdp.OnAverageKL, "is_closed", lambda *_: False)
    report = gdp.audit(
        problem.posterior,
        problem.population,
        N,
        [10.0],
        num_datasets=64,
        learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
        progress=False,
    )
    # Over other datasets: errors of both, false alarm 6e-5.
    answers = experiment.exact_answers(problem, N, 10.0, 300, key=3)
    exact, row = answers["on_average_kl_exact"], report.rows[0]
    assert row["estimator"] == form
    assert row["failed_datasets"] == 0
    error = row["on_average_kl_se"] * np.sqrt(1 + 64 / 300)
    assert abs(row["on_average_kl"] - exact) < 4 * error
    assert error < 0.08 * exact


@pytest.mark.parametrize("d", [2, 7])
def test_replaced_regressions_are_gaussian_kls_one_by_one(d):
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(2, 4, d)), rng.normal(size=(2, 4))
    g, y_g = rng.normal(size=(2, 3, d)), rng.normal(size=(2, 3))
    found = linear_regression_replaced(x, y, g, y_g, 0.7, 0.3)
    for m in range(2):
        kls = []
        for i in range(4):
            for j in range(3):
                other, other_y = x[m].copy(), y[m].copy()
                other[i], other_y[i] = g[m, j], y_g[m, j]
                kls.append(linear_regression_kl(x[m], y[m], other, other_y, 0.7, 0.3))
        assert found.on_average_kl[m] == pytest.approx(np.mean(kls), rel=1e-9)


@pytest.mark.trust
def test_the_features_are_the_same_in_both_precisions():
    # Means of features in [-1, 1] over 4,000 examples each: their differences are below 5 of their
    # largest standard errors but in 5 of a million; of features drawn anew they are about 0.5.
    means = []
    for double in (False, True):
        with precision(double):
            problem = build_problem("random-features", num_features=20)
            phi, _ = problem.population.sample(jax.random.key(0), 4000, 1)[0]
            assert phi.dtype == (np.float64 if double else np.float32)
            means.append(np.sqrt(20) * np.mean(np.asarray(phi), axis=0))
    assert np.abs(means[0] - means[1]).max() < 5 * np.sqrt(2 / 4000)


@pytest.mark.trust
def test_the_exact_risk_peaks_at_interpolation_and_falls_again():
    risk = {}
    for p in (8, 20, 60):
        problem = build_problem("random-features", num_features=p)
        answers = experiment.exact_answers(problem, N, 10.0, 300, key=3)
        risk[p] = answers["population_risk_exact"]
    assert risk[8] < 0.8 * risk[20]
    assert risk[60] < 0.8 * risk[20]


def test_the_picture_has_both_panels_and_every_gamma():
    row = {"num_features": 4, "on_average_kl": 1.0, "on_average_kl_se": 0.1}
    row |= {"empirical_risk": 1.0, "empirical_risk_se": 0.1}
    row |= {"population_risk": 2.0, "population_risk_se": 0.1}
    row |= {f"{k}_exact": 1.0 for k in ("on_average_kl", "empirical_risk", "population_risk")}
    rows = tuple({**row, "gamma": g, "num_features": p} for g in (0.1, 1.0) for p in (4, 8))
    figure = plot_double_descent(experiment.DoubleDescent(rows, (), 20, "tanh"))
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert axes.get_legend_handles_labels()[1] == ["gamma = 0.1", "gamma = 1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_features": []}, "num_features: it is empty"),
        ({"gammas": [0.0]}, "every gamma to be positive"),
        ({"num_references": 1}, "num_references"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        experiment.double_descent(**options)


def test_a_flat_prior_is_refused():
    with pytest.raises(ValueError, match="prior_scale: must be positive and finite"):
        build_problem("random-features", prior_scale=np.inf)
    with pytest.raises(ValueError, match="num_features: must be an integer of at least 1"):
        build_problem("random-features", num_features=0)
