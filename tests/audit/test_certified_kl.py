"""Certified intervals of means and of on-average KL, against means that are known."""

from unittest.mock import Mock

import jax
import numpy as np
import pytest
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.quantities import certified_kl
from gibbs_dp.quantities.certified_kl import betting_interval, empirical_bernstein

ERROR, COUNT = 0.1, 500
REPEATS = [100, pytest.param(1000, marks=pytest.mark.trust)]
# Name: numbers in [0, 2] and their mean.
LAWS = {
    "rare": (lambda rng, shape: 2.0 * (rng.random(shape) < 0.002), 0.004),
    "fair": (lambda rng, shape: 2.0 * (rng.random(shape) < 0.5), 1.0),
    "narrow": (lambda rng, shape: 0.1 + 0.02 * rng.random(shape), 0.11),
    "skewed": (lambda rng, shape: 2.0 * rng.beta(0.05, 5.0, shape), 2 * 0.05 / 5.05),
}
METHODS = {
    "bernstein": lambda x: empirical_bernstein(x, 0.0, 2.0, ERROR),
    "betting": lambda x: betting_interval(x, 0.0, 2.0, ERROR, COUNT),
}


def most_missed(repeats):
    """Return a count of misses that is exceeded with a probability below 1e-5."""
    return stats.binom.isf(1e-5, repeats, ERROR)


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("method", METHODS)
def test_intervals_miss_the_mean_no_more_often_than_they_say(method, law, repeats):
    draw, mean = LAWS[law]
    samples = draw(np.random.default_rng(1), (repeats, COUNT))
    ends = np.array([METHODS[method](x) for x in samples])
    assert ((ends[:, 0] > mean) | (ends[:, 1] < mean)).sum() <= most_missed(repeats)
    assert (ends[:, 0] >= 0).all()
    assert (ends[:, 1] <= 2).all()
    assert np.median(np.diff(ends)) < 1.0  # and they say something


def test_bets_are_so_tight_that_twice_the_error_would_be_seen():
    """Fair coins at an error of 0.2: most of what may be missed is, and 1e-5 a false alarm."""
    x = (np.random.default_rng(7).random((700, 100)) < 0.5).astype(float)
    ends = np.array([betting_interval(row, 0.0, 1.0, 0.2, 100) for row in x])
    missed = ((ends[:, 0] > 0.5) | (ends[:, 1] < 0.5)).sum()
    assert missed <= stats.binom.isf(1e-5, 700, 0.2)
    assert missed > 700 * 0.2 / 2  # so that this could fail


def log_wealth(x, m, error):
    """Waudby-Smith & Ramdas 2024, one number after another: the largest log of the capital."""
    wealth = top = 0.0
    count, total, squares = 1, 0.5, 0.25
    for value in x:
        stake = np.sqrt(2 * np.log(2 / error) * count / (squares * len(x)))
        wealth += np.log1p(min(stake, 0.75 / m) * (value - m))
        top = max(top, wealth)
        count, total = count + 1, total + value
        squares += (value - total / count) ** 2
    return top


@pytest.mark.parametrize("mean", [0.2, 0.6])
def test_bets_are_made_before_the_number_that_they_are_on(mean):
    x = np.random.default_rng(9).beta(10 * mean, 10 * (1 - mean), 40)
    low, high = betting_interval(x, 0.0, 1.0, 0.1, 40)
    assert log_wealth(x, low, 0.1) == pytest.approx(np.log(20), rel=1e-6)
    assert log_wealth(1 - x, 1 - high, 0.1) == pytest.approx(np.log(20), rel=1e-6)


def test_empirical_bernstein_is_as_published():
    """Maurer & Pontil 2009, Theorem 4, for each end at half of the error; never attained."""
    x = np.random.default_rng(8).beta(2.0, 5.0, 2000)
    low, high = empirical_bernstein(3 * x, 0.0, 3.0, 0.04)
    log = np.log(2 / 0.02)
    reach = np.sqrt(2 * np.var(x, ddof=1) * log / 2000) + 7 * log / (3 * 1999)
    assert [low, high] == pytest.approx([3 * (x.mean() - reach), 3 * (x.mean() + reach)], rel=1e-12)


def test_the_range_is_that_of_a_whole_group():
    """Logistic losses of predictions within 1 differ by at most 1, and those of three by 3."""
    posterior = gdp.GibbsPosterior(gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0)))
    domain = gdp.Domain(x_bound=1.0, y_range=(0.0, 1.0))
    given = {"posterior": posterior, "domain": domain, "group_size": 3, "is_exact": False}
    spec = Mock(spec=AuditSpec, **given)
    assert certified_kl._range(spec, 0.5) == pytest.approx((-1.5, 1.5))


def test_the_normal_interval_misses_what_is_rare():
    """Of a mean that few numbers decide, 1.645 standard errors are no 90%: it is seen here."""
    draw, mean = LAWS["rare"]
    x = draw(np.random.default_rng(2), (1000, COUNT))
    reach = 1.645 * x.std(axis=1, ddof=1) / COUNT**0.5
    assert (np.abs(x.mean(axis=1) - mean) > reach).sum() > most_missed(1000)


@pytest.mark.trust  # number after number: test_bets_are_made_before_the_number_that_they_are_on
@pytest.mark.parametrize("repeats", [100, 400])
@pytest.mark.parametrize("method", ["betting", "normal"])
def test_bets_hold_whenever_one_stops_and_a_fixed_interval_does_not(method, repeats):
    """Stop, at some of 20 looks, as soon as the interval leaves out the mean."""
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(repeats):
        x = 2.0 * (rng.random(COUNT) < 0.5)
        for count in range(25, COUNT + 1, 25):
            if method == "betting":
                low, high = betting_interval(x[:count], 0.0, 2.0, ERROR, COUNT)
            else:
                reach = 1.645 * x[:count].std(ddof=1) / count**0.5
                low, high = x[:count].mean() - reach, x[:count].mean() + reach
            if not low <= 1.0 <= high:
                missed += 1
                break
    assert (missed <= most_missed(repeats)) == (method == "betting")


def test_bets_depend_on_the_past_alone():
    """A stake that knew the number that it bets on would be no martingale.

    So an interval of the first numbers is what it is, whatever comes later, and later looks only
    take away from it.
    """
    x = np.random.default_rng(4).random(300)
    first = betting_interval(x[:100], 0.0, 1.0, ERROR, 300)
    later = betting_interval(x, 0.0, 1.0, ERROR, 300)
    assert first[0] <= later[0] <= later[1] <= first[1]


# Of audits: five candidates and three values, enumerated.

THETA, Z, PROBS = np.linspace(0, 1, 5), np.array([0.0, 0.5, 1.0]), np.array([0.5, 0.3, 0.2])
POSTERIOR = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-0.1, 1.1, 1)))
DOMAIN = gdp.Domain(x_bound=1.0, y_range=(0.0, 1.0))
N, GAMMA = 4, 1.0


def population(key, n):
    y = jax.random.choice(key, Z.astype(np.float32), (n,), p=PROBS.astype(np.float32))
    return np.ones(1, np.float32) * jax.numpy.ones((n, 1)), y


@pytest.fixture(scope="module")
def truth():
    problem = gdp.exact.FiniteProblem((THETA[:, None] - Z) ** 2, PROBS, np.full(5, 0.2))
    return problem.on_average_kl(GAMMA, N)


def audit(**settings):
    settings = {
        "num_datasets": 256,
        "sampler": gdp.Grid(THETA[:, None]),
        "domain": DOMAIN,
    } | settings
    learn = settings.pop("learn", [gdp.CertifiedKL()])
    posterior = settings.pop("posterior", POSTERIOR)
    return gdp.audit(posterior, population, N, GAMMA, learn=learn, progress=False, **settings)


@pytest.mark.parametrize("method", ["betting", "bernstein"])
def test_an_audit_on_candidates_covers_the_enumerated_truth(method, truth, monkeypatch):
    """Cut into 100 audits of 256 datasets: most_missed of them at 90%, and none at 95% for all."""
    name = {"betting": "betting_interval", "bernstein": "empirical_bernstein"}[method]
    seen, real = [], getattr(certified_kl, name)

    def spied(values, *args, **kwargs):
        seen.append((values, args[:2]))
        return real(values, *args, **kwargs)

    monkeypatch.setattr(certified_kl, name, spied)
    row = audit(learn=[gdp.CertifiedKL(method)], num_datasets=25_600, key=2).rows[0]
    assert row["certified_kl_low"] <= truth <= row["certified_kl_high"]
    (values, ends), _ = seen
    low, high = ends
    assert low == 0.0
    assert high > 10 * truth  # of the worst case
    more = (256,) if method == "betting" else ()
    found = np.array([real(part, *ends, ERROR, *more) for part in values.reshape(100, 256)])
    assert ((found[:, 0] > truth) | (found[:, 1] < truth)).sum() <= most_missed(100)
    assert np.median(found[:, 1]) < high / 20  # and they say something


@pytest.mark.trust
def test_an_audit_with_chains_covers_what_a_fine_lattice_says():
    """The gap's mean is the KL; it lies where 8,192 exact sums have it, for either method."""
    lattice = gdp.Grid(low=-0.1, high=1.1, num_points=256)
    exact = audit(sampler=lattice, num_datasets=8192).rows[0]
    rows = audit(sampler=None, num_datasets=4096, rel_error=None).rows[0]
    assert rows["certified_kl_low"] < exact["on_average_kl"] < rows["certified_kl_high"]
    assert exact["certified_kl_low"] < exact["on_average_kl"] < exact["certified_kl_high"]
    wide = rows["certified_kl_high"] - rows["certified_kl_low"]
    assert wide > exact["certified_kl_high"] - exact["certified_kl_low"]


def test_failed_datasets_count_as_the_worst(monkeypatch):
    """The first two are the range's ends, for the end that this moves outwards."""
    seen, real = [], certified_kl.is_believed

    def keep(values, *args, **kwargs):
        seen.append(values)
        return 0.1, 0.2

    def fail(summary):
        return real(summary) & (np.arange(summary.size) > 1)

    monkeypatch.setattr(certified_kl, "betting_interval", keep)
    monkeypatch.setattr(certified_kl, "is_believed", fail)
    audit(key=1)
    low, high = seen
    assert (low[:2] == low.min()).all()
    assert low[0] == 0.0
    assert (high[:2] == high.max()).all()
    assert high[0] > 2 * high[2:].max()
    assert (low[2:] == high[2:]).all()


def test_what_leaves_its_range_is_said(monkeypatch):
    monkeypatch.setattr(certified_kl, "_range", lambda spec, gamma: (0.0, 1e-3))
    report = audit()
    assert any("beyond-bounds" in text for text in report.warnings)
    assert "certified_kl_low" not in report.rows[0]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"domain": None}, "domain: CertifiedKL needs a finite range"),
        ({"domain": gdp.Domain(x_bound=1.0)}, "domain: CertifiedKL needs a finite range"),
        (
            {"learn": [gdp.CertifiedKL("bernstein")], "rel_error": 0.1},
            "method: 'bernstein' is for a number of datasets",
        ),
    ],
)
def test_what_is_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        audit(**settings)


def test_bad_settings():
    with pytest.raises(ValueError, match="method: 'hoeffding' is not 'betting' or 'bernstein'"):
        gdp.CertifiedKL("hoeffding")
    with pytest.raises(ValueError, match="confidence: must be in"):
        gdp.CertifiedKL(confidence=95.0)
