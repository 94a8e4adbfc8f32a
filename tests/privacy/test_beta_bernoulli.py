"""Rényi DP of conjugate families, against quadrature, exact hockey sticks and draws."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaln, expit, log_expit

import gibbs_dp as gdp
from gibbs_dp.information.divergences import exponential_family_renyi, gaussian_renyi
from gibbs_dp.privacy import BetaBernoulli

CASES = [
    BetaBernoulli(5.0, 5.0, gamma=1.0, n=10),
    BetaBernoulli(0.7, 3.0, gamma=0.25, n=7),
    BetaBernoulli(6.0, 2.0, gamma=0.5, n=5),
    BetaBernoulli(40.0, 90.0, gamma=2.0, n=12),
]


def laws(bits):
    for k in range(bits.n + 1):
        yield bits.a + bits.gamma * k, bits.b + bits.gamma * (bits.n - k)


def neighbours(bits):
    """Both orders of all pairs of neighbouring posteriors."""
    for pair in itertools.pairwise(laws(bits)):
        yield pair
        yield pair[::-1]


def renyi_by_quadrature(p, q, alpha):
    """In the log odds, where both densities are smooth and have light tails."""

    def log_density(law, t):
        return law[0] * log_expit(t) + law[1] * log_expit(-t) - betaln(*law)

    def integrand(t):
        return math.exp(alpha * log_density(p, t) + (1 - alpha) * log_density(q, t))

    mixed = [alpha * x + (1 - alpha) * y for x, y in zip(p, q, strict=True)]
    center = math.log(mixed[0] / mixed[1])
    reach = 40 / min(mixed[0], mixed[1], 1.0)
    total = sum(
        quad(integrand, *ends, epsabs=0, epsrel=1e-11, limit=400)[0]
        for ends in ((center - reach, center), (center, center + reach))
    )
    return math.log(total) / (alpha - 1)


def hockey_stick(p, q, epsilon):
    """Exactly: the likelihood ratio is monotone, so the best event is a half-line."""
    points = expit(np.linspace(-25, 25, 10_001))
    first, second = stats.beta(*p), stats.beta(*q)
    above = first.sf(points) - math.exp(epsilon) * second.sf(points)
    below = first.cdf(points) - math.exp(epsilon) * second.cdf(points)
    return max(above.max(), below.max())


def test_published_and_checked_values():
    assert BetaBernoulli(5.0, 5.0, gamma=1.0, n=10).renyi(2.0) == pytest.approx(0.292136, abs=5e-7)
    assert BetaBernoulli(5.0, 5.0, gamma=1.0, n=10).renyi(4.0) == pytest.approx(0.682313, abs=5e-7)
    assert BetaBernoulli(2.0, 2.0, gamma=1.0, n=10).renyi(2.0) == pytest.approx(0.780159, abs=5e-7)
    assert BetaBernoulli(2.0, 2.0, gamma=1.0, n=10).renyi(4.0) == math.inf


@pytest.mark.parametrize("bits", CASES)
def test_the_largest_divergence_is_what_quadrature_finds(bits):
    for share in (0.1, 0.5, 0.9):
        alpha = 1 + share * (min(bits.largest_order, 20.0) - 1)
        worst = max(renyi_by_quadrature(p, q, alpha) for p, q in neighbours(bits))
        assert bits.renyi(alpha) == pytest.approx(worst, rel=1e-8)
    assert bits.renyi(1.0) == pytest.approx(bits.renyi(1 + 1e-5), rel=1e-4)


def test_the_worst_pair_depends_on_the_prior_and_the_order():
    """With unequal counts in the prior: the pair at the scarce end, the scarcer law first."""
    bits = BetaBernoulli(6.0, 2.0, gamma=0.5, n=5)
    found = [(renyi_by_quadrature(p, q, 3.0), p) for p, q in neighbours(bits)]
    assert max(found)[1] == (6.0 + 0.5 * 5, 2.0)  # k = 5 against k = 4
    by_end = [value for value, _ in found]
    assert max(by_end[:2]) < 0.7 * max(by_end[-2:])


def test_finite_below_the_largest_order_and_no_further():
    for bits in CASES:
        last = bits.largest_order
        assert last == 1 + min(bits.a, bits.b) / bits.gamma
        assert math.isfinite(bits.renyi(last * (1 - 1e-6)))
        assert bits.renyi(last) == bits.renyi(last + 1) == math.inf
        near, nearer = bits.renyi(last * (1 - 1e-3)), bits.renyi(last * (1 - 1e-6))
        assert nearer > near  # it does diverge there
        values = [bits.renyi(a) for a in np.linspace(1, last * 0.999, 12)]
        assert values == sorted(values)


@pytest.mark.trust(but="1e-05-bits3")
@pytest.mark.parametrize("bits", CASES)
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_no_exact_hockey_stick_exceeds_the_guarantee(bits, delta):
    told = bits.guarantee(delta)
    exact = max(hockey_stick(p, q, told.epsilon) for p, q in neighbours(bits))
    assert exact <= delta
    weaker = max(hockey_stick(p, q, 0.35 * told.epsilon) for p, q in neighbours(bits))
    assert weaker > delta  # a guarantee that says something
    assert told.pure_epsilon is None
    assert told.zcdp is None
    assert told.is_idealized
    assert f"finite below order {bits.largest_order:.6g}" in told.assumptions[0]
    assert all(math.isfinite(value) for _, value in told.renyi)


def test_draws_have_that_divergence():
    """400,000 draws of the worst pair: ``E_Q (p/q)^alpha`` within 4 standard errors (6e-5)."""
    bits, alpha = BetaBernoulli(5.0, 5.0, gamma=1.0, n=10), 2.0
    p, q = (5.0, 15.0), (6.0, 14.0)
    draws = np.random.default_rng(6).beta(*q, 400_000)
    ratio = np.exp(stats.beta(*p).logpdf(draws) - stats.beta(*q).logpdf(draws))
    power = ratio**alpha
    error = power.std() / math.sqrt(power.size)
    expected = math.exp((alpha - 1) * bits.renyi(alpha))
    assert abs(power.mean() - expected) < 4 * error
    assert error < 0.02 * (expected - 1)


def test_several_draws_and_composition():
    bits = BetaBernoulli(30.0, 30.0, gamma=0.5, n=20)
    one, four = bits.guarantee(1e-5), bits.guarantee(1e-5, num_draws=4)
    assert dict(four.renyi)[one.renyi[20][0]] == pytest.approx(4 * one.renyi[20][1])
    together = gdp.privacy.compose([one] * 4, delta=1e-5)
    assert together.epsilon == pytest.approx(four.epsilon)
    assert one.epsilon < four.epsilon < 4 * one.epsilon
    assert bits.guarantee(1e-3).epsilon < one.epsilon


def test_a_gaussian_mean_agrees_with_the_convex_route():
    """Natural parameter ``gamma sum z``, ``A = eta^2 / 2P``: ``alpha gamma^2 D^2 / 2P``."""
    gamma, n, precision = 0.7, 12, 4.0
    posterior = gdp.GibbsPosterior(
        gdp.losses.half_squared_distance, dist.Normal(jnp.zeros(1), precision**-0.5)
    )
    found = gdp.privacy.account(
        posterior, gamma=gamma, n=n, adjacency="replace-one", domain=gdp.Domain(x_bound=1.0)
    )
    total = precision + gamma * n

    def log_partition(eta):
        return eta[..., 0] ** 2 / (2 * total)

    for alpha in (1.5, 2.0, 8.0):
        for rest in (-3.0, 0.0, 5.0):
            ends = [gamma * (rest + z) for z in (1.0, -1.0)]
            exact = exponential_family_renyi(log_partition, ends[:1], ends[1:], alpha)
            assert float(exact) == pytest.approx(alpha * gamma**2 * 4 / (2 * total))
            assert float(exact) == pytest.approx(found.renyi(alpha), rel=1e-6)
            laws = [end / total for end in ends]
            closed = gaussian_renyi(laws[0], 1 / total, laws[1], 1 / total, alpha)
            assert float(exact) == pytest.approx(closed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BetaBernoulli(0.0, 1.0), "a must be positive"),
        (lambda: BetaBernoulli(1.0, -1.0), "b must be positive"),
        (lambda: BetaBernoulli(1.0, 1.0, gamma=0.0), "gamma must be positive"),
        (lambda: BetaBernoulli(1.0, 1.0, n=0), "n must be at least 1"),
        (lambda: CASES[0].renyi(0.5), "alpha must be at least 1"),
        (lambda: CASES[0].guarantee(0.0), "delta must lie in"),
        (lambda: exponential_family_renyi(lambda e: e[..., 0], [1.0], [2.0], 1.0), "order 1 is KL"),
        (
            lambda: exponential_family_renyi(lambda e: e[..., 0], [1.0], [2.0, 3.0], 2.0),
            "one shape",
        ),
        (
            lambda: exponential_family_renyi(lambda e: np.log(e[..., 0] - 1), [1.0], [2.0], 2.0),
            "outside the family's domain",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
