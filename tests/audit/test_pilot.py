"""What pilots choose: steps, burn-in, a shared scale, the estimator."""

from types import SimpleNamespace
from unittest.mock import Mock

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from problems import (
    QUICK,
    gaussian_examples,
    gaussian_mean,
    logistic_examples,
    private_mean,
    private_median,
    truncated_normals,
)

import gibbs_dp as gdp
from gibbs_dp.auditing import audit as auditing
from gibbs_dp.engine import pilots, view
from gibbs_dp.engine import sweep as sweeps
from gibbs_dp.engine.plan import default_ghosts
from gibbs_dp.engine.view import Summary
from gibbs_dp.model.populations import as_population
from gibbs_dp.papers.on_average_kl.closed_forms import linear_regression_replaced
from gibbs_dp.problems.regression import random_features
from gibbs_dp.quantities.kl_estimators import (
    GhostValues,
    OneSidedValues,
    choose_estimator,
)
from gibbs_dp.quantities.on_average_kl import OnAverageKL

# What sums over a line need no pilots for.
CHAINS = QUICK | {"sampler": gdp.Chains()}


@pytest.fixture
def tuned(monkeypatch):
    """Audit, and return the tuning of its gammas beside the report."""
    found = []

    def keep(settings, *rest):
        found[:] = sweep(settings, *rest)
        return found

    sweep = auditing.run_sweep
    monkeypatch.setattr(auditing, "run_sweep", keep)

    def run(posterior, population, n, gammas, **changed):
        settings = CHAINS | {"num_datasets": 256, "num_ghosts": 16} | changed
        report = flat.audit(posterior, population, n, gammas, **settings)
        return [track.tuned for track in found], report

    return run


def steps(schedule):
    return tuple(map(int, (schedule.tuning.num_inner, schedule.num_burn_in)))


@pytest.mark.trust
def test_a_gaussian_posterior_takes_one_step_a_draw_and_hardly_a_burn_in(tuned):
    (one, two), report = tuned(gaussian_mean(1), gaussian_examples(1), 20, [0.5, 2.0])
    for chosen in (one, two):
        assert steps(chosen.inputs.schedule) == (1, 2)
        size = float(chosen.inputs.schedule.tuning.step_size)
        assert size == pytest.approx(gdp.HMC().default_tuning(1)[0] * 3)
    assert (report["accept_rate"] > 0.999).all()
    truth = report["gamma"] / 20  # (gamma n / 2) E (mean' - mean)^2
    z = (report["on_average_kl"] - truth) / report["on_average_kl_se"]
    assert np.abs(z).max() < 4
    assert report["virial"] == pytest.approx(1, abs=4 * report["virial_se"].max())


@pytest.mark.trust
def test_what_the_user_sets_is_left_alone(tuned):
    kernel = gdp.HMC(num_leapfrog=4)
    (chosen,), _ = tuned(
        gaussian_mean(1), gaussian_examples(1), 20, [1.0], kernel=kernel, num_warmup=5
    )
    assert steps(chosen.inputs.schedule) == (4, 5)
    plain = gdp.HMC(integrator="leapfrog")
    (chosen,), _ = tuned(gaussian_mean(1), gaussian_examples(1), 20, [1.0], kernel=plain)
    assert steps(chosen.inputs.schedule) == (3, 16)


@pytest.mark.trust
def test_a_nearly_gaussian_posterior_takes_two_thirds_and_the_truth_stays(tuned):
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, dist.Normal(0.0, 1.0).expand([3]))
    (chosen,), fast = tuned(posterior, logistic_examples, 100, [1.0], num_datasets=512)
    assert steps(chosen.inputs.schedule) == (2, 8)
    slow = flat.audit(
        posterior, logistic_examples, 100, [1.0], num_datasets=512, num_ghosts=16, num_warmup=64,
        kernel=gdp.HMC(integrator="leapfrog", num_leapfrog=5), **CHAINS,
    )  # fmt: skip
    # The same datasets: only the chains' noise differs, at most as large as the standard error.
    # False-alarm rate 6e-5 at most.
    gap = fast["on_average_kl"] - slow["on_average_kl"]
    assert abs(gap[0]) < 4 * slow["on_average_kl_se"][0]


@pytest.mark.trust
def test_posteriors_with_a_kink_share_a_scale_where_they_are_alike(tuned, monkeypatch):
    (chosen,), report = tuned(private_mean(), truncated_normals, 100, [10.0])
    assert int(chosen.inputs.schedule.num_adapt_rounds) == 0
    scale = float(chosen.inputs.scale[0])
    assert scale == pytest.approx(np.sqrt(2) / 10, rel=0.1)  # of the Laplace distribution
    # Chains that start that wide need no more burn-in than from a Laplace fit, unless slower.
    assert int(chosen.inputs.schedule.num_burn_in) == pilots.DEFAULT_BURN_IN
    assert report["virial"] == pytest.approx(1, abs=4 * report["virial_se"].max())
    assert not report.warnings
    monkeypatch.setattr(view, "LEAST_ESS_PER_CHAIN", 8.0)
    (chosen,), _ = tuned(private_mean(), truncated_normals, 100, [10.0], num_datasets=64)
    assert int(chosen.inputs.schedule.num_burn_in) == 4 * pilots.DEFAULT_BURN_IN
    (chosen,), _ = tuned(
        private_mean(), truncated_normals, 100, [10.0], num_datasets=64, num_warmup=7
    )
    assert int(chosen.inputs.schedule.num_burn_in) == 7
    # Medians of 20 examples spread from dataset to dataset: each adapts to its own.
    (chosen,), report = tuned(private_median(), truncated_normals, 20, [1.0])
    assert int(chosen.inputs.schedule.num_adapt_rounds) > 0
    assert np.isnan(chosen.inputs.scale).all()
    assert not report.warnings


def test_chains_that_are_stuck_beside_lucky_pilots_adapt_once(tuned, monkeypatch):
    asked = gaussian_mean(1), gaussian_examples(1), 20, [0.1]
    (chosen,), plain = tuned(*asked)
    assert int(chosen.inputs.schedule.num_adapt_rounds) == 0
    monkeypatch.setattr(sweeps, "MOST_STUCK", -1.0)  # more than that are in any run
    (chosen,), report = tuned(*asked)
    assert int(chosen.inputs.schedule.num_adapt_rounds) == pilots.ADAPT_ROUNDS
    assert np.isnan(chosen.inputs.scale).all()
    # Of the same datasets.
    assert report["population_risk"] == pytest.approx(plain["population_risk"], rel=0.05)
    assert abs(report["on_average_kl"] - 0.1 / 20) < 4 * report["on_average_kl_se"]


@pytest.mark.trust
def test_corners_that_stop_chains_of_datasets_and_of_no_pilot():
    """Hinge losses on a box: with this key 48 of 256 datasets were refused."""
    posterior = gdp.GibbsPosterior(gdp.losses.hinge, gdp.Flat(gdp.supports.box(-1.0, 1.0, 2)))

    def examples(key, n):
        x_key, y_key = jax.random.split(key)
        x = jax.random.normal(x_key, (n, 2))
        chance = jax.nn.sigmoid(1.5 * x[:, 0] - 0.5 * x[:, 1])
        return x, jnp.where(jax.random.uniform(y_key, (n,)) < chance, 1.0, 0.0)

    asked = {"num_datasets": 256, "learn": [gdp.OnAverageKL(), gdp.Risks()], "key": 300}
    found = gdp.audit(posterior, examples, 12, 4.0, progress=False, **asked)
    assert found["failed_datasets"].tolist() == [0]
    lattice = gdp.Grid(low=-1.0, high=1.0, num_points=100)
    exact = gdp.audit(posterior, examples, 12, 4.0, sampler=lattice, progress=False, **asked)
    # The same datasets: what is left is the noise of chains, and of swaps of examples.
    assert found["empirical_risk"] == pytest.approx(exact["empirical_risk"], rel=5e-3)
    error = np.hypot(found["on_average_kl_se"], exact["on_average_kl_se"])
    assert abs(found["on_average_kl"] - exact["on_average_kl"]) < 4 * error


@pytest.mark.trust
def test_a_large_kl_is_taken_from_ghosts_where_they_are_steady(tuned, monkeypatch):
    monkeypatch.setattr(OnAverageKL, "is_closed", lambda *_: False)
    # 200 / (2 n) (z' - z)^2-like: a KL of 10 nats, of which ghosts say as much as pairs.
    (chosen,), report = tuned(gaussian_mean(8), gaussian_examples(8), 4, [5.0], num_ghosts=64)
    assert chosen.estimator == "ghost"
    row = report.rows[0]
    assert row["estimator"] == "ghost"
    # The same estimate, of which known means take some of the error.
    gap = row["on_average_kl"] - row["on_average_kl_ghost"]
    assert abs(gap) < 4 * row["on_average_kl_ghost_se"]
    assert abs(row["on_average_kl"] - 8 * 5.0 / 4) < 4 * row["on_average_kl_se"]
    assert any("ghost rows" in note for note in report.notes)


def test_the_choice_between_estimators():
    def chosen(kl, share, ghost, num_draws=64, lost=0.0):
        """With a root mean square of the jackknife's correction that is this share of the KL."""
        kl, ghost, lost = (np.asarray(x, float) for x in (kl, ghost, lost))
        found = OnAverageKL.Values(
            OneSidedValues(kl, share**2 * kl, lost + 0 * kl),
            None,
            GhostValues(ghost, 0 * ghost),
            None,
        )
        return choose_estimator(found, num_draws)

    steady, unsteady, usual = [0.9, 1.1], [-1.0, 3.0], 1 / 64
    assert chosen([1.0, 1.0], usual + 0.045, steady) == "one-sided"
    assert chosen([1.0, 1.0], usual + 0.055, steady) == "ghost"
    assert chosen([1.0, 1.0], usual + 0.055, unsteady) == "two-sided"
    # More draws reach the same share at a KL where more bias is left.
    assert chosen([1.0, 1.0], 0.035, steady, 1024) == "ghost"
    assert chosen([1.0, 1.0], 0.020, steady, 1024) == "one-sided"
    assert chosen([3.0, 3.0], usual, steady) == "ghost"
    assert chosen([0.01, 0.01], 0.3, steady) == "one-sided"
    assert chosen([0.02, 0.02], 0.3, steady) == "ghost"
    assert chosen([], 0.0, []) == "one-sided"
    # What one side misses: spread over the datasets, or in one of a hundred, which ghosts may miss.
    assert chosen([1.0, 1.0], usual, steady, lost=0.004) == "one-sided"
    assert chosen([1.0, 1.0], usual, steady, lost=0.006) == "ghost"
    many, one = np.ones(100), np.eye(100)[0]
    assert chosen(many, usual, many, lost=0.3 * one) == "one-sided"
    assert chosen(many, usual, many, lost=0.6 * one) == "two-sided"


@pytest.mark.trust
def test_a_few_pairs_of_many_nats_are_seen_whatever_the_number_of_draws(tuned):
    # Ridge regression with more coefficients than examples: 2 nats on average, some pairs far more.
    # One-sided, 512 draws leave 3% of bias, and the mean correction is no more than that.
    problem = random_features(num_features=30)
    (chosen,), report = tuned(
        problem.posterior, problem.population, 20, [1.0], num_samples=64, num_ghosts=64
    )
    assert chosen.estimator != "one-sided"
    truth, truth_se = gaussian_truth(problem.population, 20, 1.0, 0.25)
    error = np.hypot(report["on_average_kl_se"][0], truth_se)
    assert abs(report["on_average_kl"][0] - truth) < 4 * error  # false alarm 6e-5
    forced = flat.audit(
        problem.posterior,
        problem.population,
        20,
        [1.0],
        num_datasets=256,
        num_samples=64,
        num_ghosts=64,
        estimator="one-sided",
        **CHAINS,
    )
    assert forced.rows[0]["tail_flag"]
    assert any("heavy tails" in warning for warning in forced.warnings)


@pytest.mark.trust
def test_datasets_that_one_side_cannot_tell_are_taken_from_both(monkeypatch, tmp_path):
    # As if the pilots had happened to be 32 datasets without large pairs, and no KL a closed form.
    monkeypatch.setattr(OnAverageKL, "is_closed", lambda *_: False)
    monkeypatch.setattr(OnAverageKL, "choose", lambda *_: "one-sided")
    asked = (gaussian_mean(1), gaussian_examples(1), 20, [0.5, 24.0])
    reports = [
        flat.audit(*asked, num_datasets=512, **CHAINS, store=tmp_path / "store") for _ in range(2)
    ]
    for report in reports:
        assert list(report["estimator"]) == ["one-sided", "two-sided"]
        z = (report["on_average_kl"] - report["gamma"] / 20) / report["on_average_kl_se"]
        assert np.abs(z).max() < 4  # false alarm 1e-4; one-sided it is 4% low, 3 errors
    assert reports[0].rows == reports[1].rows
    (row,) = flat.audit(*asked[:3], [24.0], num_datasets=512, **CHAINS, estimator="one-sided").rows
    assert row["estimator"] == "one-sided"  # as asked


def gaussian_truth(population, n, gamma, prior_precision, num_datasets=4096):
    """Average the exact KL over datasets of their own; value and standard error."""
    keys = jax.random.split(jax.random.key(77), num_datasets)
    draw = jax.jit(jax.vmap(lambda k: as_population(population).sample(k, n, 16)))
    (x, y), (ghost_x, ghost_y) = draw(keys)
    found = linear_regression_replaced(x, y, ghost_x, ghost_y, gamma, prior_precision)
    values = np.asarray(found.on_average_kl, float)
    return values.mean(), values.std() / np.sqrt(num_datasets)


def test_default_ghosts_are_as_many_as_examples_within_limits_and_rows():
    posterior, endless = gaussian_mean(1), as_population(gaussian_examples(1))
    assert [default_ghosts(posterior, endless, n) for n in (20, 100, 1000)] == [64, 100, 256]
    table = gdp.populations.Table(jax.numpy.zeros((120, 1)), replace=False)
    assert default_ghosts(posterior, table, 100) == 20
    assert default_ghosts(private_mean(), endless, 100) == 64
    assert default_ghosts(private_mean(), table, 50) == 20


def test_slow_chains_get_a_longer_burn_in_and_no_other_gamma_does(tuned, monkeypatch):
    # On the box one draw in four is effective at gamma = 0.1: 8 steps left 0.72% of bias (se 0.07%)
    # beside sums over a line, and 16 steps 0.16% (0.08%).
    posterior = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))

    def examples(key, n):
        x, noise = jax.random.uniform(key, (2, n), minval=-1.0, maxval=1.0)
        return x[:, None], x + noise

    (slow, fast), _ = tuned(posterior, examples, 100, [0.1, 10.0], num_datasets=64)
    assert int(slow.inputs.schedule.num_burn_in) == pilots.DEFAULT_BURN_IN
    assert int(fast.inputs.schedule.num_burn_in) < pilots.DEFAULT_BURN_IN
    monkeypatch.setattr(view, "LEAST_ESS", 0.5)
    (slow, fast), _ = tuned(posterior, examples, 100, [0.1, 10.0], num_datasets=64)
    assert int(slow.inputs.schedule.num_burn_in) == pilots.SLOW_BURN_IN
    assert int(fast.inputs.schedule.num_burn_in) < pilots.DEFAULT_BURN_IN


def test_starts_that_disagree_are_seen():
    """R-hat of two runs, by NumPy's variance of their means; 1 where these agree."""
    rng, no = np.random.default_rng(8), np.zeros(6, bool)
    means, variances = rng.normal(size=(2, 6, 3)), rng.exponential(size=(2, 6, 3))
    runs = [
        Mock(
            Summary,
            health=SimpleNamespace(
                is_finite=~no, is_stuck=no, is_improper=no, mean_u=mean, var_u=variance
            ),
        )
        for mean, variance in zip(means, variances, strict=True)
    ]
    between = means.var(axis=0, ddof=1).mean(axis=0)
    exact = np.sqrt(1 + between / variances.mean(axis=(0, 1))).max()
    assert pilots.r_hat_of_starts(*runs) == pytest.approx(exact)
    assert pilots.r_hat_of_starts(runs[0], runs[0]) == 1.0


class _FirstPilotsError(Exception):
    """The settings of the first pilots, instead of a run."""


@pytest.mark.parametrize(
    ("sampler", "dim", "adapts"),
    [(gdp.HMC(), 512, False), (gdp.HMC(), 513, True), (gdp.ULA(), 513, False)],
)
def test_without_a_fit_pilots_adapt_at_once(monkeypatch, sampler, dim, adapts):
    """None are run to learn what no dataset of so many coordinates can have."""

    def stop(runner, plan, inputs):
        raise _FirstPilotsError(inputs.schedule.on_host[2])

    monkeypatch.setattr(pilots, "run_pilots_twice", stop)
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(np.zeros(dim)))
    with pytest.raises(_FirstPilotsError) as found:
        gdp.audit(posterior, gaussian_examples(dim), 2, [1.0], sampler=sampler)
    assert (found.value.args[0] > 0) == adapts
