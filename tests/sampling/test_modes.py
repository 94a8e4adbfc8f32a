"""Other modes are found where they matter, and the search says what it tried."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hills import FLAT, NORMAL, hills
from jax.scipy.special import gammaln
from scipy import stats

import gibbs_dp as gdp
from gibbs_dp.io import DamagedFileError
from gibbs_dp.sampling.modes import (
    MAX_LADDER_DIM,
    SCALES,
    Ended,
    Modes,
    is_apart,
    ladder_points,
    others,
    outside,
    warn_of,
)

COUNTS = {"num_chains": 4, "num_samples": 500, "num_warmup": 100}


def one(*places, **named):
    """One dataset of one row."""
    return jax.tree.map(lambda a: a[:1], hills(*places, **named))


def names(draws):
    return {w.rsplit("[", 1)[1][:-1] for w in draws.warnings}


# The log masses differ by log(0.4 / 0.6), and under the prior by (25^2 - 15^2) / 202 more: a mode
# at m under N(0, 10^2) has exp(-m^2 / 202) of its mass. At 0 and 12 chains are now and then wide
# enough to pass between them.
FAR = (25.0**2 - 15.0**2) / 202.0


@pytest.mark.trust(but="1-posterior0-places0--0.4054651081081643")
@pytest.mark.parametrize(
    ("posterior", "places", "gap"),
    [
        (FLAT[1], (1, 0.0, 12.0, 0.6), math.log(0.4 / 0.6)),
        (FLAT[1], (1, 15.0, 25.0, 0.5), 0.0),
        (FLAT[5], (5, 0.0, 12.0, 0.6), math.log(0.4 / 0.6)),
        (FLAT[5], (5, 15.0, 25.0, 0.5), 0.0),
    ],
)
@pytest.mark.parametrize("key", [1, 2])
def test_two_modes_are_found_with_their_masses(posterior, places, gap, key):
    draws = gdp.sample(posterior, one(*places), key=key, **COUNTS)
    assert "several-modes" in names(draws)
    assert draws.modes.share_of_datasets == 1.0
    assert draws.modes.num_starts >= 8
    assert abs(draws.modes.distance - abs(places[2] - places[1])) < 3.0
    # A mean of 50 energies, each with variance dim / 2, and of log variances: 4 standard errors.
    # Chains start in either mode.
    assert abs(abs(draws.modes.log_mass_gap) - abs(gap)) < 4.0 * math.sqrt(2 * 2.5 / 20)


@pytest.mark.trust
def test_a_prior_that_can_be_drawn_from_settles_two_modes():
    """SMC goes on where chains cannot pass; the second mode has 12% of the mass."""
    draws = gdp.sample(NORMAL, one(5, 15.0, 25.0, 0.5), key=1, **COUNTS)
    assert not names(draws)
    assert "several-modes" in draws.notes[0]
    second = float(np.mean(np.asarray(draws.theta)[..., 0] > 20.0))
    share = 1.0 / (1.0 + math.exp(FAR))
    # 2,048 particles, worth 100 independent ones at the least: 4 standard errors.
    assert abs(second - share) < 4.0 * math.sqrt(share * (1 - share) / 100)


@pytest.mark.trust(but="1")
@pytest.mark.parametrize(
    "dim", [pytest.param(1, marks=pytest.mark.of_cpus("chains that climb down raise no alarm")), 5]
)
def test_a_narrow_peak_in_a_broad_hill(dim):
    """Half of the mass is outside of the peak, but for what of the hill lies in it."""
    draws = gdp.sample(FLAT[dim], one(dim, 0.0, 0.0, 0.5, width=0.01), **COUNTS)
    assert "nested-scales" in names(draws)
    assert draws.modes.has_ladder
    assert draws.modes.num_rungs == SCALES.size
    if dim == 5:  # in one dimension chains climb down now and then
        assert abs(draws.modes.ladder_excess - 1.0) < 4.0 * draws.modes.ladder_excess_se


@pytest.mark.trust(but="1")
@pytest.mark.parametrize("dim", [1, 5])
def test_no_alarm_where_one_hill_has_all_the_mass(dim):
    for share in (1.0 - 1e-5, 0.5):
        second = 0.0 if share == 0.5 else 12.0  # the same hill twice, or one too small to matter
        draws = gdp.sample(FLAT[dim], one(dim, 0.0, second, share), **COUNTS)
        assert not names(draws)
        assert draws.modes.num_starts >= 8
        assert draws.modes.share_of_datasets == 0.0
        assert 0.0 <= draws.modes.ladder_excess < 0.01


def beta_binomial(theta, z):
    """Minus the log probability of z of 20 successes, their share from a Beta law of this size."""
    half = 0.5 * jnp.exp(theta["log_size"])
    whole = 2.0 * half
    up = gammaln(z + half) + gammaln(20.0 - z + half) - gammaln(20.0 + whole)
    return -(up + gammaln(whole) - 2.0 * gammaln(half))


@pytest.mark.trust(but="1")
@pytest.mark.parametrize("key", [1, 2])
def test_what_only_rounding_sees_is_no_mode(key):
    """Of a large size log gamma functions differ by nothing but their rounding, in hundreds."""
    posterior = gdp.GibbsPosterior(beta_binomial, {"log_size": dist.Normal(2.0, 1.0)})
    data = jnp.array([3.0, 9.0, 12.0, 17.0, 8.0, 10.0, 5.0, 14.0, 11.0, 6.0])
    draws = gdp.sample(posterior, data, key=key)
    assert not names(draws)
    assert not draws.notes
    assert draws.modes.share_of_datasets == 0.0
    assert draws.modes.has_ladder
    # The same density on a lattice, in double precision: 4 errors of 500 effective draws.
    u = np.linspace(-2.0, 9.0, 4001)
    half, z = 0.5 * np.exp(u)[:, None], np.asarray(data)
    log_p = stats.betabinom.logpmf(z, 20, half, half).sum(axis=1) - 0.5 * (u - 2.0) ** 2
    p = np.exp(log_p - log_p.max())
    mean = float(p @ u / p.sum())
    sd = math.sqrt(p @ (u - mean) ** 2 / p.sum())
    assert abs(float(draws.theta["log_size"].mean()) - mean) < 4.0 * sd / math.sqrt(500)


@pytest.mark.trust
def test_of_a_batch_the_share_is_told():
    single, double = hills(1, 0.0, 12.0, 1.0 - 1e-6), hills(1, 0.0, 12.0, 0.6)
    batch = jax.tree.map(lambda a, b: np.stack([a[:1], b[:1], a[1:2], a[2:3]]), single, double)
    draws = gdp.sample(FLAT[1], batch, is_batch=True, **COUNTS)
    assert draws.modes.num_searched == 4
    assert draws.modes.share_of_datasets == 0.25
    assert any(w.startswith("1 of 4 posteriors have a second mode") for w in draws.warnings)


def test_a_file_keeps_what_was_found(tmp_path):
    draws = gdp.sample(FLAT[1], one(1, 0.0, 12.0, 0.6), **COUNTS)
    draws.save(tmp_path / "draws.nc")
    assert gdp.load_draws(tmp_path / "draws.nc").modes == draws.modes
    for wrong in ({"num_starts": 3}, dict(draws.settings["modes"], distance="<b>"), 7):
        draws.settings["modes"] = wrong
        draws.save(tmp_path / "wrong.nc")
        with pytest.raises(DamagedFileError, match="other modes"):
            gdp.load_draws(tmp_path / "wrong.nc")


def test_findings_are_json():
    found = Modes(num_searched=1, num_starts=16)
    assert Modes.of_plain(json.loads(json.dumps(found.plain, allow_nan=False))).plain == found.plain
    assert not warn_of(found)


@pytest.mark.parametrize("dim", [1, 3, 20])
def test_a_ladder_weighs_what_is_outside(dim):
    """A peak of sd 1 and a hill of sd 100 with half of the mass each."""
    points = ladder_points(16, 40 * SCALES.size, dim).astype(float)
    square = np.sum(points**2, axis=-1)
    narrow = -0.5 * square
    wide = -0.5 * square / 1e4 - dim * np.log(100.0)
    both = outside(-np.logaddexp(narrow, wide), points)
    share, se = both.share.mean(), np.sqrt(np.sum(both.se**2)) / 16
    radius = stats.chi2.ppf(0.9999, dim)
    expected = 0.5 * 1e-4 + 0.5 * stats.chi2.sf(radius / 1e4, dim)
    assert abs(share - expected) < 4.0 * se
    assert se < 0.05
    alone = outside(-narrow, points)
    assert alone.share.max() < 1e-2  # 1e-4 are expected
    assert np.isnan(outside(np.full((1, 40 * SCALES.size), np.inf), points[:1]).share).all()
    assert dim <= MAX_LADDER_DIM


def ended(means, masses, **named):
    mean = np.asarray(means, float)[:, None, None]
    shape = mean.shape[:2]
    settings = {"ess": 50.0, "is_good": np.ones(shape, bool)} | named
    return Ended(mean, np.ones(mean.shape), np.asarray(masses, float)[:, None], **settings)


def test_what_counts_as_another_mode():
    first = np.zeros(1, int)
    assert not is_apart(ended([0.0, 0.8, -1.0], [0.0, 0.0, 0.0]))
    far = ended([0.0, 9.0, -30.0], [0.0, -3.0, -8.0])
    assert is_apart(far)
    found = others(far, first)
    assert found.is_found.all()
    assert found.distance == 9.0
    assert found.gap == -3.0
    # A thousandth of the mass, or a run that cannot be believed, is no finding.
    assert not others(ended([0.0, 9.0], [0.0, math.log(0.9e-3)]), first).is_found.any()
    assert others(ended([0.0, 9.0], [0.0, math.log(1.1e-3)]), first).is_found.all()
    bad = np.array([[True], [False]])
    assert not others(ended([0.0, 9.0], [0.0, 0.0], is_good=bad), first).is_found.any()
    # A mode that is sampled and has none of the mass is one that is wrong.
    assert others(ended([0.0, 9.0], [-50.0, 0.0]), first).is_found.all()
    # Few effective draws: means are as far apart as that.
    assert not is_apart(ended([0.0, 9.0], [0.0, 0.0], ess=1.0))
