"""The holdout experiments at small sizes, against closed forms, and their command line."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gibbs_dp.cli.main import main
from gibbs_dp.experiments import holdout
from gibbs_dp.experiments.holdout_classifier import Run
from gibbs_dp.experiments.holdout_correlated import calibrations, correlated_rows
from gibbs_dp.experiments.holdout_data import ClassifierData
from gibbs_dp.experiments.holdout_maxima import one_maximum, shape_of
from gibbs_dp.experiments.holdout_plot import plot_holdout

N = 400


@pytest.fixture(scope="module")
def found():
    return holdout.run_holdout("classifier", holdout.Sizes(n=N, d=N, repetitions=6))


def rows_of(found, **wanted):
    return [r for r in found.rows if all(r[k] == v for k, v in wanted.items())]


def test_columns_come_out_the_same_and_have_their_law():
    data = ClassifierData(2000, 7, num_signal=2, shift=0.5, site=0.6, flip=0.1)
    sign = data.signs(jax.random.key(1))
    label, site = data.rows(jax.random.key(2))
    every = data.attributes(jax.random.key(3), label, site, sign, jnp.arange(7))
    some = data.attributes(jax.random.key(3), label, site, sign[3:5], jnp.arange(3, 5))
    assert np.asarray(some) == pytest.approx(np.asarray(every)[:, 3:5])
    told = data.correlations(jax.random.key(3), label, site, sign)
    assert np.asarray(told) == pytest.approx(np.asarray(label @ every) / 2000, abs=1e-5)
    for chain in (label, site):
        share = float(np.mean(np.asarray(chain[1:] != chain[:-1])))
        assert abs(share - 0.1) < 4.5 * math.sqrt(0.09 / 2000)  # 7e-6 each
    own = np.asarray(every) - 0.6 * np.outer(site, sign) - 0.5 * np.outer(label, np.arange(7) < 2)
    # Kolmogorov-Smirnov, p below 1e-5.
    assert stats.kstest(own.ravel() / 0.8, "norm").pvalue > 1e-5


def test_a_standard_holdout_overfits_and_thresholdout_does_not(found):
    last = max(r["k"] for r in found.rows)
    (plain,) = rows_of(found, data="no signal", analyst="standard", k=last)
    # Each kept attribute has E[w | w >= 1/sqrt(n)] = phi(1)/(1 - Phi(1)) / sqrt(n) on the holdout,
    # and the sum of k votes has standard deviation sqrt(k).
    lift = stats.norm.pdf(1) / stats.norm.sf(1) * math.sqrt(last / N)
    assert abs(plain["holdout"] - stats.norm.cdf(lift)) < 0.02
    assert plain["holdout"] > 0.6
    assert abs(plain["fresh"] - 0.5) < 4.5 * max(plain["fresh_se"], 0.5 / math.sqrt(6 * N))
    (gated,) = rows_of(found, data="no signal", analyst="thresholdout", k=last)
    assert gated["train"] > 0.65
    assert abs(gated["holdout_true"] - 0.5) < 0.04
    # A round lasts 1/p(t) queries, t its threshold noise, p(t) = P(|sqrt(2) Z| > 4 + t + Lap(4)).
    rng = np.random.default_rng(0)
    gaps = np.abs(rng.normal(size=200_000)) * math.sqrt(2) - 4 - rng.laplace(0, 4, 200_000)
    noise = stats.laplace.ppf((np.arange(1000) + 0.5) / 1000, scale=2)
    length = np.mean(1 / (1 - np.searchsorted(np.sort(gaps), noise) / gaps.size))
    assert gated["budget_spent"] == pytest.approx(N / length, rel=0.25)
    assert gated["dp_epsilon"] == 2 * round(gated["budget_spent"]) / math.sqrt(N)
    assert gated["dp_epsilon_at_delta"] < gated["dp_epsilon"]
    (signal,) = rows_of(found, data="signal", analyst="standard", k=20)
    assert signal["fresh"] > 0.55


def test_maxima_against_order_statistics():
    n = 1000
    groups, subsets, size = shape_of(n)
    found = jax.vmap(lambda k: one_maximum(k, n))(jax.random.split(jax.random.key(0), 400))
    bias, error = np.asarray(found).mean(axis=0), np.asarray(found).std(axis=0) / 20
    grid = np.linspace(-8, 8, 20001)
    largest = np.trapezoid(
        grid * subsets * stats.norm.pdf(grid) * stats.norm.cdf(grid) ** (subsets - 1), grid
    ) / math.sqrt(size)
    # Clipping at 3 takes less than 1% off; 4.5 standard errors are 7e-6.
    assert abs(bias[0] - largest) < 0.01 * largest + 4.5 * error[0]
    assert bias[0] > bias[1] > bias[2] > -4.5 * error[2]
    assert groups * subsets * size <= n


def test_selection_bias_stays_below_its_bound():
    rows = holdout.run_holdout("selection", holdout.Sizes(n=100, repetitions=300)).rows
    for row in rows:
        slack = 4.5 * (row["bias_se"] + 0.5 * row["information_se"] * row["bound"])
        assert row["bias"] <= row["bound"] + slack
    hundred = [r for r in rows if r["m"] == 100 and r["temperature"] == 0.0]
    # E max of 100 standard normals is 2.5076.
    assert abs(hundred[0]["bias"] - 0.25076) < 4.5 * hundred[0]["bias_se"]
    assert hundred[0]["information"] == pytest.approx(math.log(100), abs=1e-6)


def test_correlated_rows_cost_more_and_every_row_says_so():
    settings = calibrations(200, 64)
    answers = Run(np.full((2, 2, 3, 1), 0.5), np.full((2, 2, 1), 0.5), np.full((2, 2), 1))
    rows = correlated_rows([(one, answers) for one in settings])
    for row in (r for r in rows if "dp_epsilon" in r):
        if row["rows"] == "independent":
            assert row["bdp_epsilon"] == row["dp_epsilon"]
        elif row["analyst"].endswith("BDP"):
            assert row["bdp_epsilon"] == pytest.approx(4.0)
            assert row["dp_epsilon"] < 4.0
        else:
            assert row["bdp_epsilon"] > row["dp_epsilon"]
        assert row["sigma"] == pytest.approx(2 * row["budget"] / (200 * row["dp_epsilon"]))
    assert plot_holdout(holdout.Found("correlated", rows, rows)).axes


def test_every_picture_draws(found):
    for one in (found, holdout.run_holdout("accuracy", holdout.Sizes(n=1000))):
        assert plot_holdout(one).axes


def test_the_command(tmp_path, capsys):
    arguments = ["holdout", "--json", "--out", str(tmp_path), "accuracy", "--n", "1000", "--quiet"]
    assert main(arguments) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["experiment"] == "accuracy"
    assert lines[0]["mean_error_basic"] == pytest.approx(1e-3)
    assert (tmp_path / "holdout_accuracy.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "holdout_accuracy.csv").read_text().startswith("n,queries")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no experiment is given"),
        (["nonsense"], "there is no experiment 'nonsense'"),
        (["maxima", "--d", "3"], "has no such size"),
        (["classifier", "--n", "0"], "n must be at least 1"),
        (["classifier", "--repetitions", "1"], "repetitions must be at least 2"),
        (["climb", "--d", "100"], "d must be a multiple"),
        (["classifier", "--nn", "3"], "there is no option --nn"),
    ],
)
def test_bad_input(words, message, capsys):
    assert main(["holdout", *words, "--quiet"]) == 2
    assert message in capsys.readouterr().err
