"""Audits look for other modes on their pilots, in the program that they have compiled."""

import math

import flat
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hills import FLAT, hills, two_hills
from problems import gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp.engine import pilots
from gibbs_dp.engine.pilots import is_searched
from gibbs_dp.engine.plan import NUM_PILOTS
from gibbs_dp.engine.program import far_away
from gibbs_dp.engine.symmetry import Symmetry
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.modes import NOT_LOOKED_FOR, ONE_BY_CONVEXITY

COUNTS = {"num_datasets": 32, "num_information": 0, "progress": False}


@pytest.fixture
def seen(monkeypatch):
    """What the searches of audits found."""
    found = []
    search = pilots.find_modes

    def spy(*arguments):
        found.append(search(*arguments))
        return found[-1]

    monkeypatch.setattr(pilots, "find_modes", spy)
    return found


def names(report):
    return {w.rsplit("[", 1)[1][:-1] for w in report.warnings}


def audit(dim, *places, **named):
    """One row a dataset, drawn from a table: all of one dimension share a program."""
    table = gdp.populations.Table(hills(dim, *places, shift=0.3, **named))
    return flat.audit(FLAT[dim], table, 1, [1.0], sampler=gdp.Chains(), **COUNTS)


@pytest.mark.trust
@pytest.mark.parametrize("dim", [1, 5])
def test_they_alarm_where_it_matters_and_nowhere_else(dim, seen):
    assert "several-modes" in names(audit(dim, 0.0, 12.0, 0.6))
    # The main run starts in either mode.
    assert abs(abs(seen[-1].log_mass_gap) - abs(math.log(0.4 / 0.6))) < 0.3
    assert abs(seen[-1].distance - 12.0) < 1.0
    assert seen[-1].share_of_datasets > 0.3
    assert seen[-1].num_searched == NUM_PILOTS
    assert seen[-1].num_starts >= 4 * NUM_PILOTS

    assert "several-modes" in names(audit(dim, 15.0, 25.0, 0.5))
    assert abs(seen[-1].log_mass_gap) < 0.3

    # As much mass in a tenth of the width.
    assert "several-modes" in names(audit(dim, 0.0, 12.0, 0.5, width=0.1))
    assert abs(seen[-1].log_mass_gap) < 0.3

    report = audit(dim, 0.0, 0.0, 0.5, width=0.01)
    assert "nested-scales" in names(report)
    if dim == 5:  # in one dimension some chains climb down
        # One hill is put beside the other: 0.3 of its standard deviation.
        assert abs(seen[-1].ladder_excess - 1.0) < 4.0 * seen[-1].ladder_excess_se

    # Too small to matter, and no second hill; some pilots, not the main run, begin in the last one.
    small = 1.0 - 1e-5
    for places in ((0.0, 12.0, small), (0.0, 0.0, 0.5), (3.0, -5.0, small)):
        assert not names(audit(dim, *places)) & {"several-modes", "nested-scales"}
        assert seen[-1].share_of_datasets == 0.0
        assert seen[-1].num_rungs == 10
        assert seen[-1].ladder_excess < 0.01


@pytest.mark.trust
def test_searches_compile_nothing_but_the_ladder_and_symmetries(monkeypatch):
    """They begin far away in the program that pilots have compiled: no loss is traced again."""
    calls = []

    def loss(theta, z):
        calls.append(1)
        return two_hills(theta, z)

    def traces():
        before = len(calls)
        posterior = gdp.GibbsPosterior(loss, gdp.Flat(gdp.supports.real(1)))
        table = gdp.populations.Table(hills(1, 0.0, 12.0, 0.6))
        flat.audit(posterior, table, 1, [1.0], sampler=gdp.Chains(), **COUNTS)
        return len(calls) - before

    monkeypatch.setattr("gibbs_dp.engine.pilots.MAX_LADDER_DIM", 0)
    monkeypatch.setattr("gibbs_dp.engine.pilots.find_symmetry", lambda *_: Symmetry())
    with_search = traces()
    monkeypatch.setattr(pilots, "find_modes", lambda *_: NOT_LOOKED_FOR)
    assert with_search == traces()


def test_starts_are_far_away_at_all_scales():
    keys = jax.random.split(jax.random.key(0), 4000)
    sd = jnp.asarray([1.0, 100.0])
    found = np.asarray(jax.vmap(lambda k: far_away(k, sd))(keys)) / np.asarray(sd)
    # The logarithm of the width is uniform on (log 4, log 64); of the squares, whose mean has a
    # standard error of 4.3%, and of the logarithms, whose mean has one of 0.022: 4 of both.
    expected = (64.0**2 - 4.0**2) / (2.0 * math.log(16.0))
    assert np.allclose(np.mean(found**2, axis=0), expected, rtol=4 * 0.043)
    of_a_normal = -0.5 * (np.euler_gamma + math.log(2.0))
    assert np.allclose(
        np.mean(np.log(np.abs(found)), axis=0), math.log(16.0) + of_a_normal, atol=4 * 0.022
    )
    nothing = jax.vmap(lambda k: far_away(k, jnp.zeros(2)))(keys)
    assert not np.asarray(nothing).any()


@pytest.mark.parametrize(
    ("sampler", "dim", "is_so"),
    [
        (as_sampler(gdp.HMC()), 3, True),
        (as_sampler(gdp.MALA()), 512, True),
        (as_sampler(gdp.HMC()), 513, False),
        (as_sampler(gdp.ULA()), 3, False),
        (as_sampler(gdp.SGLD()), 3, False),
        (gdp.SMC(), 3, False),
        (gdp.Grid(low=-1.0, high=1.0), 1, False),
    ],
)
def test_where_it_makes_no_sense_nothing_is_looked_for(sampler, dim, is_so):
    assert is_searched(sampler.traits, dim) == is_so


@pytest.mark.parametrize(
    ("loss", "prior", "is_one"),
    [
        (gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0).to_event(1), True),
        (gdp.losses.huber, gdp.Flat(gdp.supports.real(2)), True),
        (
            gdp.losses.Declared(lambda theta, z: jnp.sum(theta**2)),
            gdp.Flat(gdp.supports.real(2)),
            False,
        ),
        (gdp.losses.KMeans(num_clusters=2), dist.Normal(jnp.zeros((2, 1)), 1.0).to_event(2), False),
        (lambda theta, z: jnp.sum(theta**2), dist.Normal(jnp.zeros(2), 1.0).to_event(1), False),
        (gdp.losses.logistic, dist.StudentT(2.0, jnp.zeros(2), 1.0).to_event(1), False),
        (gdp.losses.logistic, gdp.Flat(gdp.supports.box(-1.0, 1.0, 2)), False),
    ],
)
def test_what_is_declared_convex(loss, prior, is_one):
    """In flat coordinates, where the search would be: a box has others than theta."""
    assert gdp.GibbsPosterior(loss, prior).is_log_concave == is_one


@pytest.mark.trust
def test_one_mode_is_not_looked_for_twice(monkeypatch):
    """Neither pilots nor chains search where loss and prior say that there is one."""

    def fail(*_):
        raise AssertionError

    monkeypatch.setattr(pilots, "_climb", fail)
    # The program of healthy problems in test_alarms.py.
    report = flat.audit(gaussian_mean(2), gaussian_examples(2), 20, [1.0], **COUNTS, attack=False)
    assert "loss and prior are convex, so that there is one mode" in report.trust[0]
    draws = gdp.sample(gaussian_mean(2), np.zeros((4, 2)), sampler=gdp.HMC(), num_samples=50)
    assert draws.modes == ONE_BY_CONVEXITY
    assert "there is one mode" in draws.trust
