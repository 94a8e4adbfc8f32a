"""Gamma for a target on average, or of the least risk."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from problems import gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp.auditing.calibrate_by_audits import (
    GAMMAS,
    calibrate_attack_advantage,
    calibrate_lowest,
    calibrate_on_average_kl,
    fitted_minimum,
)
from gibbs_dp.auditing.report import Report

N = 4


def advantage(gammas):
    """Flat prior, n = 4, variance 1: TV = (2 / pi) arctan(s / 2), s^2 = 2 gamma / n; 3% errors."""
    rows = []
    for g in gammas:
        value = 2 / math.pi * math.atan(math.sqrt(2 * g / N) / 2)
        rows.append({"gamma": float(g), "on_average_tv": value, "on_average_tv_se": 0.03 * value})
    told = tuple(f"gamma={row['gamma']:g}: too few draws. [few]" for row in rows)
    return Report(tuple(rows), {}, told)


@pytest.mark.parametrize("goal", [0.01, 0.2, 0.6])
def test_an_attackers_advantage(goal):
    found = calibrate_attack_advantage(advantage, goal)
    root = math.tan(math.pi * goal / 2)
    assert found.gamma == pytest.approx(N * (2 * root) ** 2 / 2, rel=0.02)
    # d log TV / d log gamma = root / ((1 + root^2) 2 arctan root)
    slope = root / ((1 + root**2) * 2 * math.atan(root))
    assert found.gamma_se / found.gamma == pytest.approx(0.03 / slope, rel=0.05)
    assert found.gamma_low < found.gamma < found.gamma_high
    assert found.value == pytest.approx(goal, rel=0.0031)
    assert [p.gamma for p in found.curve] == sorted(p.gamma for p in found.curve)
    (told,) = found.warnings  # of the last audit alone, at the answer or beside it for its slope
    assert float(told.removeprefix("gamma=").split(":")[0]) == pytest.approx(found.gamma, rel=0.4)
    assert "advantage of the best attacker" in repr(found)
    assert found._repr_html_().count("<tr") == len(found.curve) + 1


def test_an_advantage_next_to_1_is_no_target():
    """3% errors: 0.9 is 3.7 of them from 1, 0.6 is 22."""
    found = calibrate_attack_advantage(advantage, 0.9)
    assert "near-certainty" in found.warnings[0]


def test_audits_without_the_column_are_told():
    def sweep(gammas):
        return Report(tuple({"gamma": float(g), "on_average_kl": 1.0} for g in gammas), {})

    with pytest.raises(
        ValueError, match=r"attack_advantage: the audit .* has no column on_average_tv"
    ):
        calibrate_attack_advantage(sweep, 0.1)
    with pytest.raises(ValueError, match="attack_advantage must lie in"):
        calibrate_attack_advantage(advantage, 1.5)


# -- the least risk ---------------------------------------------------------------------------


def risks(seed, num_datasets=512, mean=0.3, prior_variance=0.2, noise=0.0):
    """A sweep of the exact risks of datasets of a normal of variance 1, prior N(0, t^2)."""
    rng = np.random.default_rng(seed)
    zbar = mean + rng.normal(size=num_datasets) / math.sqrt(N)

    def sweep(gammas):
        rows, each = [], []
        for g in gammas:
            precision = N * g + 1 / prior_variance
            center = N * g * zbar / precision
            values = ((center - mean) ** 2 + 1 + 1 / precision) / 2
            values = values + noise * rng.normal(size=num_datasets)
            values[0] = np.nan  # a dataset that failed
            rows.append({"gamma": float(g), "population_risk": float(np.nanmean(values))})
            each.append({"population_risk": values})
        return Report(tuple(rows), {}, per_dataset=tuple(each))

    return sweep


def truth(mean=0.3, prior_variance=0.2):
    """Least gamma: a = n gamma / P minimizes (1-a)^2 mu^2 + a^2 / n + (1-a) t^2; and its risk."""
    a = (2 * mean**2 + prior_variance) / (2 * (mean**2 + 1 / N))
    risk = ((1 - a) ** 2 * mean**2 + a**2 / N + (1 - a) * prior_variance + 1) / 2
    return a / (1 - a) / prior_variance / N, risk


@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_the_least_risk_and_its_error_bars(noise):
    """Pulls of 40 repetitions: their squares average 1 within 4 standard errors (sqrt(2/40))."""
    gamma, risk = truth()
    pulls = []
    for seed in range(40):
        found = calibrate_lowest(risks(seed, noise=noise))
        assert not found.warnings
        assert math.isfinite(found.gamma_se)
        pulls.append(
            ((found.gamma - gamma) / found.gamma_se, (found.value - risk) / found.value_se)
        )
    squares = (np.array(pulls) ** 2).mean(axis=0)
    assert (np.abs(squares - 1) < 4 * math.sqrt(2 / 40)).all()
    assert (np.abs(np.mean(pulls, axis=0)) < 4 / math.sqrt(40)).all()


@pytest.mark.trust
def test_the_least_risk_of_audits():
    """Sums on a lattice, 256 datasets: within 4 standard errors (false alarm 6e-5)."""
    law = dist.Normal(jnp.zeros(1), math.sqrt(0.2))
    found = gdp.calibrate(
        gdp.GibbsPosterior(gdp.losses.half_squared_distance, law),
        lowest="population_risk",
        population=lambda key, n: 0.3 + jax.random.normal(key, (n, 1)),
        n=N,
        gammas=[0.1, 0.5, 2.0, 10.0],
        num_datasets=256,
        sampler=gdp.Grid(low=-3.0, high=3.0, num_points=201),
        progress=False,
    )
    gamma, risk = truth()
    assert abs(found.gamma - gamma) < 4 * found.gamma_se
    assert abs(found.value - risk) < 4 * found.value_se
    assert 0.01 < found.gamma_se / found.gamma < 0.7
    assert found.report.settings["n"] == N


def test_a_minimum_that_is_not_inside_is_told():
    """t^2 > 2 v / n: the risk falls for ever."""
    found = calibrate_lowest(risks(0, prior_variance=5.0, noise=0.01))
    assert found.warnings[0].endswith("[minimum-at-end]")
    assert found.gamma == pytest.approx(GAMMAS[-1])
    assert math.isnan(found.gamma_se)
    assert found.gamma_low <= found.gamma
    assert found.gamma_high == math.inf  # nobody looked there
    assert "between" in repr(found)


def test_a_level_curve_is_told():
    found = calibrate_lowest(risks(0, num_datasets=64, noise=5.0))
    assert any(w.endswith(("[flat-curve]", "[minimum-at-end]")) for w in found.warnings)
    assert found.gamma_high > 2 * found.gamma_low


@pytest.mark.parametrize("bend", [0.0, 1e-15, 0.1, -0.1])
def test_polynomials_are_fitted_exactly(bend):
    x = np.linspace(-1.0, 2.0, 7)
    values = (x - 0.4) ** 2 + bend * (x - 0.4) ** 3 + np.linspace(-0.1, 0.1, 50)[:, None] * x
    found = fitted_minimum(x, values)
    assert found.is_curved
    assert found.place == pytest.approx(0.4, abs=1e-9)
    assert found.value == pytest.approx(0.0, abs=1e-9)
    # A dataset moves the place by its slope over the curvature 2, and the value by its slope.
    slopes = np.linspace(-0.1, 0.1, 50)
    error = slopes.std(ddof=1) / math.sqrt(50)
    assert found.place_se == pytest.approx(error / 2, rel=1e-6)
    assert found.value_se == pytest.approx(0.4 * error, rel=1e-6)
    assert not fitted_minimum(x, -values).is_curved or bend


def test_refusals_of_the_least_risk():
    with pytest.raises(ValueError, match="gammas: give at least three"):
        calibrate_lowest(risks(0), [1.0, 2.0])
    with pytest.raises(ValueError, match=r"lowest: the audit .* has no population_risk"):
        calibrate_lowest(lambda g: Report(tuple({"gamma": x} for x in g), {}, (), (), ({},) * 13))


# -- what does not go together -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"attack_advantage": 0.1, "lowest": "population_risk"}, "attack_advantage: give one"),
        ({"attack_advantage": 0.1, "n": 5}, "population: an attacker's advantage"),
        ({"attack_advantage": 0.1, "n": 5, "num_draws": 2}, "num_draws: attack_advantage is of"),
        ({"lowest": "population_risk", "n": 5, "zcdp": 1.0}, "lowest: give one target"),
        ({"lowest": "population_risk"}, "n: how many examples"),
    ],
)
def test_what_does_not_go_together(asked, said):
    with pytest.raises(ValueError, match=said):
        gdp.calibrate(gaussian_mean(1), **asked)


def exact_gamma(target, n):
    """Flat prior, variance 1, d = 1: eps_KL = gamma / n."""
    return target * n


@pytest.mark.trust
def test_the_gaussian_mean_within_its_error_bar():
    """Exact posteriors of 256 datasets: within 4 standard errors (false alarm 6e-5)."""
    m = 4
    found = gdp.calibrate(
        gaussian_mean(1),
        n=20,
        num_draws=m,
        on_average_kl=0.05,
        population=gaussian_examples(1),
        num_datasets=256,
        sampler=gdp.Grid(low=-3.0, high=3.0, num_points=301),
        progress=False,
        key=5,
    )
    truth = exact_gamma(0.05 / m, 20)
    assert abs(found.gamma - truth) < 4 * found.gamma_se
    assert 0.0005 < found.gamma_se / found.gamma < 0.2
    assert found.value == pytest.approx(0.05, rel=0.02)


def curve(power, noise=0.0):
    """A sweep whose estimates are c gamma^power, with declared errors of 3%."""
    rng = np.random.default_rng(0)

    def sweep(gammas):
        rows = []
        for g in gammas:
            value = 0.2 * g**power * math.exp(noise * rng.normal())
            rows.append(
                {"gamma": float(g), "on_average_kl": value, "on_average_kl_se": 0.03 * value}
            )
        return Report(tuple(rows), {})

    return sweep


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("goal", [1e-4, 0.03, 500.0])
def test_roots_and_error_bars_of_power_laws(power, goal):
    found = calibrate_on_average_kl(curve(power), goal)
    # Within a tenth of its own error, which is 3% of the KL.
    assert found.gamma == pytest.approx((goal / 0.2) ** (1 / power), rel=0.0031 / power)
    assert found.gamma_se / found.gamma == pytest.approx(0.03 / power, rel=1e-3)


def test_several_draws_share_the_target():
    """On-average KL of independent draws adds up: four of ``0.2 gamma``, with errors of 3%."""
    found = calibrate_on_average_kl(curve(1.0), 0.4, num_draws=4)
    assert found.gamma == pytest.approx(0.5, rel=0.0031)
    assert found.value == pytest.approx(4 * 0.2 * found.gamma, rel=1e-9)
    assert found.value_se == pytest.approx(0.03 * found.value, rel=1e-9)
    for point in found.curve:
        assert point.value == pytest.approx(4 * 0.2 * point.gamma, rel=1e-9)


def test_a_curve_that_never_gets_there_is_refused():
    def flat(gammas):
        rows = [
            {"gamma": float(g), "on_average_kl": 0.1 * g / (1 + g), "on_average_kl_se": 0.001}
            for g in gammas
        ]
        return Report(tuple(rows), {})

    with pytest.raises(ValueError, match="is not reached"):
        calibrate_on_average_kl(flat, 0.5)
    with pytest.raises(ValueError, match="target must be positive"):
        calibrate_on_average_kl(flat, -1.0)
    with pytest.raises(ValueError, match="do not settle"):
        calibrate_on_average_kl(curve(1.0, noise=0.5), 0.03)


def test_noise_does_not_tilt_the_error_bar():
    # Each gamma's estimate has noise of its own; near the root the noise is all there is.
    def noisy(gammas):
        rows = []
        for g in gammas:
            wobble = 1 + 0.01 * np.sin(1e4 * g)
            value = 0.2 * g * wobble
            rows.append(
                {"gamma": float(g), "on_average_kl": value, "on_average_kl_se": 0.03 * value}
            )
        return Report(tuple(rows), {})

    found = calibrate_on_average_kl(noisy, 0.03)
    assert found.gamma_se / found.gamma == pytest.approx(0.03, rel=0.2)
