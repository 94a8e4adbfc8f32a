"""Corollary 10 of losses that are subexponential only, on exponential data, against quadrature.

theta is 0 or 1 and loss(theta, z) = theta (1 - z), z exponential: the sum of the examples is a
gamma variable and everything of the posterior is a function of it.
"""

import flat
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import gibbs_dp as gdp
from gibbs_dp.estimators import Average
from gibbs_dp.information import bounds
from gibbs_dp.quantities.mutual_information import TailBound

N, B = 2, 2.0
# log E exp(s (z - 1)) = -s - log(1 - s); its ratio to s^2 / 2 grows with s, up to s = 1 / b.
SIGMA = float(np.sqrt(2 * (np.log(2) - 0.5) * B**2))
GAMMAS = (0.2, 5.0)


def exact(gamma):
    """Generalization error and mutual information."""
    law = stats.gamma(N)

    def mean(f):
        return integrate.quad(lambda s: f(s) * law.pdf(s), 0, 60, points=[N], limit=400)[0]

    def one(s):
        return special.expit(gamma * (s - N))

    def entropy(p):
        return special.entr(p) + special.entr(1 - p)

    gap = mean(lambda s: one(s) * (s / N - 1))
    return gap, entropy(mean(one)) - mean(lambda s: entropy(one(s)))


@pytest.mark.trust
def test_sigma_is_the_least_that_holds_and_no_sigma_holds_everywhere():
    s = np.concatenate([np.linspace(-0.5, -1e-3, 200), np.linspace(1e-3, 0.5, 200)])
    least = 2 * (-s - np.log1p(-s)) / s**2
    assert least.max() == pytest.approx(SIGMA**2, rel=1e-9)
    assert 2 * (-0.999 - np.log(0.001)) / 0.999**2 > 6 * SIGMA**2


@pytest.mark.parametrize("gamma", [0.02, 0.2, 0.25, 0.3, 0.4, 0.45, 0.5, 1.0, 5.0])
def test_information_stays_below_both_sides_together(gamma):
    gap, information = exact(gamma)
    limit = bounds.gibbs_mutual_information(N, gamma, sigma=SIGMA, b=B)
    assert information < limit
    assert gap < bounds.generalization_subexponential(information, N, sigma=SIGMA, b=B)
    assert np.isfinite(limit) == (gamma < 1 / B)
    # The largest I that I / (n gamma) <= bound(I) allows, found by search.
    grid = np.linspace(0, 20, 20_001)[1:]
    root, line = SIGMA * np.sqrt(2 * grid / N), B * grid / N + SIGMA**2 / (2 * B)
    allowed = np.where(2 * grid / (N * SIGMA**2) <= 1 / B**2, root, line)
    fits = grid / (N * gamma) <= allowed + 1e-12
    last = grid[fits][-1] if fits.any() else 0.0
    assert last == pytest.approx(min(limit, 20.0), abs=2e-3)


@pytest.mark.parametrize("nats", [0.01, 0.3, 0.386, 0.387, 2.0])
def test_error_of_the_bound_is_its_slope(nats):
    tails, step = TailBound(SIGMA, "given", B), 1e-6
    low, high = (tails.generalization_upper(Average(x, 0.0, 9), N)[0] for x in (nats, nats + step))
    assert low == bounds.generalization_subexponential(nats, N, sigma=SIGMA, b=B)
    error = tails.generalization_upper(Average(nats, 1e-3, 9), N)[1]
    assert error == pytest.approx(1e-3 * (high - low) / step, rel=1e-3)


@pytest.fixture(scope="module")
def report():
    posterior = gdp.GibbsPosterior(lambda t, z: t * (1 - z), gdp.Flat(gdp.supports.real()))
    settings = {
        "n": N, "gammas": GAMMAS, "num_datasets": 2048, "kernel": gdp.Grid(np.array([0.0, 1.0])),
        "sigma": SIGMA, "b": B, "information": ("mutual", "alpha"), "attack": False,
        "progress": False,
    }  # fmt: skip
    return flat.audit(posterior, lambda key, n: jax.random.exponential(key, (n,)), **settings)


@pytest.mark.trust
def test_an_audit_bounds_the_gap_of_exponential_data(report):
    """Truths at 4 standard errors, two gammas, fixed key."""
    for row in report.rows:
        gap, information = exact(row["gamma"])
        upper = row["mutual_information_upper"]
        assert abs(row["generalization_error"] - gap) < 4 * row["generalization_error_se"]
        assert information <= upper + 4 * row["mutual_information_upper_se"]
        for name, of, count in (
            ("generalization_upper", "mutual_information_upper", N),
            ("generalization_upper_individual", "individual_information", 1),
        ):
            wanted = bounds.generalization_subexponential(row[of], count, sigma=SIGMA, b=B)
            assert row[name] == pytest.approx(wanted)
            assert gap <= row[name] + 4 * row[f"{name}_se"]
        assert row["sigma_from"] == "given, subexponential with b = 2"
        # Bounds that need every s are of subgaussian losses.
        assert "alpha_information_2_upper" in row
        assert "generalization_upper_alpha_2" not in row
    cold = report.rows[1]
    assert cold["mutual_information_upper"] > N * SIGMA**2 / (2 * B**2)  # on the line
    assert cold["generalization_upper"] > SIGMA * np.sqrt(2 * cold["mutual_information_upper"] / N)
    assert report.settings["b"] == B


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"b": 1.0}, "b: goes with a sigma that holds"),
        ({"b": 1.0, "sigma": "empirical"}, "b: .*give sigma as a number, got 'empirical'"),
        ({"b": 0.0, "sigma": 1.0}, "b: must be positive and finite, or None, got 0.0"),
        ({"b": float("inf"), "sigma": 1.0}, "b: must be positive and finite"),
    ],
)
def test_bad_input(settings, message):
    posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance, gdp.Flat(gdp.supports.real(1)))
    with pytest.raises(ValueError, match=message):
        flat.audit(
            posterior, lambda key, n: jnp.zeros((n, 1)), 5, [1.0], progress=False, **settings
        )
